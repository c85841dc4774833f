"""What the facts of undoing make of a state: the part of the fold that lies behind the end."""

from __future__ import annotations

from dataclasses import replace

from loops.engine import facts as f
from loops.engine.encoding.replace import evolve
from loops.engine.reducers import ImpossibleFact, decides, means, with_call
from loops.engine.rollback.plan import UNRECORDED
from loops.engine.state.fresh_start import without_circle
from loops.engine.state.lifecycle import RETRIABLE, Phase
from loops.engine.state.recovery import NOTHING_FAILED
from loops.engine.state.run import OpenGate, RunState

VERDICTS = {"roll_back": "wanted", "continue": "continued"}


@means(f.RunResumed)
def resumed(state: RunState, fact: f.RunResumed) -> RunState:
    """A person read why it failed and wants it to go on all the same: what stopped it is asked again, afresh."""
    if state.rollback != "continued" or state.phase is not Phase.FAIL or state.end_reason in RETRIABLE:
        return state
    one_more = state.resume_phase is Phase.CRITIQUE  # it failed before the repair that it goes on with
    limits = replace(state.limits, max_repairs=max(state.limits.max_repairs, state.repairs + one_more))
    return evolve(
        without_circle(state),
        limits=limits,
        extensions=state.extensions + 1,
        fatal="",
        reached="",
        failures_in_row=0,
        recovering=NOTHING_FAILED,
    )


@decides("rollback_choice")
def rollback_decided(state: RunState, gate: OpenGate, fact: f.GateDecided) -> RunState:
    """Whatever is not "roll_back" keeps the work, the passing of time too."""
    return evolve(state, rollback=VERDICTS.get(fact.verdict, "settled"))


@means(f.UndoLearnt)
def undo_learnt(state: RunState, fact: f.UndoLearnt) -> RunState:
    return with_call(state, fact.call_id)


@means(f.WorkspaceChanged)
def workspace_changed(state: RunState, fact: f.WorkspaceChanged) -> RunState:
    """Checks alone are no reason to ask whether the run is to be undone."""
    return evolve(state, effects=state.effects + 1, rollback="") if fact.by == UNRECORDED else state


@means(f.RollbackRequested)
def rollback_requested(state: RunState, fact: f.RollbackRequested) -> RunState:
    if state.phase not in {Phase.FAIL, Phase.HALT} or not state.effects:
        raise ImpossibleFact(f"nothing to roll back ({state.phase}, {state.effects} effects)")
    return evolve(state, gate=None, rollback="wanted")


@means(f.CompensationIntended)
@means(f.CompensationCompleted)
def compensated(state: RunState, fact: f.CompensationIntended | f.CompensationCompleted) -> RunState:
    if state.rollback != "wanted":
        raise ImpossibleFact("a compensation that nobody asked for")
    return state


@means(f.RollbackEnded)
def rollback_ended(state: RunState, fact: f.RollbackEnded) -> RunState:
    if not state.is_ended:
        raise ImpossibleFact("a rollback of a run that goes on")
    return evolve(
        state, rollback="partly" if fact.left else "settled", effects=fact.left, undone=state.undone + fact.undone
    )
