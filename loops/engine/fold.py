"""``apply``: fold one fact into the state. One small function a kind of fact, in one table at the end.

``apply`` refuses a fact that cannot have happened (``ImpossibleFact``) and leaves the state alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from loops.engine import facts as f
from loops.engine.decided import CHARS_PER_TOKEN, ImpossibleFact, decided, with_call
from loops.engine.evolving import evolve
from loops.engine.forking import forked
from loops.engine.lifecycle import TERMINAL, Phase, transition
from loops.engine.state import RECENT_ERRORS, OpenGate, PendingCall, RunState
from loops.engine.undone import compensated, let_on, rollback_ended, rollback_requested, undo_learnt
from loops.engine.values import Json, StopReason


def initial(started: f.RunStarted) -> RunState:
    """The state right after RunStarted, the only fact that needs no state before it."""
    size = len(started.system) + len(started.spec.goal) + len(started.spec.constraints)
    return RunState(
        spec=started.spec,
        limits=started.spec.limits,
        seq=1,
        started_at=started.at,
        last_at=started.at,
        context_tokens=size // CHARS_PER_TOKEN + 600,
        reusing=started.forked_from.run_id if started.forked_from else "",
    )


def apply(state: RunState, fact: f.Fact) -> RunState:
    """The state after ``fact``. Raises ImpossibleFact (or UndefinedTransition for a phase change)."""
    handler = _HANDLERS.get(type(fact))
    if handler is None:
        raise ImpossibleFact(f"{type(fact).__name__} has no meaning here")
    if state.is_ended and not isinstance(fact, _AFTER_THE_END):
        raise ImpossibleFact(f"{type(fact).__name__} after the end ({state.phase})")
    active = state.active_us
    if not state.is_resting:
        active += max(0, fact.at - state.last_at)
    return evolve(handler(state, fact), seq=state.seq + 1, last_at=max(fact.at, state.last_at), active_us=active)


def replay(history: Iterable[f.Fact]) -> RunState:
    """Fold a whole history, RunStarted first."""
    facts = iter(history)
    first = next(facts, None)
    if not isinstance(first, f.RunStarted):
        raise ImpossibleFact("a history begins with RunStarted")
    state = initial(first)
    for fact in facts:
        state = apply(state, fact)
    return state


def answer_call_id(answers: int, position: int) -> str:
    """Our own id of a call: the n-th answer's i-th call. Providers repeat theirs."""
    return f"c{answers}.{position}"


def _taken_over(state: RunState, fact: f.RunTakenOver) -> RunState:
    calls = tuple(
        evolve(call, may_live=call.may_live or not fact.lost_is_dead) if call.status == "intended" else call
        for call in state.calls
    )
    return evolve(state, recoveries=state.recoveries + 1, calls=calls)


def _phase_entered(state: RunState, fact: f.PhaseEntered) -> RunState:
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
    if pending.status != "gated":
        return pending
    begun = state.gate is not None and state.gate.kind == "in_doubt"
    return evolve(pending, status="intended" if begun else "judged", gate="")


def _model_requested(state: RunState, fact: f.ModelRequested) -> RunState:
    if state.calls or state.answered:
        raise ImpossibleFact("a model was asked while its latest answer is still open")
    step = state.step if state.requested or state.model_attempt else state.step + 1
    return evolve(state, requested=True, step=step)


def _model_answered(state: RunState, fact: f.ModelAnswered) -> RunState:
    if not state.requested:
        raise ImpossibleFact("an answer without a request")
    answers = state.model_calls + 1
    calls = tuple(
        PendingCall(call=replace(call, id=answer_call_id(answers, position)))
        for position, call in enumerate(fact.calls)
    )
    usage = fact.usage
    return evolve(
        state,
        requested=False,
        answered=True,
        model_attempt=0,
        model_calls=answers,
        calls=calls,
        stopped_without_calls=not calls,
        last_stop=fact.stop.value,
        last_text=fact.text,
        tokens=state.tokens + usage.total_tokens,
        cost_microusd=state.cost_microusd + (usage.cost_microusd or 0),
        cost_unknown=state.cost_unknown or usage.cost_microusd is None,
        context_tokens=max(usage.total_tokens, state.context_tokens),
        fatal=_fatal_stop(fact.stop),
    )


def _fatal_stop(stop: StopReason) -> str:
    return {StopReason.REFUSAL: "refused", StopReason.CONTEXT_EXCEEDED: "context_exceeded"}.get(stop, "")


