"""Chunks of a Chat Completions stream, as plain JSON objects, turned into a ModelReply. Pure: no SDK here.

Servers that call themselves compatible differ most in tool calls: no id, no index, the name repeated in every chunk,
ids used again in later answers, "stop" as the reason although there are calls, no reason at all, empty fields of the
older form of calls. All of that is put right here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from loops.engine.text.truncation import shortened
from loops.engine.values import ModelEvent, ModelReply, ModelRequest, StopReason, Usage
from loops.llm.arguments import parse_arguments
from loops.llm.conversation import turn_number
from loops.llm.openai.request import THINKING_MODEL, used_ids
from loops.llm.reply_builder import CallPart, Ending, ReplyBuilder, TextPart, ThinkingPart
from loops.llm.text import clean_text
from loops.llm.transport_errors import MAX_MESSAGE, number

UNREADABLE = "tool_use_failed"
"""What providers that read calls themselves say of one that their model wrote wrongly."""
OLLAMA_UNREADABLE = re.compile(r"error parsing tool call: raw='(.*)', err=", re.DOTALL)
"""The same from Ollama, which has no code for it: the words of an answer of 500, or of an error in a stream."""
_STOPS = {
    "stop": StopReason.END_TURN,
    "end_turn": StopReason.END_TURN,
    "eos": StopReason.END_TURN,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    UNREADABLE: StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
    "refusal": StopReason.REFUSAL,
    "safety": StopReason.REFUSAL,
}


class ChunkDecoder:
    """Takes the chunks of one answer in order; ``reply`` may be asked for at any moment, also after an early end."""

    def __init__(self, request: ModelRequest, model_id: str, *, xml: bool = False) -> None:
        self._request = request
        self._asked_model = model_id
        self._model_id = model_id
        self._draft = ReplyBuilder(request, xml=xml)
        self._tools = {tool.name for tool in request.tools}
        self._ids = used_ids(request.messages)
        self._text: TextPart | None = None
        self._thinking: ThinkingPart | None = None
        self._calls: list[CallPart] = []
        self._by_index: dict[int, CallPart] = {}
        self._by_id: dict[str, CallPart] = {}
        self._wire_ids: dict[int, str] = {}
        self._usage: Mapping[str, Any] = {}
        self._stop = ""
        self._refusal: list[str] = []
        self.started = False
        self.request_id = ""
        self.is_whole = False
        """The provider said by its end mark that this was all."""

    def feed(self, chunk: Mapping[str, Any]) -> list[ModelEvent]:
        """Take one chunk and tell what happened. Raises KeyError, TypeError and the like on senseless ones."""
        self._model_id = str(chunk.get("model") or self._model_id)
        self._usage = chunk.get("usage") or self._usage
        for choice in chunk.get("choices") or ():
            if number(choice.get("index")) == 0:
                self.started = True
                self._delta(choice.get("delta") or choice.get("message") or {})
                self._stop = str(choice.get("finish_reason") or self._stop)
                if self._stop.lower().endswith("malformed_function_call"):
                    self._unreadable("")
        return self._draft.events()

    def told_of_call(self, error: object) -> bool:
        """Is this error of the provider about a call that the model wrote? Then it belongs to the answer: the model is
        told, as of every call that can't be read, and writes another."""
        written = _unreadable_call(error)
        if written is None:
            return False
        self.started = True
        self._unreadable(written)
        return True

    def reply(self) -> ModelReply:
        """The answer as far as it has come."""
        stop = _STOPS.get(self._stop.lower(), StopReason.OTHER) if self._stop else StopReason.CUT
        if stop is StopReason.CUT and self.is_whole and self._calls and all(map(_is_readable, self._calls)):
            stop = StopReason.TOOL_USE
        if self._refusal:
            stop = StopReason.REFUSAL
        for part in self._calls:
            part.closed = True  # only the call that came last can be half; broken JSON is found anyway
            self._draft.announce(part)
        end = Ending(
            stop=stop,
            usage=usage_of(self._usage),
            provider="openai",
            model_id=self._model_id,
            request_id=self.request_id,
            raw_stop=self._stop,
            stop_detail="".join(self._refusal),
        )
        return self._draft.reply(self._request, end)

    def _delta(self, delta: Mapping[str, Any]) -> None:
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(thought, str) and thought:
            self._think(thought)
        content = delta.get("content")
        if isinstance(content, str) and content:
            self._say(content)
        if delta.get("refusal"):
            self._refusal.append(str(delta["refusal"]))
        for piece in delta.get("tool_calls") or ():
            if piece.get("id") or _says(piece.get("function")):
                self._call_piece(piece)
        if _says(delta.get("function_call")):
            self._call_piece({"index": 0, "function": delta["function_call"]})

    def _think(self, piece: str) -> None:
        if self._thinking is None:
            self._thinking = ThinkingPart({"type": "thinking", THINKING_MODEL: self._asked_model}, signed=False)
            self._draft.add(self._thinking)
        self._draft.thinking(self._thinking, piece)

    def _say(self, piece: str) -> None:
        if self._text is None:
            self._text = TextPart({"type": "text"})
            self._draft.add(self._text)
        self._draft.text(self._text, piece)

    def _call_piece(self, piece: Mapping[str, Any]) -> None:
        function = piece.get("function") or {}
        name, arguments = str(function.get("name") or ""), function.get("arguments")
        part = self._find(piece.get("index"), str(piece.get("id") or ""), name)
        if name and name != part.name and not part.announced and not part.pieces:
            part.name += name
        if part.name in self._tools or arguments:
            self._draft.announce(part)
        if isinstance(arguments, str):
            self._draft.arguments(part, arguments)
        elif isinstance(arguments, Mapping):
            self._draft.arguments(part, json.dumps(arguments))

    def _unreadable(self, written: str) -> None:
        """The call that came last is it if it is broken, else one that the provider kept to itself."""
        broken = bool(self._calls) and not _is_readable(self._calls[-1])
        part = self._calls[-1] if broken else self._new(None, "")
        part.name = part.name or next((name for name in sorted(self._tools) if name in written), "")
        shown = f": {shortened(written.strip(), MAX_MESSAGE)}" if written else ""
        part.error = clean_text(f"your provider takes it for no call of a tool{shown}")
        self._stop = UNREADABLE

    def _find(self, index: Any, call_id: str, name: str) -> CallPart:
        """The call a piece belongs to: by index, else by id; else a name begins a new one and the rest goes on."""
        if isinstance(index, int):
            known = self._by_index.get(index)
            if known is not None and not (call_id and name and call_id != self._wire_ids[known.index]):
                return known
        elif call_id and call_id in self._by_id:
            return self._by_id[call_id]
        elif self._calls and not call_id and (not name or self._goes_on(name)):
            return self._calls[-1]
        return self._new(index, call_id)

    def _goes_on(self, name: str) -> bool:
        """Some servers repeat the name in every chunk: the call goes on while its JSON is not complete."""
        last = self._calls[-1]
        return name == last.name and not _complete("".join(last.pieces))

    def _new(self, index: Any, call_id: str) -> CallPart:
        part = self._draft.new_call(self._unique(call_id), "")
        self._calls.append(part)
        self._wire_ids[part.index] = call_id
        if isinstance(index, int):
            self._by_index[index] = part
        if call_id:
            self._by_id[call_id] = part
        return part

    def _unique(self, call_id: str) -> str:
        """An id that no other call of this conversation has, made from the position when there is none."""
        turn = turn_number(self._request.messages, "call")
        wished = call_id or f"call_{turn}_{len(self._calls)}"
        found, again = wished, 0
        while found in self._ids:
            found = f"{wished}_{turn}_{len(self._calls)}" + (f"_{again}" if again else "")
            again += 1
        self._ids.add(found)
        return found


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Token counts, cached tokens taken out of the input; the cost is added by whoever knows prices."""
    prompt, answer = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    cached = number(prompt.get("cached_tokens")) if isinstance(prompt, Mapping) else 0
    cached = cached or number(usage.get("prompt_cache_hit_tokens"))
    return Usage(
        input_tokens=max(0, number(usage.get("prompt_tokens")) - cached),
        output_tokens=number(usage.get("completion_tokens")),
        cache_read_tokens=cached,
        thinking_tokens=number(answer.get("reasoning_tokens")) if isinstance(answer, Mapping) else 0,
        cost_microusd=None,
    )


def _unreadable_call(error: object) -> str | None:
    """What a model wrote for a call that its provider could not read; None where the error is about something else."""
    if isinstance(error, Mapping) and error.get("code") == UNREADABLE:
        written = error.get("failed_generation")
        return written if isinstance(written, str) and written.strip() else None
    message = error.get("message") if isinstance(error, Mapping) else error
    found = OLLAMA_UNREADABLE.match(message) if isinstance(message, str) else None
    return found[1] if found else None


def _says(function: Any) -> bool:
    """Some servers send the fields of a call in every chunk, empty."""
    return isinstance(function, Mapping) and bool(function.get("name") or function.get("arguments"))


def _is_readable(part: CallPart) -> bool:
    return bool(part.name) and not parse_arguments("".join(part.pieces))[1]


def _complete(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
