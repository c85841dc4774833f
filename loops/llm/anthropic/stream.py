"""Events of the Messages API, as plain JSON objects, turned into a ModelReply. Pure: no SDK, no clock of its own.

The SDK's own accumulation is not used, because it loses the whole answer when one call's JSON is broken, and models
unknown blocks by guessing. Here a block is what the wire said, with its deltas applied and nothing else changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from loops.engine.values import ModelEvent, ModelReply, ModelRequest, StopReason, Usage
from loops.llm.reply_builder import CallPart, Ending, OtherPart, Part, ReplyBuilder, TextPart, ThinkingPart
from loops.llm.transport_errors import number

_STOPS = {stop.value: stop for stop in StopReason if stop not in (StopReason.CUT, StopReason.OTHER)}


class MessageDecoder:
    """Takes the events of one answer in order; ``reply`` may be asked for at any moment, also after an early end."""

    def __init__(self, request: ModelRequest, model_id: str, *, xml: bool = False) -> None:
        self._request = request
        self._model_id = model_id
        self._draft = ReplyBuilder(request, xml=xml)
        self._open: dict[int, Part] = {}
        self._json: dict[int, list[str]] = {}
        self._usage: dict[str, Any] = {}
        self._stop = ""
        self._stop_detail = ""
        self.started = False
        self.request_id = ""

    def feed(self, event: Mapping[str, Any]) -> list[ModelEvent]:
        """Events of a kind not known are passed over. Raises KeyError, TypeError and the like on senseless ones."""
        match event.get("type"):
            case "message_start":
                self._start(event["message"])
            case "content_block_start":
                self._open_block(event["index"], event["content_block"])
            case "content_block_delta":
                self._delta(event["index"], event["delta"])
            case "content_block_stop":
                self._close_block(event["index"])
            case "message_delta":
                self._message_delta(event["delta"], event.get("usage") or {})
        return self._draft.events()

    def reply(self) -> ModelReply:
        """The answer as far as it has come."""
        stop = _STOPS.get(self._stop, StopReason.OTHER) if self._stop else StopReason.CUT
        end = Ending(
            stop=stop,
            usage=usage_of(self._usage),
            provider="anthropic",
            model_id=self._model_id,
            request_id=self.request_id,
            raw_stop=self._stop,
            stop_detail=self._stop_detail,
        )
        return self._draft.reply(self._request, end)

    def _start(self, message: Mapping[str, Any]) -> None:
        self.started = True
        self._model_id = str(message.get("model") or self._model_id)
        self._merge_usage(message.get("usage") or {})

    def _open_block(self, index: int, block: Mapping[str, Any]) -> None:
        kind = block["type"]
        part: Part
        if kind == "tool_use":
            part = self._draft.new_call(str(block.get("id") or ""), str(block.get("name") or ""), block)
            self._draft.announce(part)
        elif kind == "text":
            part = TextPart({**block, "text": ""})
            self._draft.add(part)
            self._draft.text(part, str(block.get("text") or ""))
        elif kind == "thinking":
            part = ThinkingPart({**block, "thinking": ""})
            self._draft.add(part)
            self._draft.thinking(part, str(block.get("thinking") or ""))
        else:
            part = OtherPart(dict(block))
            self._draft.add(part)
        self._open[index] = part

    def _delta(self, index: int, delta: Mapping[str, Any]) -> None:
        part = self._open.get(index)
        kind = delta.get("type")
        if isinstance(part, TextPart) and kind == "text_delta":
            self._draft.text(part, str(delta["text"]))
        elif isinstance(part, TextPart) and kind == "citations_delta":
            part.block["citations"] = [*(part.block.get("citations") or ()), delta["citation"]]
        elif isinstance(part, ThinkingPart) and kind == "thinking_delta":
            self._draft.thinking(part, str(delta["thinking"]))
        elif isinstance(part, ThinkingPart) and kind == "signature_delta":
            part.block["signature"] = str(delta["signature"])
        elif isinstance(part, CallPart) and kind == "input_json_delta":
            self._draft.arguments(part, str(delta["partial_json"]))
        elif isinstance(part, OtherPart):
            self._other_delta(index, part, delta)

    def _other_delta(self, index: int, part: OtherPart, delta: Mapping[str, Any]) -> None:
        if delta.get("type") == "input_json_delta":
            self._json.setdefault(index, []).append(str(delta["partial_json"]))
            return
        for key, value in delta.items():
            if key != "type":
                before = part.block.get(key)
                part.block[key] = before + value if isinstance(before, str) and isinstance(value, str) else value

    def _close_block(self, index: int) -> None:
        part = self._open.get(index)
        if isinstance(part, CallPart):
            part.closed = True
            if not part.pieces and part.block.get("input"):
                self._draft.arguments(part, json.dumps(part.block["input"]))
        elif isinstance(part, ThinkingPart):
            part.closed = True
        elif isinstance(part, OtherPart) and index in self._json:
            text = "".join(self._json.pop(index))
            part.block["input"] = _object_or_empty(text)

    def _message_delta(self, delta: Mapping[str, Any], usage: Mapping[str, Any]) -> None:
        self._stop = str(delta.get("stop_reason") or "")
        self._stop_detail = stop_detail(delta)
        self._merge_usage(usage)

    def _merge_usage(self, usage: Mapping[str, Any]) -> None:
        """Later counts are totals and replace earlier ones; a count left out keeps its value."""
        self._usage.update({key: value for key, value in usage.items() if value is not None})


def stop_detail(delta: Mapping[str, Any]) -> str:
    """Why the model stopped, beyond the reason: the category of a refusal, or the stop sequence it met."""
    details = delta.get("stop_details")
    if isinstance(details, Mapping):
        parts = [details.get("category"), details.get("explanation")]
        return ": ".join(str(part) for part in parts if part) or str(details.get("type") or "")
    return str(delta.get("stop_sequence") or "")


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Token counts; the cost is added by whoever knows prices."""
    details = usage.get("output_tokens_details")
    return Usage(
        input_tokens=number(usage.get("input_tokens")),
        output_tokens=number(usage.get("output_tokens")),
        cache_read_tokens=number(usage.get("cache_read_input_tokens")),
        cache_write_tokens=number(usage.get("cache_creation_input_tokens")),
        thinking_tokens=number(details.get("thinking_tokens")) if isinstance(details, Mapping) else 0,
        cost_microusd=None,
    )


def events_of(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A whole message, as an endpoint that doesn't stream gives it, in the form of events."""
    yield {"type": "message_start", "message": {**message, "content": []}}
    for index, block in enumerate(message.get("content") or ()):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_stop", "index": index}
    keys = ("stop_reason", "stop_sequence", "stop_details")
    yield {"type": "message_delta", "delta": {key: message.get(key) for key in keys}, "usage": message.get("usage")}
    yield {"type": "message_stop"}


def _object_or_empty(text: str) -> Any:
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
