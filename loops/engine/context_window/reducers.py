"""The conversation was measured against the model's window, and pruned (``loops.engine.context_window.budget``)."""

from __future__ import annotations

from loops.engine import facts as f
from loops.engine.context_window.budget import after_answer, overflowed, refused_for_length
from loops.engine.encoding.replace import evolve
from loops.engine.measures.context_budget import (
    RICHEST,
    SMALLEST_ANSWER,
    budget,
    is_small,
    rate,
    tokens,
    window,
)
from loops.engine.reducers import means
from loops.engine.state.run import RunState
from loops.engine.values import StopReason

AGAIN_AFTER = 10
"""One in so many tokens of the budget must come in before a pruning that was not enough is tried again."""


@means(f.ModelAnswered)
def model_answered(state: RunState, fact: f.ModelAnswered) -> RunState:
    """An answer that ended for want of room was too long a request."""
    size, known = after_answer(state, fact.usage)
    full = fact.stop is StopReason.CONTEXT_EXCEEDED
    known = evolve(known, overflows=known.overflows if full else 0, learnt=known.learnt and full)
    answered = evolve(state, context_tokens=size, windowing=known)
    return overflowed(evolve(answered, fatal="")) if full else answered


@means(f.ModelFailed)
def model_failed(state: RunState, fact: f.ModelFailed) -> RunState:
    if fact.code not in f.TOO_LONG:
        return state
    return refused_for_length(state, fact.model, fact.window, fact.counted)


@means(f.ContextWarned)
def context_warned(state: RunState, fact: f.ContextWarned) -> RunState:
    return evolve(state, windowing=evolve(state.windowing, warned=True))


@means(f.PromptShortened)
def prompt_shortened(state: RunState, fact: f.PromptShortened) -> RunState:
    """What is measured from now on is the shorter request."""
    known = state.windowing
    size = tokens(fact.size, known)
    too_long = known.too_long and size > budget(fact.window)
    return evolve(state, context_tokens=size, windowing=evolve(known, counted=size, too_long=too_long))


@means(f.SummaryRequested)
def summary_requested(state: RunState, fact: f.SummaryRequested) -> RunState:
    return evolve(state, windowing=evolve(state.windowing, summaries=state.windowing.summaries + 1))


@means(f.ContextPruned)
def context_pruned(state: RunState, fact: f.ContextPruned) -> RunState:
    """What the provider would not take and cannot be made shorter ends the run."""
    known, limit, usage = state.windowing, budget(window(state)), fact.usage
    hopeless = fact.method == "none" and (known.too_long or _can_never_fit(state, fact))
    too_much = fact.after_tokens > limit
    return evolve(
        state,
        context_tokens=fact.after_tokens,
        tokens=state.tokens + usage.total_tokens,
        cost_microusd=state.cost_microusd + (usage.cost_microusd or 0),
        cost_unknown=state.cost_unknown or usage.cost_microusd is None,
        fatal="context_exceeded" if hopeless else state.fatal,
        windowing=evolve(
            known,
            counted=fact.after_tokens,
            prunings=known.prunings + (fact.method != "none"),
            too_long=False,
            fixed=fact.fixed_tokens,
            quiet_until=fact.after_tokens + limit // AGAIN_AFTER if too_much else 0,
            warned=known.warned and fact.method == "none",
            summaries=0,
        ),
    )


def _can_never_fit(state: RunState, fact: f.ContextPruned) -> bool:
    """Too long by the most generous estimate: it is not sent, as some servers would cut it without a word. Only of a
    window that somebody named: those that are assumed are not small."""
    size, known = window(state), state.windowing
    generous = known.ratio or RICHEST
    return is_small(size) and fact.after_tokens * rate(known) / generous + SMALLEST_ANSWER > size
