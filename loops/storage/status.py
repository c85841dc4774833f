"""The status of a run, in the words people and SQL read (SPEC A2, W1). Pure: a function of the state."""

from __future__ import annotations

from datetime import UTC, datetime

from loops.engine.state.evidence import Evidence
from loops.engine.state.lifecycle import Phase
from loops.engine.state.needs import Need, NeedKind
from loops.engine.state.run import CallStatus, RunState
from loops.engine.verification.checks import weakest_evidence
from loops.storage.turns import waiting_at

WAITING_FOR_RESOURCE = "waiting_for_resource"
"""It stands still, holds no worker and spends no time, and nobody has to do anything."""
NEWER = Need(NeedKind.NEWER_WORKER, words="a worker of a newer version")
NOTHING = Need()


def status(state: RunState) -> tuple[str, Need]:
    """(what a person is told, what it waits for) (SPEC A2)."""
    asked = Need(NeedKind.GATE, state.gate.kind, state.gate.kind) if state.gate else None
    if state.phase in ENDED:
        return ESCALATED if _escalated(state) else ENDED[state.phase], asked or NOTHING
    if state.paused:  # first, so that a person can resume it while its gate still waits
        return "paused", asked or NOTHING
    if asked:
        return "waiting", asked
    if state.awaiting_message and not state.answered:
        return "waiting", Need(NeedKind.MESSAGE, words="message")
    if state.lacks_resource:
        return WAITING_FOR_RESOURCE, _resource(state)
    shown, words = _working(state)
    return shown, Need(words=words)


def waiting_for_folder(why: str) -> Need:
    return Need(NeedKind.FOLDER, words=f"its workspace: {why}")


def _resource(state: RunState) -> Need:
    if state.folder_awaited:
        return waiting_for_folder(state.folder_awaited)
    if state.turn_at:
        return Need(NeedKind.TURN, state.turn_at, waiting_at(state.turn_at, state.turn_after))
    model, moment = state.outage.model, datetime.fromtimestamp(state.outage.until / 1e6, UTC)
    return Need(NeedKind.MODEL, model, f"model {model}: next try at {moment:%H:%M:%S} UTC")


def _working(state: RunState) -> tuple[str, str]:
    if state.wake_at:
        return "thinking", "model not reachable, trying again" if state.model_attempt else "waiting before another try"
    running = next((call.call.name for call in state.calls if call.status == CallStatus.INTENDED), "")
    if running or state.checking:
        return "executing_tool", running or "acceptance checks"
    if state.recovering.must_reflect:
        return "thinking", "reflecting on what went wrong"
    return ("thinking" if state.step else "initializing"), ""


ENDED = {Phase.COMMIT: "completed", Phase.FAIL: "failed", Phase.HALT: "interrupted"}
WEAK_ENDS = {Evidence.CLAIMED: "finished", Evidence.CONTRADICTED: "contradicted"}
"""Final status of a run that completed, by its weakest evidence where that is no success."""
FINAL = {Phase.COMMIT: "success", Phase.FAIL: "failed", Phase.HALT: "interrupted"}
ESCALATED = "escalated"
FINAL_STATUSES = (*FINAL.values(), *WEAK_ENDS.values(), ESCALATED)


def final_status(state: RunState) -> str:
    """How it ended, in D83's words; empty while it goes on (SPEC W1). The model's word, or less, is no success (C6)."""
    if state.phase is Phase.COMMIT and (weak := WEAK_ENDS.get(weakest_evidence(state, state.end_reason))):
        return weak
    return "escalated" if _escalated(state) else FINAL.get(state.phase, "")


def weakness(final: str) -> Evidence:
    """The level that a final status stands for; NONE where it stands for none."""
    return next((level for level, name in WEAK_ENDS.items() if name == final), Evidence.NONE)


def _escalated(state: RunState) -> bool:
    return state.phase is Phase.FAIL and state.end_reason == "escalated"
