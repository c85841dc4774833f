"""What failures, backtracks and reflections make of a state."""

from __future__ import annotations

from loops.engine import facts as f
from loops.engine.encoding.replace import evolve
from loops.engine.failures import memory as remembered
from loops.engine.failures.memory import fingerprint
from loops.engine.failures.reflection import line_of
from loops.engine.reducers import CHARS_PER_TOKEN, ImpossibleFact, call_of, decides, means, with_call
from loops.engine.state.failure import Recovery, SecondOpinion, Source
from loops.engine.state.fresh_start import confirmed
from loops.engine.state.recovery import GIVEN_UP_REMEMBERED, RecoveryState
from loops.engine.state.run import OpenGate, RunState
from loops.engine.values import FailureKind

_WEIGHT = ("", Recovery.CONTINUE, Recovery.BACKTRACK, Recovery.FAIL_GRACEFULLY, Recovery.ESCALATE)
"""Of several failures in one step the gravest decides."""


@means(f.ToolCompleted)
def tool_completed(state: RunState, fact: f.ToolCompleted) -> RunState:
    pending, result = call_of(state, fact.call_id), fact.result
    known = remembered.after_outcome(state.recovering, pending, result.ok, result.error)
    failure = remembered.failure_of(fact.tool, result)
    return evolve(with_call(state, fact.call_id, failure=failure), recovering=known)


@means(f.ToolRefused)
def tool_refused(state: RunState, fact: f.ToolRefused) -> RunState:
    known = remembered.after_refusal(state.recovering, call_of(state, fact.call_id), fact.why, fact.message)
    failure = remembered.failure_of_refusal(fact.tool, fact.why, fact.message)
    return evolve(with_call(state, fact.call_id, failure=failure), recovering=known)


@means(f.StepCompleted)
def step_completed(state: RunState, fact: f.StepCompleted) -> RunState:
    plain = state.stopped_without_calls and not state.recovering.reflected
    return evolve(
        state,
        plain_answers=state.plain_answers + 1 if plain else 0,
        recovering=remembered.after_step(state, fact),
        failures_in_row=0 if fact.success else state.failures_in_row + 1,
    )


@means(f.BackoffStarted)
def backoff_started(state: RunState, fact: f.BackoffStarted) -> RunState:
    """A wait has begun, and is not begun again."""
    return evolve(state, recovering=evolve(state.recovering, wait_for=0)) if state.recovering.wait_for else state


@means(f.FailureClassified)
def classified(state: RunState, fact: f.FailureClassified) -> RunState:
    memory = state.recovering
    passes = fact.kind is FailureKind.TRANSIENT
    if fact.kind is FailureKind.CRITICAL:
        memory = evolve(memory, strayed=True)
    pending = call_of(state, fact.call_id)
    if pending.failure is not None and pending.failure.source is Source.TOOL:  # it ran: its latest failure counts
        of_it = fingerprint(pending.call)
        failed = tuple(evolve(one, transient=passes) if one.fingerprint == of_it else one for one in memory.failed)
        memory = evolve(memory, failed=failed)
    if _WEIGHT.index(fact.decision) <= _WEIGHT.index(memory.next):
        return evolve(state, recovering=memory)
    goes_on = fact.decision is Recovery.CONTINUE
    memory = evolve(
        memory,
        next="" if goes_on else fact.decision.value,
        why=f"{fact.tool}: {fact.reason}",
        rule=fact.rule,
        person_can_help=fact.person_can_help,
        wait_for=fact.attempt if goes_on and passes else 0,
    )
    return evolve(state, recovering=memory)


@means(f.Backtracked)
def backtracked(state: RunState, fact: f.Backtracked) -> RunState:
    """The failed steps of the approach count as one from now on, as one summary takes their place (ADR 0015)."""
    memory = state.recovering
    backtracks = memory.backtracks + 1
    given_up = (*memory.given_up, line_of(memory.attempts))[-GIVEN_UP_REMEMBERED:]
    left = evolve(memory, backtracks=backtracks, given_up=given_up, next="", attempts=(), failed_steps=0, wait_for=0)
    return evolve(
        state,
        recovering=left,
        failures_in_row=state.failures_in_row - max(0, memory.failed_steps - 1),
        context_tokens=state.context_tokens + len(fact.summary) // CHARS_PER_TOKEN,
    )


@means(f.ReflectionForced)
def reflection_forced(state: RunState, fact: f.ReflectionForced) -> RunState:
    return evolve(
        state,
        recovering=evolve(state.recovering, must_reflect=True, errors_in_row=0),
        context_tokens=state.context_tokens + len(fact.text) // CHARS_PER_TOKEN,
    )


@means(f.ReflectionGiven)
def reflection_given(state: RunState, fact: f.ReflectionGiven) -> RunState:
    return evolve(state, recovering=evolve(state.recovering, must_reflect=False, reflected=True))


@means(f.ModelStopped)
def model_stopped(state: RunState, fact: f.ModelStopped) -> RunState:
    return state if fact.taken else evolve(state, fatal=state.fatal or "no_tool_call")


@decides("escalation")
def escalation_decided(state: RunState, gate: OpenGate, fact: f.GateDecided) -> RunState:
    """A person who lets it go on may have put right what failed: anything may be tried again."""
    if not fact.continues:
        return evolve(state, fatal="escalated")
    memory = state.recovering
    fresh = RecoveryState(
        backtracks=memory.backtracks,
        given_up=memory.given_up,
        best_progress=memory.best_progress,
        confirmed_at=state.step,
    )
    return evolve(state, recovering=fresh, failures_in_row=0)


@decides("long_task")
def long_task_decided(state: RunState, gate: OpenGate, fact: f.GateDecided) -> RunState:
    return confirmed(state) if fact.continues else evolve(state, fatal="not_confirmed")


CUT_SHORT = "the question was cut short, and is not asked again"


@means(f.ClassificationRequested)
def classification_requested(state: RunState, fact: f.ClassificationRequested) -> RunState:
    """Whatever becomes of the question, the same failure is not asked about again."""
    call_of(state, fact.call_id)
    if any(known.fingerprint == fact.fingerprint for known in state.second_opinions):
        raise ImpossibleFact("this failure was asked about before")
    unheard = SecondOpinion(fact.fingerprint, fact.model, problem=CUT_SHORT)
    return evolve(state, second_opinions=(*state.second_opinions, unheard))


@means(f.ClassificationGiven)
def classification_given(state: RunState, fact: f.ClassificationGiven) -> RunState:
    asked, usage = state.second_opinions[-1:], fact.usage
    if not asked or (asked[0].fingerprint, asked[0].problem) != (fact.fingerprint, CUT_SHORT):
        raise ImpossibleFact("nobody was asked about this failure")
    heard = SecondOpinion(fact.fingerprint, fact.model, fact.kind, fact.problem)
    return evolve(
        state,
        second_opinions=(*state.second_opinions[:-1], heard),
        tokens=state.tokens + usage.total_tokens,
        cost_microusd=state.cost_microusd + (usage.cost_microusd or 0),
        cost_unknown=state.cost_unknown or usage.cost_microusd is None,
    )
