"""Real runs of a customer-service agent, said again through the loop: every call, in order, and nothing else.

The mapping: what the agent said without a call becomes ``converse``, and what the customer answered arrives as the
operator's message. Recorded results come from the tools. A person lets the run go on at the gates that its own limits
open. After its last turn the agent hands its last words in as the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.context_window.conversation import extend
from loops.engine.context_window.transcript import Transcript
from loops.engine.state.lifecycle import Phase
from loops.engine.state.thresholds import OFF
from loops.engine.values import ToolCall, ToolResult
from loops.llm.conversation import tool_results
from loops.llm.replay import RecordedCall, Recording, ReplayModel, load_recordings
from tests import fakes
from tests.unit.engine.adversary import check_conversation

ROOT = Path(__file__).parents[3]
EXTRACT = ROOT / "tests" / "data" / "runs" / "airline.jsonl.gz"
WHOLE = ROOT.parent / "shared" / "data" / "runs" / "airline.jsonl.gz"
LIMITS = {
    "max_steps": 100,
    "max_seconds": 10**6,
    "max_tokens": 10**8,
    "max_cost_microusd": 10**9,
    "max_failures": 10**6,
    "max_attempts": 10**6,
    "reflect_after": 0,
}
NOT_AGAIN = {"identical", "circle"}
BLIND = {**LIMITS, "circles": OFF}
"""Without loop detection: what went in circles is refused when it comes again."""


class RecordedTools(fakes.Tools):
    """Gives back what was recorded. The loop's n-th answer is the recording's turn n - 1."""

    def __init__(self, recording: Recording) -> None:
        names = {call.name for turn in recording.turns for call in turn.calls}
        super().__init__(dict.fromkeys(sorted(names)))
        self.recording = recording

    async def execute(self, call: ToolCall, context: p.CallContext, on_output: p.OnOutput) -> ToolResult:
        self.ran.append(call)
        answer, position = call.id.removeprefix("c").split(".")
        recorded = self.recording.results[f"s_{int(answer) - 1}_{position}"]
        if recorded.is_error:
            return ToolResult(ok=False, content="", error=recorded.text)
        return ToolResult(ok=True, content=recorded.text)


class Customer(fakes.World):
    """The recorded customer, and an operator who lets the run go on."""

    def __init__(self, recording: Recording, limits: Any = None) -> None:
        super().__init__(limits=limits or BLIND, tools=RecordedTools(recording), goal=recording.goal or "Help")
        self.recording = recording
        self.replies = [turn.answer for turn in recording.turns if not turn.calls]
        self.gates: Counter[str] = Counter()

    def ports(self) -> fakes.Ports:
        return replace(super().ports(), models=ReplayModel(self.recording, talk="converse", complete=True))

    def serve(self) -> None:
        for _ in range(200):
            why = self.drive()
            if why == "ended":
                return
            if why == "message":
                self.send("message", by="customer", text=self.replies.pop(0) or "")
            else:
                self.gates[why] += 1
                verdict = "extend" if why == "gate:limit_reached" else "respond"
                self.decide(verdict, answer="Go on.")
        raise AssertionError(f"still {why}")


def recorded_calls(recording: Recording) -> list[RecordedCall]:
    return [call for turn in recording.turns for call in turn.calls]


def replayed(recordings: Sequence[Recording]) -> Counter[str]:
    figures: Counter[str] = Counter()
    for recording in recordings:
        world = Customer(recording)
        world.serve()
        wanted = recorded_calls(recording)
        refused = check_calls(world)
        assert not any(call.error for call in wanted)
        assert world.state.phase is Phase.COMMIT
        assert world.replies == []
        check_results(world)
        figures += Counter(
            runs=1, calls=len(wanted), refused=refused, steps=world.state.step, facts=len(world.journal.facts)
        )
        figures += Counter(messages=len(world.journal.of(f.MessageReceived)), **world.gates)
    return figures


def check_calls(world: Customer) -> int:
    """Every recorded call ran, in its order and as it was, or was refused as what went wrong before. How many were."""
    refused = {fact.call_id: fact.why for fact in world.journal.of(f.ToolRefused)}
    ran = {call.id: (call.name, call.arguments) for call in world.tools.ran}
    recorded = {
        f"c{answer}.{position}": (call.name, call.arguments)
        for answer, turn in enumerate(world.recording.turns, 1)
        for position, call in enumerate(turn.calls)
    }
    assert list(ran) == [call_id for call_id in recorded if call_id not in refused]
    assert all(recorded[call_id] == call for call_id, call in ran.items())
    assert set(refused.values()) <= NOT_AGAIN
    return len(refused)


def check_results(world: Customer) -> None:
    """The agent read what it read when it was recorded, and its calls and results stand together."""
    transcript = Transcript()
    for fact in world.journal.facts:
        transcript = extend(transcript, fact)
    messages = transcript.messages
    check_conversation(messages)
    read = tool_results(messages)
    refused = {fact.call_id for fact in world.journal.of(f.ToolRefused)}
    for call_id, recorded in world.recording.results.items():
        answer, position = call_id.removeprefix("s_").split("_")
        if f"c{int(answer) + 1}.{position}" in refused:
            continue
        assert read[call_id] == (recorded.text or "(no output)", recorded.is_error)


@pytest.mark.spec("B2", "C3", "C4", "C5", "K2")
def test_an_extract_replays_call_by_call() -> None:
    figures = replayed(list(load_recordings(EXTRACT)))
    assert (figures["runs"], figures["calls"]) == (5, 14)


@pytest.mark.spec("B2", "C3", "C4", "C5", "K2")
@pytest.mark.skipif(not WHOLE.exists(), reason="the whole set of recordings is not here")
def test_all_runs_replay_call_by_call() -> None:
    figures = replayed(list(load_recordings(WHOLE)))
    print("\n" + ", ".join(f"{name} {number:,}" for name, number in sorted(figures.items())))
    assert (figures["runs"], figures["calls"]) == (104, 549)
