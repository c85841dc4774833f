"""A run is parked because no model may be asked, and goes on (SPEC E6)."""

from __future__ import annotations

from loops.engine import facts as f
from loops.engine.evolving import evolve
from loops.engine.fold.parts import ImpossibleFact, means
from loops.engine.outages import MAX_SECONDS_PARKED
from loops.engine.state import RunState


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
