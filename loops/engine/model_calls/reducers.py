"""A model is asked and answers, fails to, or is waited for."""

from __future__ import annotations

from dataclasses import replace

from loops.engine import facts as f
from loops.engine.encoding.replace import evolve
from loops.engine.reducers import ImpossibleFact, answer_call_id, means
from loops.engine.state.outage import MAX_SECONDS_PARKED, NO_OUTAGE
from loops.engine.state.run import PendingCall, RunState
from loops.engine.values import StopReason

SAID_AT_MOST = 600
"""Characters of a provider's words that a state keeps."""


@means(f.ModelRequested)
def model_requested(state: RunState, fact: f.ModelRequested) -> RunState:
    if state.calls or state.answered:
        raise ImpossibleFact("a model was asked while its latest answer is still open")
    step = state.step if state.step_is_open else state.step + 1
    known = evolve(
        state.windowing,
        model=fact.model,
        asked_bytes=fact.size,
        tools_sha256=fact.tools_sha256 or state.windowing.tools_sha256,
    )
    return evolve(state, requested=True, step=step, windowing=known)


@means(f.ModelAnswered)
def model_answered(state: RunState, fact: f.ModelAnswered) -> RunState:
    if not state.requested:
        raise ImpossibleFact("an answer without a request")
    answers = state.model_calls + 1
    calls = tuple(
        PendingCall(call=replace(call, id=answer_call_id(answers, position)))
        for position, call in enumerate(fact.calls)
    )
    usage = fact.usage
    full = fact.stop is StopReason.CONTEXT_EXCEEDED  # what follows is said by context_window
    return evolve(
        state,
        requested=False,
        answered=True,
        model_attempt=0,
        outage=NO_OUTAGE,
        model_calls=answers,
        calls=calls,
        stopped_without_calls=not calls,
        last_stop=fact.stop.value,
        last_text=fact.text,
        tokens=state.tokens + usage.total_tokens,
        cost_microusd=state.cost_microusd + (usage.cost_microusd or 0),
        cost_unknown=state.cost_unknown or usage.cost_microusd is None,
        fatal=state.fatal if full else "refused" if fact.stop is StopReason.REFUSAL else "",
    )


@means(f.ModelFailed)
def model_failed(state: RunState, fact: f.ModelFailed) -> RunState:
    """A failed probe uses up no attempt: it was made for everybody. There are as many probes as attempts."""
    if fact.code in f.TOO_LONG:  # what follows is said by context_window
        return evolve(state, requested=False, model_attempt=fact.attempt)
    transient, most = fact.kind.value == "transient", state.limits.max_model_attempts
    said = f"{fact.model}: {fact.message[:SAID_AT_MOST]}" if fact.model else fact.message[:SAID_AT_MOST]
    outage = evolve(state.outage, why=fact.code, said=said, probes=state.outage.probes + fact.probe)
    attempt = state.model_attempt if fact.probe else fact.attempt
    state = evolve(state, requested=False, model_attempt=attempt, outage=outage)
    if transient and attempt < most and outage.probes < most:
        return state
    if not fact.next_model:
        return evolve(state, fatal="model_unavailable")
    return evolve(state, model_attempt=0, outage=evolve(outage, given_up=(*outage.given_up, fact.model), probes=0))


@means(f.ModelInterrupted)
def model_interrupted(state: RunState, fact: f.ModelInterrupted) -> RunState:
    return evolve(state, requested=True)


@means(f.BackoffStarted)
def backoff_started(state: RunState, fact: f.BackoffStarted) -> RunState:
    return evolve(state, wake_at=fact.until)


@means(f.BackoffEnded)
def backoff_ended(state: RunState, fact: f.BackoffEnded) -> RunState:
    return evolve(state, wake_at=0)


@means(f.ModelAwaited)
def awaited(state: RunState, fact: f.ModelAwaited) -> RunState:
    if state.calls or state.answered:
        raise ImpossibleFact("a model was waited for while its latest answer is still open")
    return evolve(state, outage=evolve(state.outage, model=fact.model, since=fact.at, until=fact.until))


@means(f.ModelAwaitEnded)
def await_ended(state: RunState, fact: f.ModelAwaitEnded) -> RunState:
    waited = state.outage.waited_us + max(0, fact.at - state.outage.since)
    given_up = waited >= MAX_SECONDS_PARKED * 1_000_000
    return evolve(
        state,
        outage=evolve(state.outage, since=0, until=0, waited_us=waited),
        fatal="model_unavailable" if given_up else state.fatal,
    )


@means(f.TurnAwaited)
def turn_awaited(state: RunState, fact: f.TurnAwaited) -> RunState:
    if state.calls or state.answered:
        raise ImpossibleFact("a turn at a model was waited for while its latest answer is still open")
    return evolve(state, turn_at=fact.model, turn_after=fact.before)


@means(f.TurnTaken)
def turn_taken(state: RunState, fact: f.TurnTaken) -> RunState:
    return evolve(state, turn_at="", turn_after=0)
