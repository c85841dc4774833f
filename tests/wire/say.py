"""What a model server can answer, and how that looks on the wire in either form.

A handler gets a ``Seen`` request and gives back a ``Say`` (a turn in neutral words, good for both endpoints) or a
``Raw`` answer (exact status, headers and bytes).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Ending = Literal["", "end", "cut", "reset", "stall"]
"""After the last event: "end" closes the answer properly, "cut" in the middle of a chunk, "reset" kills the
connection, "stall" keeps it open and silent. Empty means "end" after everything was said."""


@dataclass(frozen=True)
class Say:
    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    thinking: str = ""
    stop: str = ""
    usage: Mapping[str, Any] = field(default_factory=dict)
    ids: Sequence[str] = ()
    raw_json: Mapping[int, str] = field(default_factory=dict)
    """Argument text sent for a call instead of its proper JSON."""
    wire: Wire | None = None


@dataclass(frozen=True)
class Wire:
    """How the bytes travel. ``events`` is how many events are sent before ``then``; None means all."""

    crlf: bool = False
    chunk: int = 0
    pace: float = 0.0
    events: int | None = None
    then: Ending = ""
    insert: Mapping[int, str] = field(default_factory=dict)
    """Exact SSE text sent before the event of that number."""


@dataclass(frozen=True)
class Raw:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | str = b""
    wire: Wire = field(default_factory=Wire)
    stream: bool = False

    @classmethod
    def sse(cls, body: bytes | str, **more: Any) -> Raw:
        return cls(headers={"content-type": "text/event-stream"}, body=body, stream=True, **more)

    @classmethod
    def error(cls, status: int, kind: str, message: str = "no", **headers: str) -> Raw:
        body = json.dumps({"type": "error", "error": {"type": kind, "message": message}})
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return cls(status, {"content-type": "application/json", **named}, body)


@dataclass(frozen=True)
class Seen:
    """One request as the server got it."""

    form: Literal["anthropic", "openai", "embeddings"]
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    number: int
    raw: bytes = b""
    """The body as it came."""

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self.body.get("messages") or []
        return found

    @property
    def turn(self) -> int:
        """How often the model has spoken before."""
        return sum(1 for message in self.messages if message.get("role") == "assistant")

    @property
    def said(self) -> str:
        """Everything in the conversation as one text, system prompt included."""
        return json.dumps([self.body.get("system"), self.messages], ensure_ascii=False)

    @property
    def call_ids(self) -> list[str]:
        """The ids of all calls made so far, in order."""
        found: list[str] = []
        for message in self.messages:
            found += [call["id"] for call in message.get("tool_calls") or ()]
            content = message.get("content")
            blocks = content if isinstance(content, list) else []
            found += [block["id"] for block in blocks if block.get("type") == "tool_use"]
        return found


Handler = Callable[[Seen], "Say | Raw"]


def anthropic_events(say: Say, seen: Seen) -> list[dict[str, Any]]:
    usage = {"input_tokens": len(seen.said) // 4, "output_tokens": 1, **say.usage}
    message: dict[str, Any] = {
        "id": f"msg_{seen.number:04d}",
        "type": "message",
        "role": "assistant",
        "model": seen.body.get("model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, (block, deltas) in enumerate(_blocks(say, seen)):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    stop = say.stop or ("tool_use" if say.calls else "end_turn")
    delta = {"stop_reason": stop, "stop_sequence": None}
    said = len(say.text) + len(say.thinking) + sum(len(json.dumps(args)) for _, args in say.calls)
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1 + said // 4}})
    return [*events, {"type": "message_stop"}]


def _blocks(say: Say, seen: Seen) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if say.thinking:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(say.thinking)]
        signature = {"type": "signature_delta", "signature": f"sig-{seen.number}=="}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature]
    if say.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(say.text)]
    for at, (name, arguments) in enumerate(say.calls):
        text = say.raw_json.get(at, json.dumps(arguments) if arguments else "")
        block = {"type": "tool_use", "id": call_id(say, seen, at, "toolu"), "name": name, "input": {}}
        yield block, [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *_pieces(text)]]


def call_id(say: Say, seen: Seen, at: int, prefix: str) -> str:
    return say.ids[at] if at < len(say.ids) else f"{prefix}_{seen.turn}_{at}"


def openai_chunks(say: Say, seen: Seen) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in _pieces(say.thinking)]
    deltas += [{"content": piece} for piece in _pieces(say.text)]
    for at, (name, arguments) in enumerate(say.calls):
        head: dict[str, Any] = {"index": at, "id": call_id(say, seen, at, "call"), "type": "function"}
        deltas.append({"tool_calls": [{**head, "function": {"name": name, "arguments": ""}}]})
        text = say.raw_json.get(at, json.dumps(arguments))
        deltas += [{"tool_calls": [{"index": at, "function": {"arguments": piece}}]} for piece in _pieces(text)]
    stop = say.stop or ("tool_calls" if say.calls else "stop")
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": stop})
    chat: dict[str, Any] = {
        "id": f"chatcmpl-{seen.number}",
        "object": "chat.completion.chunk",
        "model": seen.body.get("model"),
    }
    usage: dict[str, Any] = {
        "prompt_tokens": len(seen.said) // 4,
        "completion_tokens": 7,
        "total_tokens": 0,
        **say.usage,
    }
    return [*({**chat, "choices": [choice]} for choice in choices), {**chat, "choices": [], "usage": usage}]


def _pieces(text: str, size: int = 16) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def anthropic_sse(events: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]


def openai_sse(chunks: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks] + ["data: [DONE]\n\n"]
