"""A form made from a tool's JSON Schema, for approving with edits, and the way back from what was typed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from loops.engine.encoding import strict_json

PREFIX = "arg-"
_LINES = (3, 24)


class Unreadable(Exception):
    """What was typed is not a value of the field's type; ``errors`` by field."""

    def __init__(self, errors: dict[str, list[str]]) -> None:
        super().__init__("some fields cannot be read")
        self.errors = errors


@dataclass(frozen=True, slots=True)
class Choice:
    value: str
    label: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class Field:
    """One argument. ``control`` is text, lines, number, choice or json."""

    name: str
    control: str
    value: str = ""
    kind: str = "string"
    required: bool = False
    hint: str = ""
    errors: list[str] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    rows: int = 3

    @property
    def key(self) -> str:
        """Name of the form field."""
        return f"{PREFIX}{self.name}"


def fields(
    view: Mapping[str, Any], typed: Mapping[str, str] | None = None, errors: Mapping[str, list[str]] | None = None
) -> list[Field]:
    """The form: required arguments first, as the schema has them, then what the call has beyond the schema."""
    schema, arguments = _schema(view), _arguments(view)
    properties = schema["properties"]
    names = [*properties, *(name for name in arguments if name not in properties)]
    required = schema["required"]
    names.sort(key=lambda name: name not in required)
    return [_field(name, properties.get(name, {}), arguments, required, typed, errors or {}) for name in names]


def read(view: Mapping[str, Any], typed: Mapping[str, str]) -> dict[str, Any]:
    """The arguments that were typed. Raises Unreadable. Whether they are allowed is judged elsewhere."""
    properties, arguments = _schema(view)["properties"], _arguments(view)
    result: dict[str, Any] = {}
    errors: dict[str, list[str]] = {}
    for one in fields(view):
        text = typed.get(one.key)
        if text is None or (text == "" and not one.required and (one.control != "lines" or one.name not in arguments)):
            continue
        try:
            result[one.name] = _value(one, text, properties.get(one.name, {}), arguments.get(one.name))
        except ValueError as error:
            errors[f"arguments.{one.name}"] = [str(error)]
    if errors:
        raise Unreadable(errors)
    return result


def _schema(view: Mapping[str, Any]) -> dict[str, Any]:
    schema = view.get("parameters_schema")
    schema = schema if isinstance(schema, dict) else {}
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    known = {name: item if isinstance(item, dict) else {} for name, item in properties.items()}
    required = schema.get("required")
    return {"properties": known, "required": required if isinstance(required, list) else []}


def _arguments(view: Mapping[str, Any]) -> dict[str, Any]:
    arguments = view.get("arguments")
    return arguments if isinstance(arguments, dict) else {}


def _field(
    name: str,
    schema: Mapping[str, Any],
    arguments: Mapping[str, Any],
    required: list[str],
    typed: Mapping[str, str] | None,
    errors: Mapping[str, list[str]],
) -> Field:
    kind, given = _kind(schema, arguments.get(name)), arguments.get(name)
    value = typed.get(f"{PREFIX}{name}", "") if typed is not None else _text(kind, given, name in arguments)
    control = {"string": "lines", "integer": "number", "number": "number", "boolean": "choice"}.get(kind, "json")
    control = "choice" if isinstance(schema.get("enum"), list) else control
    lines = value.count("\n") + len(value) // 90 + 1
    return Field(
        name=name,
        control=control,
        value=value,
        kind=kind,
        required=name in required,
        hint=str(schema.get("description", "")),
        errors=list(errors.get(f"arguments.{name}", [])),
        choices=_choices(schema, value, name in required) if control == "choice" else [],
        rows=1 if lines == 1 and control == "lines" else min(max(lines + 1, _LINES[0]), _LINES[1]),
    )


def _kind(schema: Mapping[str, Any], given: Any) -> str:
    kind = schema.get("type")
    if isinstance(kind, str) and kind in {"string", "integer", "number", "boolean", "array", "object"}:
        return kind
    return "string" if isinstance(given, str) and kind is None else "any"


def _text(kind: str, given: Any, present: bool) -> str:
    if not present:
        return ""
    if kind == "string" and isinstance(given, str):
        return given
    indent = 2 if isinstance(given, dict | list) else None
    return json.dumps(given, ensure_ascii=False, indent=indent)


def _choices(schema: Mapping[str, Any], value: str, required: bool) -> list[Choice]:
    options = schema["enum"] if isinstance(schema.get("enum"), list) else [True, False]
    texts = [option if isinstance(option, str) else json.dumps(option, ensure_ascii=False) for option in options]
    if value and value not in texts:
        texts.append(value)
    empty = [] if required and value else [Choice("", "not given", not value)]
    return empty + [Choice(text, {"true": "yes", "false": "no"}.get(text, text), text == value) for text in texts]


def _value(one: Field, text: str, schema: Mapping[str, Any], given: Any) -> Any:
    if one.control == "choice" and isinstance(schema.get("enum"), list):
        same = (item for item in schema["enum"] if text == (item if isinstance(item, str) else json.dumps(item)))
        return next(same, text)
    if one.kind == "string":
        return _newlines(text, given)
    if one.kind in ("integer", "number"):
        return _number(one.kind, text)
    if one.kind == "boolean":
        if text not in ("true", "false"):
            raise ValueError("Choose yes or no.")
        return text == "true"
    return _json(text)


def _newlines(text: str, given: Any) -> str:
    """Browsers send every line end as CRLF; the file keeps the kind it had."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return plain.replace("\n", "\r\n") if isinstance(given, str) and "\r\n" in given else plain


def _number(kind: str, text: str) -> int | float:
    try:
        number = strict_json.read(text)
    except strict_json.NotJson:
        number = None
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError("Give a number.")
    if kind == "integer" and not isinstance(number, int):
        raise ValueError("Give a whole number.")
    return number


def _json(text: str) -> Any:
    try:
        return strict_json.read(text)
    except strict_json.NotJson as error:
        raise ValueError(f"This cannot be used: {error}.") from error
