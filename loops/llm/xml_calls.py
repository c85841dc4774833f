"""XML tool calls in terms of house-form blocks: both providers use this when a request asks for ``xml_tools``.

A call becomes a ``tool_use`` block like any other, so that the rest of the system needs to know nothing. The block
keeps the model's own words under "xml"; the next request gives exactly these back to the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loops.engine.encoding.strict_json import NotJson
from loops.engine.tool_calls.xml_calls import (
    ArgumentPiece,
    CallStart,
    Item,
    Scanner,
    TextPiece,
    XmlCall,
    call_text,
    result_text,
)
from loops.engine.values import (
    ArgumentsDelta,
    Block,
    CallDetected,
    Json,
    ModelEvent,
    TextDelta,
    ToolCall,
    ToolSpec,
)
from loops.llm.arguments import parse_arguments, parse_json
from loops.llm.conversation import blocks_of, result_content
from loops.llm.text import clean_text


@dataclass(slots=True)
class XmlResult:
    """What a text turned out to hold."""

    blocks: list[Block] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    text: str = ""


class XmlText:
    """One text block in which calls may be written."""

    def __init__(self, first_index: int) -> None:
        self._scanner = Scanner(first_index)
        self._items: list[TextPiece | XmlCall] = []

    @property
    def next_index(self) -> int:
        """The index the next call will have."""
        return self._scanner.next_index

    def feed(self, text: str) -> list[ModelEvent]:
        """Live events of one more piece."""
        return self._events(self._scanner.feed(text))

    def finish(self) -> list[ModelEvent]:
        """Live events of the rest."""
        return self._events(self._scanner.finish())

    def _events(self, items: Sequence[Item]) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        for item in items:
            match item:
                case TextPiece(text):
                    self._items.append(item)
                    events.append(TextDelta(text))
                case CallStart(index, name):
                    events.append(CallDetected(index, name))
                case ArgumentPiece(index, text):
                    events.append(ArgumentsDelta(index, text))
                case XmlCall():
                    self._items.append(item)
        return events

    def result(self, tools: Sequence[ToolSpec], turn: int, cut: str, *, refused: bool) -> XmlResult:
        """``cut`` is the error of a call in whose middle the text ended; a refusal spoils every call."""
        made = XmlResult()
        schemas = {tool.name: tool.parameters for tool in tools}
        text: list[str] = []
        for item in self._items:
            if isinstance(item, TextPiece):
                text.append(item.text)
                continue
            _add_text(made, text)
            error = cut if refused or (item.cut and cut) else ""
            call = tool_call(item, schemas.get(item.name), turn, error)
            name = call.name or "unnamed"
            block: dict[str, Any] = {"type": "tool_use", "id": call.id, "name": name, "input": call.arguments}
            made.blocks.append({**block, "xml": item.source})
            made.calls.append(call)
        _add_text(made, text)
        return made


def _add_text(made: XmlResult, pieces: list[str]) -> None:
    text = "".join(pieces)
    pieces.clear()
    made.text += text
    if text:
        made.blocks.append({"type": "text", "text": text})


def tool_call(found: XmlCall, schema: Mapping[str, Json] | None, turn: int, error: str = "") -> ToolCall:
    """A scanned call with its arguments in the types the schema wants, or with an error."""
    call_id = f"xml_{turn}_{found.index}"
    error = error or found.error
    arguments: Mapping[str, Json] = {}
    if not error and not found.arguments and found.body:
        arguments, error = parse_arguments(found.body)
        error = error and f'{error}; write each argument as <argument name="...">value</argument>'
    elif not error:
        arguments, error = _coerced(found.arguments, schema)
    return ToolCall(call_id, found.name, {} if error else arguments, clean_text(error))


def _coerced(pairs: Sequence[tuple[str, str]], schema: Mapping[str, Json] | None) -> tuple[Mapping[str, Json], str]:
    properties = schema.get("properties") if schema else None
    known: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
    arguments: dict[str, Json] = {}
    for name, text in pairs:
        try:
            arguments[name] = _value(text, known.get(name))
        except NotJson as bad:
            return {}, f'argument "{name}" must be JSON here: {bad}'
    return arguments, ""


def _value(text: str, schema: Any) -> Json:
    """Strings stay as they are written; JSON is parsed where the schema wants something else."""
    types = _types(schema)
    if "string" in types:
        return text
    stripped = text.strip()
    if "boolean" in types and stripped.lower() in ("true", "false"):
        return stripped.lower() == "true"
    if types:
        return parse_json(stripped)
    if stripped[:1] in ("{", "["):
        try:
            return parse_json(stripped)
        except NotJson:
            return text
    return text


def _types(schema: Any) -> set[str]:
    """Every JSON type the schema allows, as far as it says so plainly."""
    if not isinstance(schema, Mapping):
        return set()
    stated = schema.get("type")
    found = {stated} if isinstance(stated, str) else set(stated or ())
    for choice in [*(schema.get("anyOf") or ()), *(schema.get("oneOf") or ())]:
        found |= _types(choice)
    values = schema.get("enum")
    return found | {"string"} if values and any(isinstance(value, str) for value in values) else found


def as_text(message: Mapping[str, Any], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """A message's blocks with calls and results written out; other blocks unchanged. ``names``: call id -> tool."""
    blocks: list[dict[str, Any]] = []
    glue = "\n" if message.get("role") == "user" else ""
    for block in blocks_of(message):
        text = _written(block, names)
        if text is None:
            blocks.append(dict(block))
        elif blocks and blocks[-1]["type"] == "text":
            blocks[-1] = {"type": "text", "text": blocks[-1]["text"] + glue + text}
        else:
            blocks.append({"type": "text", "text": text})
    return blocks


def _written(block: Mapping[str, Any], names: Mapping[str, str]) -> str | None:
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    if kind == "tool_use":
        return str(block["xml"]) if "xml" in block else call_text(str(block.get("name")), _pairs(block.get("input")))
    if kind == "tool_result":
        name = names.get(str(block.get("tool_use_id")), "")
        return result_text(name, result_content(block), is_error=bool(block.get("is_error")))
    return None


def _pairs(arguments: Any) -> list[tuple[str, str]]:
    if not isinstance(arguments, Mapping):
        return []
    return [(k, v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)) for k, v in arguments.items()]


def tool_names(messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Which tool each call in the conversation is for."""
    pairs = [(block.get("id"), block.get("name")) for message in messages for block in blocks_of(message)]
    return {str(call_id): str(name) for call_id, name in pairs if call_id and name}
