"""A model that plays a script: for the demonstration, for tests and for trying the product without a key.

It keeps no state. Which turn comes next is read from the conversation, so that a worker that was killed, resumed or
replaced goes on at the right place, and the same request always gets the same answer.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loops.engine.ports import ModelError
from loops.engine.values import (
    ArgumentsDelta,
    Block,
    CallDetected,
    Json,
    ModelEvent,
    ModelReply,
    ModelRequest,
    ModelRole,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    Usage,
)
from loops.llm.conversation import last_results, turn_number

PREFIX = "s"
_WORDS = re.compile(r"\S+\s*|\s+")
_ARGUMENT_CHUNK = 48
_SEEN_OF_RESULT = 600
Result = tuple[str, bool]
"""What a call returned: its text, and whether it is an error."""
Proof = Callable[[Sequence[Result]], bool]
"""Do the results of the turn before show what a turn is about to say?"""


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer. ``calls`` are (tool, arguments). ``delay`` is the pause per chunk in seconds, None for the model's
    own pace. ``error`` is raised after everything else has been streamed. ``usage`` None means an estimate. A turn
    with an ``only_if`` that the results do not bear out is not said: what was seen is said instead (``not_done``)."""

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Json]], ...] = ()
    thinking: str = ""
    usage: Usage | None = None
    delay: float | None = None
    error: ModelError | None = None
    stop: StopReason | None = None
    only_if: Proof | None = None


def went_well(results: Sequence[Result]) -> bool:
    """No call of the turn before failed."""
    return not any(is_error for _, is_error in results)


def not_done(results: Sequence[Result]) -> Turn:
    """Says what came of the last calls, and claims nothing."""
    failed = [text for text, is_error in results if is_error] or [text for text, _ in results]
    seen = " ".join("; ".join(failed).split())[:_SEEN_OF_RESULT] or "nothing"
    return Turn(
        text="That is not what I need to see before I may call this done.",
        calls=(("task_completion", {"result": f"Not done. The last that I saw is: {seen}"}),),
    )


Play = Callable[[ModelRequest, int], Turn]


@dataclass(frozen=True, slots=True)
class Script:
    """``turns`` in order, or ``play(request, turn number)``. Other roles than the actor get ``answers``: a text, or a
    function of the request."""

    name: str
    summary: str
    turns: tuple[Turn, ...] = ()
    play: Play | None = None
    answers: Mapping[ModelRole, str | Callable[[ModelRequest], str]] = field(default_factory=dict)
    goal: str = ""

    def turn(self, request: ModelRequest) -> Turn:
        """The turn that this request gets."""
        if answer := self.answers.get(request.role):
            return Turn(text=answer if isinstance(answer, str) else answer(request), delay=0)
        turn = self._next(request, turn_number(request.messages, PREFIX))
        results = last_results(request.messages)
        return turn if turn.only_if is None or turn.only_if(results) else not_done(results)

    def _next(self, request: ModelRequest, number: int) -> Turn:
        if self.play is not None:
            return self.play(request, number)
        return self.turns[number] if number < len(self.turns) else Turn(text="I have nothing more to do.")


def script(name: str, turns: Sequence[Turn], **more: Any) -> Script:
    """A script that is a plain list of turns."""
    return Script(name=name, turns=tuple(turns), **more)


class ScriptedModel:
    """Plays one script."""

    def __init__(self, script: Script, pace: float = 0.0) -> None:
        self._script = script
        self._pace = pace

    async def call(self, request: ModelRequest, on_event: Callable[[ModelEvent], None]) -> ModelReply:
        """Stream the turn at the script's pace."""
        turn = self._script.turn(request)
        number = turn_number(request.messages, PREFIX)
        clock = asyncio.get_running_loop().time
        started, first_token, first_call = clock(), 0, 0
        pause = self._pace if turn.delay is None else turn.delay
        for event in events_of(turn):
            await asyncio.sleep(pause)
            elapsed = max(1, round((clock() - started) * 1000))
            first_token = first_token or elapsed
            first_call = first_call or (elapsed if isinstance(event, CallDetected) else 0)
            on_event(event)
        if turn.error is not None:
            raise turn.error
        duration = round((clock() - started) * 1000)
        return reply_of(turn, request, number, self._script.name, (first_token, first_call, duration))

    async def close(self) -> None:
        """Nothing to close."""
        return


def events_of(turn: Turn) -> list[ModelEvent]:
    """A turn in pieces of the size real models stream."""
    events: list[ModelEvent] = [ThinkingDelta(word) for word in _WORDS.findall(turn.thinking)]
    events += [TextDelta(word) for word in _WORDS.findall(turn.text)]
    for index, (name, arguments) in enumerate(turn.calls):
        events.append(CallDetected(index, name))
        text = json.dumps(arguments, ensure_ascii=False)
        pieces = range(0, len(text), _ARGUMENT_CHUNK)
        events += [ArgumentsDelta(index, text[at : at + _ARGUMENT_CHUNK]) for at in pieces]
    return events


def reply_of(turn: Turn, request: ModelRequest, number: int, model: str, times: tuple[int, int, int]) -> ModelReply:
    """A turn as a whole answer; ``times`` are first token, first call and duration in milliseconds."""
    calls = tuple(ToolCall(f"{PREFIX}_{number}_{at}", name, args) for at, (name, args) in enumerate(turn.calls))
    stop = turn.stop or (StopReason.TOOL_USE if calls else StopReason.END_TURN)
    return ModelReply(
        blocks=tuple(blocks_of_turn(turn, calls)),
        text=turn.text,
        thinking=turn.thinking,
        calls=calls,
        stop=stop,
        usage=turn.usage or estimate(request, turn),
        provider="scripted",
        model_id=model,
        request_id=f"scripted-{model}-{number}",
        raw_stop=stop.value,
        first_token_ms=times[0],
        first_call_ms=times[1],
        duration_ms=times[2],
    )


def blocks_of_turn(turn: Turn, calls: Sequence[ToolCall]) -> list[Block]:
    """A turn in house form."""
    blocks: list[Block] = []
    if turn.thinking:
        blocks.append({"type": "thinking", "thinking": turn.thinking})
    if turn.text:
        blocks.append({"type": "text", "text": turn.text})
    for call in calls:
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments})
    return blocks


def estimate(request: ModelRequest, turn: Turn) -> Usage:
    """About four characters a token: the same for the same request, and of a believable size."""
    read = len(request.system) + len(json.dumps([dict(message) for message in request.messages], default=str))
    said = len(turn.text) + sum(len(name) + len(json.dumps(args)) for name, args in turn.calls)
    thought = len(turn.thinking)
    return Usage(input_tokens=1 + read // 4, output_tokens=1 + (said + thought) // 4, thinking_tokens=thought // 4)
