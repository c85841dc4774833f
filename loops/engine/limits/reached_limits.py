"""What a limit leads to when it is near or reached: the model is told, a person is asked (SPEC D1, D3)."""

from __future__ import annotations

from loops.engine import prompts
from loops.engine.effects import Effect, Record
from loops.engine.facts import Fact, LimitReached, LimitWarned, Reminded
from loops.engine.measures import limits
from loops.engine.measures.extensions import limit_gate
from loops.engine.state.run import RunState


def ask_about_limit(state: RunState) -> Effect | None:
    """Ask a person about the limit that was reached."""
    return limit_gate(state) if state.reached else None


def notice_limit(state: RunState) -> Effect | None:
    """Put on record that a limit is reached."""
    hit = limits.reached(state)
    return Record((LimitReached(limit=hit.limit, used=hit.used, bound=hit.bound),)) if hit else None


def warn_of_limit(state: RunState) -> Effect | None:
    """Tell the model that a limit is near (SPEC D3)."""
    warned = limits.warnings(state)
    return Record(tuple(fact for hit in warned for fact in _warning(hit))) if warned else None


def _warning(hit: limits.LimitHit) -> tuple[Fact, ...]:
    if hit.limit == "max_cost_usd":
        text = prompts.fill("money_near", used=f"{hit.used / 1e6:.2f}", bound=f"{hit.bound / 1e6:.2f}")
    else:
        label = limits.LABELS[hit.limit]
        text = prompts.fill("limit_near", used=f"{hit.used:,}", bound=f"{hit.bound:,}", limit=label)
    return (LimitWarned(limit=hit.limit, used=hit.used, bound=hit.bound), Reminded(reason=hit.limit, text=text))
