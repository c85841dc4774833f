"""What the loop noticed by itself."""

from __future__ import annotations

from loops.engine import facts as f
from loops.engine.encoding.replace import evolve
from loops.engine.reducers import CHARS_PER_TOKEN, means
from loops.engine.state.run import RunState


@means(f.Reminded)
def reminded(state: RunState, fact: f.Reminded) -> RunState:
    return evolve(state, context_tokens=state.context_tokens + len(fact.text) // CHARS_PER_TOKEN)


@means(f.LimitWarned)
def warned(state: RunState, fact: f.LimitWarned) -> RunState:
    return evolve(state, warned=state.warned | {fact.limit})


@means(f.LimitReached)
def limit_reached(state: RunState, fact: f.LimitReached) -> RunState:
    return evolve(state, reached=fact.limit)
