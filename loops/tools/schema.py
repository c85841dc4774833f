"""Compile a tool's JSON Schema once and explain precisely what a call got wrong (SPEC I2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry

from loops.engine.values import Json
from loops.tools.clean import clean_text
from loops.tools.globs import BadPattern, regular_expression

_MOST_ERRORS = 5
_LONGEST_ERROR = 300


class BadSchema(ValueError):
    """A schema that is not one, refers to another document, or uses what could take for ever."""


class Validator:
    """``errors(arguments)`` -> sentences, empty when valid. Raises BadSchema when made."""

    def __init__(self, schema: Mapping[str, Json]) -> None:
        if schema.get("type") != "object":
            raise BadSchema("the parameters of a tool are an object")
        _refuse(schema)
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            raise BadSchema(f"not a JSON Schema: {error.message}") from error
        self._validator = _Linear(schema, registry=Registry())

    def errors(self, arguments: Mapping[str, Json]) -> list[str]:
        found: list[str] = []
        for error in self._validator.iter_errors(arguments):
            if len(found) == _MOST_ERRORS:
                return [*found, "and there are more faults than these"]
            where = "/" + "/".join(str(part) for part in error.absolute_path)
            found.append(_both_ends(clean_text(f"{where}: {error.message}")))
        return found


def _both_ends(text: str) -> str:
    """Where it is at the beginning, what is wrong at the end; of a long value between them only how long it is."""
    if len(text) <= _LONGEST_ERROR:
        return text
    said = f" … ({len(text):,} characters) … "
    half = (_LONGEST_ERROR - len(said)) // 2
    return f"{text[:half]}{said}{text[-half:]}"


def _refuse(schema: Mapping[str, Json]) -> None:
    """No document from elsewhere, no patterns that Python's own engine would run."""
    waiting: list[Json] = [schema]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            for key in ("$ref", "$dynamicRef"):
                target = item.get(key)
                if isinstance(target, str) and not target.startswith("#"):
                    raise BadSchema(f"{key} to another document is forbidden: {target[:80]!r}")
            if "patternProperties" in item and isinstance(item["patternProperties"], Mapping):
                raise BadSchema("patternProperties is not supported")
            waiting += item.values()
        elif isinstance(item, Sequence) and not isinstance(item, str):
            waiting += item


def _pattern(validator: Any, pattern: str, instance: object, schema: object) -> Iterator[ValidationError]:
    """``pattern`` by RE2: a server's schema cannot hang the worker."""
    if isinstance(instance, str):
        try:
            if regular_expression(pattern).search(instance) is None:
                yield ValidationError(f"{instance[:80]!r} does not match {pattern!r}")
        except BadPattern as error:
            yield ValidationError(str(error))


_Linear: Any = extend(Draft202012Validator, {"pattern": _pattern})  # type: ignore[no-untyped-call]
