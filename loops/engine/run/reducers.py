"""How a run changes hands, moves on, waits for its folder, and ends."""

from __future__ import annotations

from loops.engine import facts as f
from loops.engine.encoding.replace import evolve
from loops.engine.reducers import ImpossibleFact, means
from loops.engine.state.lifecycle import TERMINAL, Phase, transition
from loops.engine.state.run import CallStatus, PendingCall, RunState


@means(f.RunTakenOver)
def taken_over(state: RunState, fact: f.RunTakenOver) -> RunState:
    calls = tuple(
        evolve(call, may_live=call.may_live or not fact.lost_is_dead) if call.status == CallStatus.INTENDED else call
        for call in state.calls
    )
    before = state.deaths if state.died_at == state.step else 0
    deaths = before + fact.died
    return evolve(state, recoveries=state.recoveries + 1, calls=calls, deaths=deaths, died_at=state.step)


@means(f.TextsChanged)
def texts_changed(state: RunState, fact: f.TextsChanged) -> RunState:
    return state


@means(f.PhaseEntered)
def phase_entered(state: RunState, fact: f.PhaseEntered) -> RunState:
    if transition(state.phase, fact.event) is not fact.phase or fact.came_from is not state.phase:
        raise ImpossibleFact(f"{fact.came_from} -{fact.event}-> {fact.phase} while in {state.phase}")
    if fact.phase is Phase.REPAIR:
        return evolve(state, phase=fact.phase, repairs=state.repairs + 1)
    if fact.phase in TERMINAL:
        calls = tuple(_without_gate(state, call) for call in state.calls)
        return evolve(state, phase=fact.phase, gate=None, calls=calls, resume_phase=state.phase, requested=False)
    return evolve(state, phase=fact.phase)


def _without_gate(state: RunState, pending: PendingCall) -> PendingCall:
    """A call whose gate ends with the run is asked again at a resume; one in doubt was begun and stays in doubt."""
    if pending.status != CallStatus.GATED:
        return pending
    begun = state.gate is not None and state.gate.kind == "in_doubt"
    return evolve(pending, status=CallStatus.INTENDED if begun else CallStatus.JUDGED, gate="")


@means(f.StepCompleted)
def step_completed(state: RunState, fact: f.StepCompleted) -> RunState:
    if any(pending.status != CallStatus.DONE for pending in state.calls):
        raise ImpossibleFact("a step was completed while a call of it was open")
    return evolve(state, answered=False, calls=())


@means(f.RunEnded)
def ended(state: RunState, fact: f.RunEnded) -> RunState:
    return evolve(state, end_reason=fact.reason)


@means(f.WorkspaceAwaited)
def awaited(state: RunState, fact: f.WorkspaceAwaited) -> RunState:
    return evolve(state, folder_awaited=fact.why, folder_since=fact.at)


@means(f.WorkspaceFound)
def found(state: RunState, fact: f.WorkspaceFound) -> RunState:
    return evolve(state, folder_awaited="", folder_since=0)
