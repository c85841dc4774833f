"""What stands before the next request to a model: an ordered table of small pure functions ``state -> Effect | None``.

The first that has something to do is done, and the table is asked again. Each leaves a fact that makes it silent the
next time, so that the request is reached. An idea of its own gets a module of its own and a line in ``BEFORE``.
"""

from __future__ import annotations

from collections.abc import Callable

from loops.engine import circling, confidence, limits, long_task, texts, windowing
from loops.engine.effects import Effect, OpenGate, Record
from loops.engine.facts import Fact, LimitReached, LimitWarned, Reminded
from loops.engine.recovery import acting
from loops.engine.state import RunState

UNPRICED = "a model without a known price was asked: the money limit cannot bind what it costs"


def next_effect(state: RunState) -> Effect | None:
    """What is to be done before the model may be asked; None when nothing is."""
    for step in BEFORE:
        if effect := step(state):
            return effect
    return None


def _ask_about_limit(state: RunState) -> Effect | None:
    return limit_gate(state) if state.reached else None


def _look_at_limits(state: RunState) -> Effect | None:
    hit = limits.reached(state)
    return Record((LimitReached(limit=hit.limit, used=hit.used, bound=hit.bound),)) if hit else None


def _warn(state: RunState) -> Effect | None:
    warned = limits.warnings(state)
    return Record(tuple(fact for hit in warned for fact in _warning(hit))) if warned else None


def _warning(hit: limits.LimitHit) -> tuple[Fact, ...]:
    if hit.limit == "max_cost_usd":
        text = texts.fill("money_near", used=f"{hit.used / 1e6:.2f}", bound=f"{hit.bound / 1e6:.2f}")
    else:
        label = limits.LABELS[hit.limit]
        text = texts.fill("limit_near", used=f"{hit.used:,}", bound=f"{hit.bound:,}", limit=label)
    return (LimitWarned(limit=hit.limit, used=hit.used, bound=hit.bound), Reminded(reason=hit.limit, text=text))


def limit_gate(state: RunState) -> OpenGate:
    """The question whether to extend the limit that was reached. It says how often that is still possible."""
    used, bound = limits.usage(state)[state.reached]
    hit = limits.LimitHit(state.reached, used, bound)
    scale = 1_000_000 if state.reached == "max_cost_usd" else 1
    shown = {
        "used": used,
        "bound": bound,
        "suggested": limits.suggested(state, hit),
        "least": limits.least(state, hit),
    }
    left = limits.extensions_left(state)
    label = limits.LABELS[state.reached]
    unpriced = state.reached == "max_cost_usd" and limits.is_unpriced(state)
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
            **limits.extensions_of(state),
            **{name: value if scale == 1 else value / scale for name, value in shown.items()},
        },
    )


BEFORE: tuple[Callable[[RunState], Effect | None], ...] = (
    _ask_about_limit,
    acting.give_up,
    circling.break_or_ask,
    circling.look_for_loops,
    acting.act,
    windowing.warn,
    windowing.make_room,
    _look_at_limits,
    confidence.check_confidence,
    long_task.confirm_long_task,
    _warn,
    acting.force_reflection,
    acting.wait_out,
)
"""In the order in which they are asked."""
