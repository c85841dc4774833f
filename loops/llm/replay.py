"""A model that says again what a recorded agent said, turn by turn: real behaviour through the loop without a model.

A recording is one line of a ``.jsonl`` or ``.jsonl.gz`` file: {id, model, task, outcome, turns: [{role, text, calls,
tool_call_id, is_error}]}. Like the scripted model it keeps no state between requests.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from loops.engine.ports import ModelError
from loops.engine.text.truncation import quoted
from loops.engine.values import (
    FailureKind,
    Json,
    ModelEvent,
    ModelReply,
    ModelRequest,
    ToolCall,
)
from loops.llm.arguments import parse_arguments
from loops.llm.conversation import tool_results, turn_number
from loops.llm.scripted.adapter import PREFIX, Turn, events_of, reply_of
from loops.llm.text import clean_json, clean_text


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """``id`` is made from the position ("s_turn_position"), because recorded ids repeat; ReplayModel uses it."""

    id: str
    name: str
    arguments: Mapping[str, Json]
    recorded_id: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """``answer`` is what the user said after a turn without calls, None when nothing followed."""

    text: str
    calls: tuple[RecordedCall, ...] = ()
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """What a tool gave back when the run was recorded."""

    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded run. ``results`` are keyed by the ids that ReplayModel gives to calls."""

    id: str
    model: str
    goal: str
    system: str
    turns: tuple[RecordedTurn, ...]
    results: Mapping[str, RecordedResult]
    outcome: Mapping[str, Any]


Talk = Literal["text", "converse"]


class ReplayModel:
    """``strict`` refuses a request whose results differ from the recorded ones. ``talk`` "converse" says turns without
    calls through the converse tool, so that a loop waits for the operator's answer as the recorded agent did.
    ``complete`` ends with a task_completion call, for loops that need one to end well."""

    def __init__(
        self, recording: Recording, *, strict: bool = False, talk: Talk = "text", complete: bool = False
    ) -> None:
        self._recording = recording
        self._strict = strict
        self._talk = talk
        self._complete = complete

    async def call(self, request: ModelRequest, on_event: Callable[[ModelEvent], None]) -> ModelReply:
        """Say the next recorded turn."""
        number = turn_number(request.messages, PREFIX)
        if self._strict:
            self._compare(request)
        turn = self._turn(number)
        for event in events_of(turn):
            on_event(event)
        await asyncio.sleep(0)
        reply = reply_of(turn, request, number, self._recording.model, (1, 1 if turn.calls else 0, 1))
        calls = self._with_errors(reply.calls, number)
        return replace(reply, provider="replay", request_id=f"{self._recording.id}#{number}", calls=calls)

    async def close(self) -> None:
        """Nothing to close."""
        return

    def _turn(self, number: int) -> Turn:
        turns = self._recording.turns
        if number >= len(turns):
            last = turns[-1].text if turns else ""
            return Turn(calls=(("task_completion", {"result": last or "done"}),)) if self._complete else Turn()
        turn = turns[number]
        if not turn.calls and self._talk == "converse":
            return Turn(calls=(("converse", {"message": turn.text}),))
        return Turn(text=turn.text, calls=tuple((call.name, call.arguments) for call in turn.calls))

    def _with_errors(self, calls: tuple[ToolCall, ...], number: int) -> tuple[ToolCall, ...]:
        turns = self._recording.turns
        recorded = turns[number].calls if number < len(turns) else ()
        errors = [call.error for call in recorded] or [""] * len(calls)
        return tuple(replace(call, error=error) for call, error in zip(calls, errors, strict=False))

    def _compare(self, request: ModelRequest) -> None:
        for call_id, (text, _) in tool_results(request.messages).items():
            recorded = self._recording.results.get(call_id)
            if recorded is not None and recorded.text != text:
                found, wanted = quoted(text, 80), quoted(recorded.text, 80)
                raise ModelError(
                    f"the result of {call_id} is not the recorded one: {found} for {wanted}",
                    kind=FailureKind.SYSTEMATIC,
                    code="replay_mismatch",
                )


def load_recordings(path: Path) -> Iterator[Recording]:
    """Every run of a file, one at a time."""
    open_text = gzip.open if path.suffix == ".gz" else open
    with open_text(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield recording_of(json.loads(line))


def find_recording(reference: str) -> Recording:
    """By "path#id"; without "#id" the first of the file."""
    path, _, wanted = reference.partition("#")
    for recording in load_recordings(Path(path)):
        if not wanted or recording.id == wanted:
            return recording
    raise KeyError(f"no recording {wanted!r} in {path}")


def recording_of(line: Mapping[str, Any]) -> Recording:
    """One line of a file as a Recording, with ids made unique."""
    turns: list[RecordedTurn] = []
    results: dict[str, RecordedResult] = {}
    waiting: list[RecordedCall] = []
    system = ""
    for said in clean_json(line["turns"]):
        role, text = said.get("role"), str(said.get("text") or "")
        if role == "system" and not turns:
            system = text
        elif role == "assistant":
            turns.append(_assistant(said, text, len(turns)))
            waiting = list(turns[-1].calls)
        elif role == "tool":
            call = _answered(waiting, said.get("tool_call_id"))
            if call is not None:
                results[call.id] = RecordedResult(text, bool(said.get("is_error")))
        elif turns and not turns[-1].calls:
            turns[-1] = replace(turns[-1], answer=text)
    goal = str(line.get("task") or _first_user(line) or line["id"])
    model = str(line.get("model") or "recorded")
    outcome = line.get("outcome") or {}
    return Recording(str(line["id"]), model, clean_text(goal), system, tuple(turns), results, outcome)


def _assistant(said: Mapping[str, Any], text: str, number: int) -> RecordedTurn:
    calls = []
    for at, call in enumerate(said.get("calls") or ()):
        arguments, error = parse_arguments(json.dumps(call.get("input") or {}))
        call_id = f"{PREFIX}_{number}_{at}"
        calls.append(RecordedCall(call_id, str(call.get("name")), arguments, str(call.get("id") or ""), error))
    return RecordedTurn(text, tuple(calls))


def _answered(waiting: list[RecordedCall], recorded_id: Any) -> RecordedCall | None:
    """The call a recorded result answers: by its id, else the first that waits."""
    for call in waiting:
        if call.recorded_id == recorded_id:
            waiting.remove(call)
            return call
    return waiting.pop(0) if waiting else None


def _first_user(line: Mapping[str, Any]) -> str:
    return next((str(turn.get("text")) for turn in line["turns"] if turn.get("role") == "user"), "")
