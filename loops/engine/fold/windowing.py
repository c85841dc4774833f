"""The conversation was measured against the model's window, and pruned (``loops.engine.windowing``)."""

from __future__ import annotations

from loops.engine import facts as f
from loops.engine.evolving import evolve
from loops.engine.fold.parts import means
from loops.engine.state import RunState
from loops.engine.windowing import budget, window

AGAIN_AFTER = 10
"""One in so many tokens of the budget must come in before a pruning that was not enough is tried again."""


@means(f.ContextWarned)
def context_warned(state: RunState, fact: f.ContextWarned) -> RunState:
    return evolve(state, windowing=evolve(state.windowing, warned=True))


@means(f.SummaryRequested)
def summary_requested(state: RunState, fact: f.SummaryRequested) -> RunState:
    return evolve(state, windowing=evolve(state.windowing, summaries=state.windowing.summaries + 1))


@means(f.ContextPruned)
def context_pruned(state: RunState, fact: f.ContextPruned) -> RunState:
    """What the provider would not take and cannot be made shorter ends the run."""
    known, limit, usage = state.windowing, budget(window(state)), fact.usage
    hopeless = known.too_long and fact.method == "none"
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
            quiet_until=fact.after_tokens + limit // AGAIN_AFTER if too_much else 0,
            warned=known.warned and fact.method == "none",
            summaries=0,
        ),
    )
