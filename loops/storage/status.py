"""The status of a run, in the words people and SQL read (SPEC A2, W1). Pure: a function of the state."""

from __future__ import annotations

from datetime import UTC, datetime

from loops.engine.state.lifecycle import Phase
from loops.engine.state.run import RunState
from loops.engine.verification.checks import EVIDENCE
from loops.storage.breakers import waiting_for
from loops.storage.turns import LINE, waiting_at

WAITING_FOR_RESOURCE = "waiting_for_resource"
"""It stands still, holds no worker and spends no time, and nobody has to do anything."""
FOLDER = "its folder"
"""How ``waiting_on`` of a run begins that waits for its folder."""
NEWER = "a worker of a newer version"
MODEL, NEXT_TRY = "model ", " next try at "


def status(state: RunState) -> tuple[str, str]:
    """(what a person is told, what it waits on) (SPEC A2)."""
    if state.phase in ENDED:
        return "escalated" if _escalated(state) else ENDED[state.phase], state.gate.kind if state.gate else ""
    if state.paused:  # first, so that a person can resume it while its gate still waits
        return "paused", state.gate.kind if state.gate else ""
    if state.gate is not None:
        return "waiting", state.gate.kind
    if state.awaiting_message and not state.answered:
        return "waiting", "message"
    return _working(state)


def needs(waiting_on: str) -> str:
    """What a run with status ``WAITING_FOR_RESOURCE`` does, in a few words; "" where that is not known."""
    if waiting_on.startswith(MODEL) and NEXT_TRY not in waiting_on:
        return ""
    return next((said for begins, said in _NEEDS.items() if waiting_on.startswith(begins)), "")


_NEEDS = {
    FOLDER: "Waiting for its folder",
    LINE: "Waiting in line",
    NEWER: "Waiting for a newer worker",
    MODEL: "Waiting for a model",
}


def _resource(state: RunState) -> str:
    if state.folder_awaited:
        return f"{FOLDER}: {state.folder_awaited}"
    if state.turn_at:
        return waiting_at(state.turn_at, state.turn_after)
    moment = datetime.fromtimestamp(state.outage.until / 1e6, UTC)
    return f"{waiting_for(state.outage.model)}{NEXT_TRY}{moment:%H:%M:%S} UTC"


def _working(state: RunState) -> tuple[str, str]:
    if state.lacks_resource:
        return WAITING_FOR_RESOURCE, _resource(state)
    if state.wake_at:
        return "thinking", "model not reachable, trying again" if state.model_attempt else "waiting before another try"
    running = next((call.call.name for call in state.calls if call.status == "intended"), "")
    if running or state.checking:
        return "executing_tool", running or "acceptance checks"
    if state.recovering.must_reflect:
        return "thinking", "reflecting on what went wrong"
    return ("thinking" if state.step else "initializing"), ""


ENDED = {Phase.COMMIT: "completed", Phase.FAIL: "failed", Phase.HALT: "interrupted"}
FINAL = {Phase.COMMIT: "success", Phase.FAIL: "failed", Phase.HALT: "interrupted"}


def final_status(state: RunState) -> str:
    """How it ended, in D83's words; empty while it goes on (SPEC W1). Only the model's word is no success (SPEC C6)."""
    if state.phase is Phase.COMMIT and EVIDENCE.get(state.end_reason) == "claimed":
        return "finished"
    return "escalated" if _escalated(state) else FINAL.get(state.phase, "")


def _escalated(state: RunState) -> bool:
    return state.phase is Phase.FAIL and state.end_reason == "escalated"
