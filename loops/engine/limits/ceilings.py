"""The project's policy is a floor under every task: what a task may ask of its limits and its review (ADR 0045). Pure.

Each limit has a ceiling: the amount that an admin named in the policy, or else the largest of any complexity profile.
No run gets more, whatever its profile says, unless an admin of the project asked for it in the task or the fork.
Amounts are in the units of ``loops.engine.state.limits``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from loops.engine.state.limits import LIMITS

OFF_AT_ZERO = frozenset(name for name, row in LIMITS.items() if row.never_at_zero)
"""0 means never, which is looser than any number."""
REVIEW = "final_review"
REVIEWS = ("never", "unless_verified", "always")
"""The field, and what it may be, from the loosest to the strictest."""


@dataclass(frozen=True, slots=True)
class Floor:
    """What binds the tasks of a project: a ceiling for each of ``LIMITS``, and the review of results."""

    ceilings: Mapping[str, int]
    final_review: str


@dataclass(frozen=True, slots=True)
class Loosened:
    """A field that asks for more than the floor gives: ``limits.<name>`` or ``REVIEW``."""

    field: str
    asked: int | str
    allowed: int | str


def ceilings(profiles: Iterable[Mapping[str, int]], named: Mapping[str, Any]) -> dict[str, int]:
    """Limit -> the most that a task gets. ``named`` is the policy's; what is no whole number there counts as not named,
    and at least one profile is needed."""
    rows = list(profiles)
    return {
        name: _whole(named.get(name), max((row[name] for row in rows), key=lambda amount: _reach(name, amount)))
        for name in LIMITS
    }


def loosened(floor: Floor, limits: Mapping[str, int], final_review: str = "") -> tuple[Loosened, ...]:
    """Whatever of a task is looser than the floor; "" leaves the review to the policy."""
    found = [
        Loosened(f"limits.{name}", amount, floor.ceilings[name])
        for name, amount in limits.items()
        if held(floor, {name: amount})[name] != amount
    ]
    if final_review and strictest(final_review, floor.final_review) != final_review:
        found.append(Loosened(REVIEW, final_review, floor.final_review))
    return tuple(found)


def held(floor: Floor, limits: Mapping[str, int]) -> dict[str, int]:
    """``limits``, none of them looser than its ceiling."""
    return {
        name: min(amount, floor.ceilings[name], key=lambda one: _reach(name, one)) for name, amount in limits.items()
    }


def extended_to(floor: Floor, name: str, bound: int, least: int) -> int:
    """The most that an extension may make of a bound: as much again as a task may ask for, and always enough for the
    run to go on at all (``least``)."""
    return max(bound + floor.ceilings[name], least)


def strictest(one: str, other: str) -> str:
    """Of two reviews; "" asks for nothing. What is no review counts as the strictest."""
    return max(filter(None, (one, other)), key=_strictness, default="")


def _reach(name: str, amount: int) -> float:
    return float("inf") if amount == 0 and name in OFF_AT_ZERO else amount


def _strictness(review: str) -> int:
    return REVIEWS.index(review) if review in REVIEWS else len(REVIEWS)


def _whole(amount: Any, otherwise: int) -> int:
    return amount if isinstance(amount, int) and not isinstance(amount, bool) and amount >= 0 else otherwise
