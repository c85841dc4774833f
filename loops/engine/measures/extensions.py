"""What a person is asked when a limit is reached, and how often it may still be extended (SPEC A6, D3)."""

from __future__ import annotations

from loops.engine.effects import OpenGate
from loops.engine.measures import limits
from loops.engine.measures.context_budget import SMALLEST_ANSWER
from loops.engine.measures.limits import LimitHit
from loops.engine.state.run import RunState
from loops.engine.text.money import usd
from loops.engine.values import Json

UNPRICED = "a model without a known price was asked: the cost limit cannot cap what it costs"
ROOM_FOR_WORDS = 1_024
"""Tokens: what a decision and the warnings after it add to the conversation."""
_SUGGESTED_FACTOR = 1.5


def limit_gate(state: RunState) -> OpenGate:
    """The question whether to extend the limit that was reached. It says how often that is still possible."""
    if state.reached == "max_cost_usd" and limits.is_unpriced(state):
        return _price_gate(state)
    used, bound = limits.usage(state)[state.reached]
    hit = LimitHit(state.reached, used, bound)
    is_money = state.reached == "max_cost_usd"
    scale = 1_000_000 if is_money else 1
    reached = f"{usd(used)} of {usd(bound)}" if is_money else f"{used:,} of {bound:,}"
    shown = {
        "used": used,
        "bound": bound,
        "suggested": suggested(state, hit),
        "least": least(state, hit),
    }
    left = extensions_left(state)
    label = limits.LABELS[state.reached]
    return OpenGate(
        kind="limit_reached",
        title=f"Limit reached: {reached} {label}",
        reasons=(
            f"{state.reached}: {used / scale:.12g} used, {bound / scale:.12g} allowed",
            *(() if left else (f"all {state.limits.max_extensions} extensions that its limits allow are used",)),
        ),
        recommended="extend" if state.progress > 0 and left else "reject",
        view={
            "limit": state.reached,
            "label": label,
            **extensions_of(state),
            **{name: value if scale == 1 else value / scale for name, value in shown.items()},
        },
    )


def _price_gate(state: RunState) -> OpenGate:
    """The question whether to go on although nothing bounds the cost. It is asked once, and is no extension."""
    spent = " of ".join(map(usd, limits.usage(state)["max_cost_usd"]))
    used, bound = (amount / 1_000_000 for amount in limits.usage(state)["max_cost_usd"])
    label = limits.LABELS["max_cost_usd"]
    return OpenGate(
        kind="no_price",
        title=f"No price known: at least {spent} {label}",
        reasons=(UNPRICED,),
        view={"limit": "max_cost_usd", "label": label, "used": used, "bound": bound},
    )


def suggested(state: RunState, hit: LimitHit) -> int:
    """A new bound to offer: half as much again, and always one that lets it go on."""
    return max(int(hit.bound * _SUGGESTED_FACTOR), hit.used + max(1, hit.bound // 4), least(state, hit))


def least(state: RunState, hit: LimitHit) -> int:
    """The smallest bound with which the run goes on: with less, whoever extends it would be asked again at once."""
    if hit.limit == "max_tokens":
        return max(hit.bound + 1, state.tokens + state.context_tokens + SMALLEST_ANSWER + ROOM_FOR_WORDS)
    return max(hit.bound, hit.used) + 1


def extensions_left(state: RunState) -> int:
    """How often people may still let it go on past a bound, or out of a loop (SPEC A6)."""
    return max(0, state.limits.max_extensions - state.extensions)


def extensions_of(state: RunState) -> dict[str, Json]:
    """What a gate says whose approval counts as an extension: so many were granted, so many may be."""
    return {"extensions_used": state.extensions, "extensions_allowed": state.limits.max_extensions}