def _model_failed(state: RunState, fact: f.ModelFailed) -> RunState:
    hopeless = fact.kind.value != "transient" or fact.attempt >= state.limits.max_model_attempts
    return evolve(
        state, requested=False, model_attempt=fact.attempt, fatal="model_unavailable" if hopeless else state.fatal
    )


def _model_interrupted(state: RunState, fact: f.ModelInterrupted) -> RunState:
    return evolve(state, requested=True)


def _backoff_started(state: RunState, fact: f.BackoffStarted) -> RunState:
    return evolve(state, wake_at=fact.until)


def _backoff_ended(state: RunState, fact: f.BackoffEnded) -> RunState:
    return evolve(state, wake_at=0)


def _judged(state: RunState, fact: f.CallJudged) -> RunState:
    return with_call(
        state,
        fact.call_id,
        status="judged",
        access=fact.access,
        reasons=fact.reasons,
        invalid=fact.invalid,
        gate_kind=fact.gate_kind,
        risk=fact.risk,
    )


def _gate_opened(state: RunState, fact: f.GateOpened) -> RunState:
    if state.gate is not None:
        raise ImpossibleFact("a second gate was opened")
    if state.is_ended and fact.kind != "rollback_choice":
        raise ImpossibleFact(f"a gate about {fact.kind} after the end")
    limit = str(fact.detail.get("limit", ""))
    opened = evolve(state, gate=OpenGate(fact.gate, fact.kind, fact.call_id, limit))
    return with_call(opened, fact.call_id, status="gated", gate=fact.gate) if fact.call_id else opened


def _approval_voided(state: RunState, fact: f.ApprovalVoided) -> RunState:
    """What was in doubt stays in doubt: voiding the permission to begin again does not make it new."""
    begun = any(call.call.id == fact.call_id and call.status == "again" for call in state.calls)
    state = with_call(state, fact.call_id, status="intended" if begun else "proposed", gate="")
    return with_call(state, fact.call_id, voided=state.call(fact.call_id).voided + 1)


def _intended(state: RunState, fact: f.ToolIntended) -> RunState:
    state = with_call(
        state,
        fact.call_id,
        status="intended",
        attempt=fact.attempt,
        gate=fact.gate,
        since=fact.at,
        expects=fact.expects,
    )
    if fact.compensation is not None:
        state = evolve(state, effects=state.effects + 1, rollback="")
    return evolve(state, tool_calls=state.tool_calls + (fact.attempt == 1))


def _verified(state: RunState, fact: f.ToolVerified) -> RunState:
    return with_call(state, fact.call_id)


def _completed(state: RunState, fact: f.ToolCompleted) -> RunState:
    result = fact.result
    state = with_call(state, fact.call_id, status="done", ok=result.ok, error=result.error)
    data = result.data
    return evolve(
        state,
        context_tokens=state.context_tokens + (len(result.content) + len(result.error)) // CHARS_PER_TOKEN,
        tests_passed=_count(data.get("passed"), state.tests_passed),
        tests_failed=_count(data.get("failed"), state.tests_failed),
        files_changed=state.files_changed + (1 if result.ok and data.get("diff") else 0),
        awaiting_message=fact.tool == "converse" and result.ok,
    )


