"""A run is parked until the endpoint of its model is free, and goes on (SPEC E6)."""

from __future__ import annotations

from loops.engine import facts as f
from loops.engine.evolving import evolve
from loops.engine.fold.parts import ImpossibleFact, means
from loops.engine.state import RunState


@means(f.TurnAwaited)
def turn_awaited(state: RunState, fact: f.TurnAwaited) -> RunState:
    if state.calls or state.answered:
        raise ImpossibleFact("a turn at a model was waited for while its latest answer is still open")
    return evolve(state, turn_at=fact.model, turn_after=fact.before)


@means(f.TurnTaken)
def turn_taken(state: RunState, fact: f.TurnTaken) -> RunState:
    return evolve(state, turn_at="", turn_after=0)
