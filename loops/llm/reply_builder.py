"""A model's answer while it grows: provider decoders put pieces in, live events and at last a ModelReply come out.

Everything that has to be the same for every provider is here: order of calls, early detection, cleaning of text,
strict arguments, the refusal to trust a call that was cut, XML calls in text, and the times of first token and call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from loops.engine.values import (
    ArgumentsDelta,
    Block,
    CallDetected,
    ModelEvent,
    ModelReply,
    ModelRequest,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    Usage,
)
from loops.llm.arguments import parse_arguments
from loops.llm.conversation import turn_number
from loops.llm.text import StreamCleaner, clean_json, clean_text
from loops.llm.xml_calls import XmlText

_CUT_SHORT = {
    StopReason.MAX_TOKENS: "cut off by max_tokens; not executed",
    StopReason.CONTEXT_EXCEEDED: "cut off by the end of the context window; not executed",
    StopReason.CUT: "cut off by the end of the stream; not executed",
}
_REFUSED = "the model refused to go on; not executed"


@dataclass(slots=True)
class TextPart:
    """A block of text; ``xml`` reads the calls in it when the model has no native ones."""

    block: dict[str, Any]
    cleaner: StreamCleaner = field(default_factory=StreamCleaner)
    pieces: list[str] = field(default_factory=list)
    xml: XmlText | None = None


@dataclass(slots=True)
class ThinkingPart:
    """A block of reasoning."""

    block: dict[str, Any]
    cleaner: StreamCleaner = field(default_factory=StreamCleaner)
    pieces: list[str] = field(default_factory=list)
    closed: bool = False
    signed: bool = True
    """Whether the provider signs its thinking: then unsigned thinking can't be sent back and isn't kept as a block."""


@dataclass(slots=True)
class CallPart:
    """A native call; ``pieces`` are its JSON as it arrives."""

    index: int
    id: str
    name: str = ""
    block: dict[str, Any] = field(default_factory=dict)
    pieces: list[str] = field(default_factory=list)
    announced: bool = False
    closed: bool = False
    error: str = ""
    """What the provider itself said of a call that it could not read."""


@dataclass(slots=True)
class OtherPart:
    """A block of the provider's own (server tools, compaction, ...), kept exactly."""

    block: dict[str, Any]


Part = TextPart | ThinkingPart | CallPart | OtherPart


@dataclass(frozen=True, slots=True)
class Ending:
    """What the provider said about the answer as a whole."""

    stop: StopReason
    usage: Usage
    provider: str
    model_id: str
    request_id: str = ""
    raw_stop: str = ""
    stop_detail: str = ""


