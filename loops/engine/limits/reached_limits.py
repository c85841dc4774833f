"""What a limit leads to when it is near or reached: the model is told, a person is asked (SPEC D1, D3)."""

from __future__ import annotations

from loops.engine import prompts
from loops.engine.effects import Effect, OpenGate, Record
from loops.engine.facts import Fact, LimitReached, LimitWarned, Reminded
from loops.engine.limits import guards
from loops.engine.state.run import RunState

UNPRICED = "a model without a known price was asked: the money limit cannot bind what it costs"


def ask_about_limit(state: RunState) -> Effect | None:
    """Ask a person about the limit that was reached."""
    return limit_gate(state) if state.reached else None


def notice_limit(state: RunState) -> Effect | None:
    """Put on record that a limit is reached."""
    hit = guards.reached(state)
    return Record((LimitReached(limit=hit.limit, used=hit.used, bound=hit.bound),)) if hit else None


def warn_of_limit(state: RunState) -> Effect | None:
    """Tell the model that a limit is near (SPEC D3)."""
    warned = guards.warnings(state)
    return Record(tuple(fact for hit in warned for fact in _warning(hit))) if warned else None


def _warning(hit: guards.LimitHit) -> tuple[Fact, ...]:
    if hit.limit == "max_cost_usd":
        text = prompts.fill("money_near", used=f"{hit.used / 1e6:.2f}", bound=f"{hit.bound / 1e6:.2f}")
    else:
        label = guards.LABELS[hit.limit]
        text = prompts.fill("limit_near", used=f"{hit.used:,}", bound=f"{hit.bound:,}", limit=label)
    return (LimitWarned(limit=hit.limit, used=hit.used, bound=hit.bound), Reminded(reason=hit.limit, text=text))


def limit_gate(state: RunState) -> OpenGate:
    """The question whether to extend the limit that was reached. It says how often that is still possible."""
    used, bound = guards.usage(state)[state.reached]
    hit = guards.LimitHit(state.reached, used, bound)
    scale = 1_000_000 if state.reached == "max_cost_usd" else 1
    shown = {
        "used": used,
        "bound": bound,
        "suggested": guards.suggested(state, hit),
        "least": guards.least(state, hit),
    }
    left = guards.extensions_left(state)
    label = guards.LABELS[state.reached]
    unpriced = state.reached == "max_cost_usd" and guards.is_unpriced(state)
    least = "at least " if unpriced else ""
    return OpenGate(
        kind="limit_reached",
        title=f"{'No price known' if unpriced else 'Limit reached'}: {least}{used / scale:,.12g} of "
        f"{bound / scale:,.12g} {label}",
        reasons=(
            *((UNPRICED,) if unpriced else ()),
            f"{state.reached}: {least}{used / scale:.12g} used, {bound / scale:.12g} allowed",
            *(() if left else (f"all {state.limits.max_extensions} extensions that its limits allow are used",)),
        ),
        recommended="extend" if state.progress > 0 and left else "reject",
        view={
            "limit": state.reached,
            "label": label,
            **guards.extensions_of(state),
            **{name: value if scale == 1 else value / scale for name, value in shown.items()},
        },
    )
