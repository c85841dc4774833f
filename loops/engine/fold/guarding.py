"""What the loop noticed by itself."""

from __future__ import annotations

from loops.engine import facts as f
from loops.engine.evolving import evolve
from loops.engine.fold.parts import CHARS_PER_TOKEN, means
from loops.engine.state import RunState


@means(f.Reminded)
def reminded(state: RunState, fact: f.Reminded) -> RunState:
    return evolve(state, context_tokens=state.context_tokens + len(fact.text) // CHARS_PER_TOKEN)


@means(f.LimitWarned)
def warned(state: RunState, fact: f.LimitWarned) -> RunState:
    return evolve(state, warned=state.warned | {fact.limit})


@means(f.LimitReached)
def limit_reached(state: RunState, fact: f.LimitReached) -> RunState:
    return evolve(state, reached=fact.limit)
