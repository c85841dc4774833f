"""People are asked, and have their say."""

from __future__ import annotations

from loops.engine import facts as f
from loops.engine.encoding.replace import evolve
from loops.engine.reducers import CHARS_PER_TOKEN, ImpossibleFact, means, with_call
from loops.engine.state.fresh_start import after_message, without_circle
from loops.engine.state.lifecycle import Phase
from loops.engine.state.outage import NO_OUTAGE, let_go
from loops.engine.state.run import CallStatus, OpenGate, RunState


@means(f.GateOpened)
def gate_opened(state: RunState, fact: f.GateOpened) -> RunState:
    if state.gate is not None:
        raise ImpossibleFact("a second gate was opened")
    if state.is_ended and fact.kind != "rollback_choice":
        raise ImpossibleFact(f"a gate about {fact.kind} after the end")
    limit, tree = (str(fact.detail.get(name, "")) for name in ("limit", "tree"))
    opened = evolve(state, gate=OpenGate(fact.gate, fact.kind, fact.call_id, limit, tree))
    return with_call(opened, fact.call_id, status=CallStatus.GATED, gate=fact.gate) if fact.call_id else opened


@means(f.ApprovalVoided)
def approval_voided(state: RunState, fact: f.ApprovalVoided) -> RunState:
    """What was in doubt stays in doubt: voiding the permission to begin again does not make it new."""
    if not fact.call_id:
        return state
    begun = any(call.call.id == fact.call_id and call.status == CallStatus.AGAIN for call in state.calls)
    state = with_call(state, fact.call_id, status=CallStatus.INTENDED if begun else CallStatus.PROPOSED, gate="")
    voided = state.call(fact.call_id).voided + 1
    return with_call(state, fact.call_id, voided=voided, void_reason=fact.reason)


@means(f.MessageReceived)
def message(state: RunState, fact: f.MessageReceived) -> RunState:
    if state.is_ended and state.phase is not Phase.HALT:
        raise ImpossibleFact(f"a message after the end ({state.phase})")
    return evolve(
        without_circle(state),
        awaiting_message=False,
        recovering=after_message(state.recovering),
        step_base=state.step,
        plain_answers=0,
        warned=state.warned - {"max_steps"},
        context_tokens=state.context_tokens + len(fact.text) // CHARS_PER_TOKEN,
    )


@means(f.StopRequested)
def stop(state: RunState, fact: f.StopRequested) -> RunState:
    return evolve(state, stop_requested=True, stop_reason="operator_stop")


@means(f.StopWished)
def stop_wished(state: RunState, fact: f.StopWished) -> RunState:
    return evolve(state, stop_requested=True, stop_reason="user_stop")


@means(f.RunPaused)
def paused(state: RunState, fact: f.RunPaused) -> RunState:
    return evolve(state, paused=True)


@means(f.RunResumed)
def resumed(state: RunState, fact: f.RunResumed) -> RunState:
    state = evolve(state, outage=let_go(state.outage), deaths=0)
    if not state.is_ended:
        return evolve(state, paused=False)
    state = evolve(state, gate=None)  # whether to undo it is no question while it goes on
    if not state.can_be_reentered:
        raise ImpossibleFact(f"a run that ended in {state.phase} ({state.end_reason}) does not go on")
    if state.resume_phase is None:
        raise ImpossibleFact("an ended run without a phase to go back to")
    if state.fatal == "not_confirmed":
        state = evolve(state, fatal="")  # it is asked again
    if state.fatal == "model_unavailable" and state.phase is Phase.FAIL:  # it gets its tries again, in the same step
        state = evolve(state, fatal="", model_attempt=int(state.step_is_open), outage=NO_OUTAGE)
    if state.fatal == "checks_not_run":
        state = evolve(state, fatal="", checks=None, tried=None if state.tried else state.tried)  # they are run again
    if state.rollback in ("continued", "partly"):
        state = evolve(state, rollback="")  # its next end is asked about again
    state = evolve(state, undone=0)
    return evolve(state, phase=state.resume_phase, paused=False, stop_requested=False, end_reason="", resume_phase=None)
