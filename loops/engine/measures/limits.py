"""Guards: small pure functions ``state -> LimitHit | None``, listed in the order in which they are asked (SPEC D1-D3).

Every bound has one name, used as reason code, in gates, in the UI and in tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from loops.engine.measures.context_budget import SMALLEST_ANSWER, answer_room
from loops.engine.state.limits import EXTENDABLE, FIELD_OF, Limits
from loops.engine.state.run import RunState
from loops.engine.values import Json

LARGEST_ANSWER = 32_768
"""Tokens, thinking included. What one model may write at most stands in its own settings."""
LARGEST_BOUND = 2**53
HARD_CAP_MODEL_CALLS = 20_000
"""Global iteration cap of a run: no extension passes it (SPEC A6)."""


@dataclass(frozen=True, slots=True)
class LimitHit:
    limit: str
    used: int
    bound: int


LABELS: Mapping[str, str] = {name: row.unit for name, row in EXTENDABLE.items()}
REASON_OF: Mapping[str, str] = {name: row.ends_as or name for name, row in EXTENDABLE.items()}
"""Reason code of a run that reached the limit and was not extended."""


def usage(state: RunState) -> dict[str, tuple[int, int]]:
    """Used and bound by limit name, in the units of ``Limits``. A step counts once it has an answer, so that the last
    one allowed can be asked for again after a failure or a lost worker."""
    limits = state.limits
    return {
        "max_steps": (max(0, state.steps_used - state.step_is_open), limits.max_steps),
        "max_seconds": (state.active_us // 1_000_000, limits.max_seconds),
        "max_failures": (state.failures_in_row, limits.max_failures),
        "max_tokens": (state.tokens, limits.max_tokens),
        "max_cost_usd": (state.cost_microusd, limits.max_cost_microusd),
        "max_repairs": (state.repairs, limits.max_repairs),
        "max_backtracks": (state.recovering.backtracks, limits.max_backtracks),
    }


def tokens_left(state: RunState) -> int:
    """Room for the next answer, after the estimated request itself (A4: the token budget is never passed)."""
    return state.limits.max_tokens - state.tokens - state.context_tokens


def answer_tokens(state: RunState) -> int:
    return min(LARGEST_ANSWER, tokens_left(state), max(SMALLEST_ANSWER, answer_room(state)))


def _full(name: str) -> Callable[[RunState], LimitHit | None]:
    def guard(state: RunState) -> LimitHit | None:
        used, bound = usage(state)[name]
        return LimitHit(name, used, bound) if used >= bound else None

    return guard


def is_unpriced(state: RunState) -> bool:
    """Some call had no known price, and nobody said that the bound on money may be left open for it."""
    return state.cost_unknown and not state.limits.allow_unknown_cost


def _money(state: RunState) -> LimitHit | None:
    used, bound = usage(state)["max_cost_usd"]
    return LimitHit("max_cost_usd", used, bound) if used >= bound or is_unpriced(state) else None


def _tokens(state: RunState) -> LimitHit | None:
    if tokens_left(state) >= SMALLEST_ANSWER:
        return None
    return LimitHit("max_tokens", state.tokens, state.limits.max_tokens)


GUARDS: tuple[Callable[[RunState], LimitHit | None], ...] = (
    _full("max_seconds"),
    _full("max_steps"),
    _full("max_failures"),
    _tokens,
    _money,
    _full("max_backtracks"),
)
"""Repairs are counted where they begin (``verification.diagnosis``): a result that holds needs none."""


def reached(state: RunState) -> LimitHit | None:
    """The first limit that forbids another step."""
    for guard in GUARDS:
        if hit := guard(state):
            return hit
    return None


def warnings(state: RunState) -> tuple[LimitHit, ...]:
    """Limits that passed the warning mark since the last look (SPEC D3: 80 %)."""
    found = []
    for name, (used, bound) in usage(state).items():
        if not EXTENDABLE[name].warned or name in state.warned:
            continue
        if used >= bound * state.limits.warn_at:
            found.append(LimitHit(name, used, bound))
    return tuple(found)


def extended(limits: Limits, payload: Mapping[str, Json], *, unpriced: bool = False) -> Limits:
    """``limits`` with the bounds a person granted; with money, also that calls had no known price (``unpriced``: gates
    of earlier versions asked about both in one).
    Values that are no positive, storable numbers are ignored: the guard asks again."""
    changes: dict[str, Any] = {}
    for name, value in payload.items():
        field = FIELD_OF[name] if name in EXTENDABLE else None
        if field is None or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        granted = value * EXTENDABLE[name].scale
        if 1 <= granted <= LARGEST_BOUND:
            changes[field] = int(granted)
            changes |= {"allow_unknown_cost": 1} if unpriced and name == "max_cost_usd" else {}
    return replace(limits, **changes)
