"""What the loop noticed by itself."""

from __future__ import annotations

from dataclasses import replace

from loops.engine import facts as f
from loops.engine.encoding.replace import evolve
from loops.engine.measures.limits import REASON_OF, extended, is_unpriced
from loops.engine.reducers import CHARS_PER_TOKEN, decides, means
from loops.engine.state.fresh_start import confirmed, tried_anew
from loops.engine.state.run import OpenGate, RunState


@means(f.Reminded)
def reminded(state: RunState, fact: f.Reminded) -> RunState:
    return evolve(state, context_tokens=state.context_tokens + len(fact.text) // CHARS_PER_TOKEN)


@means(f.LimitWarned)
def warned(state: RunState, fact: f.LimitWarned) -> RunState:
    return evolve(state, warned=state.warned | {fact.limit})


@means(f.LimitReached)
def limit_reached(state: RunState, fact: f.LimitReached) -> RunState:
    return evolve(state, reached=fact.limit)


@decides("limit_reached")
def limit_decided(state: RunState, gate: OpenGate, fact: f.GateDecided) -> RunState:
    """No door takes an extension beyond ``max_extensions`` (``gates.policy.payloads``); this is the last line."""
    if not fact.continues or state.extensions >= state.limits.max_extensions:
        return evolve(state, reached="", fatal=REASON_OF.get(gate.limit, gate.limit))
    state = confirmed(tried_anew(state) if gate.limit == "max_failures" else state)
    return evolve(
        state,
        reached="",
        extensions=state.extensions + 1,
        limits=extended(state.limits, fact.payload, unpriced=is_unpriced(state)),
        warned=state.warned - {gate.limit},
    )


@decides("no_price")
def price_decided(state: RunState, gate: OpenGate, fact: f.GateDecided) -> RunState:
    """Once it goes on without a price, the bound holds for what is known of the cost."""
    if not fact.continues:
        return evolve(state, reached="", fatal=gate.limit)
    return evolve(confirmed(state), reached="", limits=replace(state.limits, allow_unknown_cost=1))