class ReplyBuilder:
    """Pieces go in through one method for each kind; ``events`` and ``reply`` come out."""

    def __init__(
        self, request: ModelRequest, *, xml: bool = False, watch: Callable[[], float] = time.monotonic
    ) -> None:
        self.parts: list[Part] = []
        self.turn = turn_number(request.messages, "xml")
        self._xml = xml
        self._events: list[ModelEvent] = []
        self._calls = 0
        self._last: Part | None = None
        self._watch = watch
        self._started = watch()
        self._first_token = 0
        self._first_call = 0

    def events(self) -> list[ModelEvent]:
        """What happened since the last time, for the live view."""
        events, self._events = self._events, []
        return events

    # --- pieces in -------------------------------------------------------------------------------------------------

    def add(self, part: Part) -> None:
        """Begin a part: it is now the last one."""
        if self._xml and isinstance(part, TextPart):
            part.xml = XmlText(self._calls)
        self.parts.append(part)
        self._last = part

    def new_call(self, call_id: str, name: str, block: Mapping[str, Any] | None = None) -> CallPart:
        """Begin a native call."""
        part = CallPart(self._calls, clean_text(call_id), clean_text(name), dict(block or {}))
        self._calls += 1
        self.add(part)
        return part

    def announce(self, part: CallPart) -> None:
        """Tell that a call is coming, once, as soon as its name is known."""
        if not part.announced and part.name:
            part.announced = True
            self._emit(CallDetected(part.index, part.name))

    def text(self, part: TextPart, piece: str) -> None:
        """More text."""
        self._last = part
        clean = part.cleaner.feed(piece)
        part.pieces.append(clean)
        if part.xml is not None:
            for event in part.xml.feed(clean):
                self._emit(event)
            self._calls = part.xml.next_index
        elif clean:
            self._emit(TextDelta(clean))

    def thinking(self, part: ThinkingPart, piece: str) -> None:
        """More reasoning."""
        self._last = part
        part.pieces.append(piece)
        clean = part.cleaner.feed(piece)
        if clean:
            self._emit(ThinkingDelta(clean))

    def arguments(self, part: CallPart, piece: str) -> None:
        """More of a call's JSON."""
        self._last = part
        if piece:
            part.pieces.append(piece)
            self._emit(ArgumentsDelta(part.index, clean_text(piece)))

    def _emit(self, event: ModelEvent) -> None:
        if not self._first_token:
            self._first_token = self._elapsed()
        if isinstance(event, CallDetected) and not self._first_call:
            self._first_call = self._elapsed()
        self._events.append(event)

    def _elapsed(self) -> int:
        return max(1, round((self._watch() - self._started) * 1000))

    # --- the reply out ---------------------------------------------------------------------------------------------

    def reply(self, request: ModelRequest, end: Ending) -> ModelReply:
        """The whole answer, with only those calls executable that can be trusted."""
        stop = end.stop
        blocks: list[Block] = []
        calls: list[ToolCall] = []
        texts: list[str] = []
        for part in self.parts:
            if isinstance(part, TextPart):
                texts.append(self._close_text(part, request, stop, blocks, calls))
            elif isinstance(part, CallPart):
                calls.append(self._close_call(part, stop, blocks))
            elif isinstance(part, ThinkingPart):
                _close_thinking(part, blocks)
            else:
                blocks.append(clean_json(part.block))
        if calls and stop in (StopReason.END_TURN, StopReason.STOP_SEQUENCE, StopReason.OTHER):
            stop = StopReason.TOOL_USE
        return ModelReply(
            blocks=tuple(blocks),
            text="".join(texts),
            thinking="\n\n".join(self._thoughts()),
            calls=tuple(calls),
            stop=stop,
            usage=end.usage,
            provider=end.provider,
            model_id=clean_text(end.model_id),
            request_id=clean_text(end.request_id),
            raw_stop=clean_text(end.raw_stop),
            stop_detail=clean_text(end.stop_detail),
            first_token_ms=self._first_token,
            first_call_ms=self._first_call,
            duration_ms=self._elapsed(),
        )

    def _thoughts(self) -> list[str]:
        thinking = [part for part in self.parts if isinstance(part, ThinkingPart)]
        return [text for part in thinking if (text := clean_text("".join(part.pieces)))]

    def _close_text(
        self, part: TextPart, request: ModelRequest, stop: StopReason, blocks: list[Block], calls: list[ToolCall]
    ) -> str:
        rest = part.cleaner.finish()
        part.pieces.append(rest)
        if part.xml is None:
            text = "".join(part.pieces)
            blocks.append(clean_json({**part.block, "text": text}))
            return text
        cut = _REFUSED if stop is StopReason.REFUSAL else _CUT_SHORT.get(stop, "")
        for event in part.xml.feed(rest) + part.xml.finish():
            self._emit(event)
        self._calls = part.xml.next_index
        made = part.xml.result(request.tools, self.turn, cut, refused=stop is StopReason.REFUSAL)
        blocks.extend(made.blocks)
        calls.extend(made.calls)
        return made.text

    def _close_call(self, part: CallPart, stop: StopReason, blocks: list[Block]) -> ToolCall:
        error = part.error or self._cut_error(part, stop)
        arguments: Mapping[str, Any] = {}
        if not error:
            arguments, error = parse_arguments(_joined(part.pieces))
        if not error and not part.name:
            arguments, error = {}, "the call has no tool name"
        block = {**part.block, "type": "tool_use", "id": part.id, "name": part.name or "unnamed", "input": arguments}
        blocks.append(clean_json(block))
        return ToolCall(part.id, part.name, arguments, error)

    def _cut_error(self, part: CallPart, stop: StopReason) -> str:
        if stop is StopReason.REFUSAL:
            return _REFUSED
        if stop in _CUT_SHORT and (part is self._last or not part.closed):
            return _CUT_SHORT[stop]
        return ""


def _close_thinking(part: ThinkingPart, blocks: list[Block]) -> None:
    if part.signed and not part.block.get("signature"):
        return
    blocks.append(clean_json({**part.block, "thinking": "".join(part.pieces)}))


def _joined(pieces: list[str]) -> str:
    """The whole text, surrogate pairs joined; lone halves stay, for the parser to refuse."""
    text = "".join(pieces)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text