def _count(value: Json, present: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else present


def _refused(state: RunState, fact: f.ToolRefused) -> RunState:
    state = with_call(state, fact.call_id, status="done", ok=False, error=fact.message)
    return evolve(state, context_tokens=state.context_tokens + len(fact.message) // CHARS_PER_TOKEN)


def _step_completed(state: RunState, fact: f.StepCompleted) -> RunState:
    if any(pending.status != "done" for pending in state.calls):
        raise ImpossibleFact("a step was completed while a call of it was open")
    kept = max(RECENT_ERRORS, state.limits.identical_errors)
    errors = () if fact.success else (*state.recent_errors, fact.error_signature)[-kept:]
    return evolve(
        state,
        answered=False,
        calls=(),
        plain_answers=state.plain_answers + 1 if state.stopped_without_calls else 0,
        recent_errors=errors,
        failures_in_row=0 if fact.success else state.failures_in_row + 1,
        progress=fact.progress,
        progress_method=fact.progress_method,
    )


def _reminded(state: RunState, fact: f.Reminded) -> RunState:
    return evolve(state, context_tokens=state.context_tokens + len(fact.text) // CHARS_PER_TOKEN)


def _warned(state: RunState, fact: f.LimitWarned) -> RunState:
    return evolve(state, warned=state.warned | {fact.limit})


def _limit_reached(state: RunState, fact: f.LimitReached) -> RunState:
    return evolve(state, reached=fact.limit)


def _loop_detected(state: RunState, fact: f.LoopDetected) -> RunState:
    return evolve(state, loop_found=fact.evidence)


def _message(state: RunState, fact: f.MessageReceived) -> RunState:
    if state.is_ended and state.phase is not Phase.HALT:
        raise ImpossibleFact(f"a message after the end ({state.phase})")
    return evolve(
        state,
        awaiting_message=False,
        step_base=state.step,
        plain_answers=0,
        warned=state.warned - {"max_steps"},
        context_tokens=state.context_tokens + len(fact.text) // CHARS_PER_TOKEN,
    )


def _stop(state: RunState, fact: f.StopRequested) -> RunState:
    return evolve(state, stop_requested=True)


def _paused(state: RunState, fact: f.RunPaused) -> RunState:
    return evolve(state, paused=True)


def _resumed(state: RunState, fact: f.RunResumed) -> RunState:
    if not state.is_ended:
        return evolve(state, paused=False)
    state = let_on(evolve(state, gate=None))  # whether to undo it is no question while it goes on
    if not state.can_be_reentered:
        raise ImpossibleFact(f"a run that ended in {state.phase} ({state.end_reason}) does not go on")
    if state.resume_phase is None:
        raise ImpossibleFact("an ended run without a phase to go back to")
    if state.fatal == "model_unavailable" and state.phase is Phase.FAIL:  # it gets its tries again, in the same step
        state = evolve(state, fatal="", model_attempt=1)
    if state.rollback in ("continued", "partly"):
        state = evolve(state, rollback="")  # its next end is asked about again
    state = evolve(state, undone=0)
    return evolve(state, phase=state.resume_phase, paused=False, stop_requested=False, end_reason="", resume_phase=None)


def _proposed(state: RunState, fact: f.ResultProposed) -> RunState:
    state = evolve(state, result=fact.result, checks=None, reviewed=False, approver="", review_rejection="")
    return with_call(state, fact.call_id, status="done", ok=True) if fact.call_id else state


def _checks_started(state: RunState, fact: f.ChecksStarted) -> RunState:
    return evolve(state, checking=True)


def _checks_completed(state: RunState, fact: f.ChecksCompleted) -> RunState:
    return evolve(state, checking=False, checks=fact.checks)


def _diagnosed(state: RunState, fact: f.DiagnosisMade) -> RunState:
    return evolve(
        state,
        result=None,
        checks=None,
        causes=fact.causes,
        review_rejection="",
        plain_answers=0,
        context_tokens=state.context_tokens + len(fact.feedback) // CHARS_PER_TOKEN,
    )


def _ended(state: RunState, fact: f.RunEnded) -> RunState:
    return evolve(state, end_reason=fact.reason)


_AFTER_THE_END = (
    f.RunEnded,
    f.RunResumed,
    f.RunTakenOver,
    f.MessageReceived,
    f.GateOpened,
    f.GateDecided,
    f.RollbackRequested,
    f.CompensationIntended,
    f.CompensationCompleted,
    f.RollbackEnded,
)

_HANDLERS: dict[type[f.Fact], Callable[[RunState, Any], RunState]] = {
    f.Forked: forked,
    f.RunTakenOver: _taken_over,
    f.PhaseEntered: _phase_entered,
    f.ModelRequested: _model_requested,
    f.ModelAnswered: _model_answered,
    f.ModelFailed: _model_failed,
    f.ModelInterrupted: _model_interrupted,
    f.BackoffStarted: _backoff_started,
    f.BackoffEnded: _backoff_ended,
    f.CallJudged: _judged,
    f.GateOpened: _gate_opened,
    f.GateDecided: decided,
    f.ApprovalVoided: _approval_voided,
    f.ToolIntended: _intended,
    f.ToolVerified: _verified,
    f.ToolCompleted: _completed,
    f.ToolRefused: _refused,
    f.StepCompleted: _step_completed,
    f.Reminded: _reminded,
    f.LimitWarned: _warned,
    f.LimitReached: _limit_reached,
    f.LoopDetected: _loop_detected,
    f.MessageReceived: _message,
    f.StopRequested: _stop,
    f.RunPaused: _paused,
    f.RunResumed: _resumed,
    f.ResultProposed: _proposed,
    f.ChecksStarted: _checks_started,
    f.ChecksCompleted: _checks_completed,
    f.DiagnosisMade: _diagnosed,
    f.RunEnded: _ended,
    f.UndoLearnt: undo_learnt,
    f.RollbackRequested: rollback_requested,
    f.CompensationIntended: compensated,
    f.CompensationCompleted: compensated,
    f.RollbackEnded: rollback_ended,
}

__all__ = ["ImpossibleFact", "answer_call_id", "apply", "initial", "replay"]
