"""The policy as a floor: every limit, in the direction in which it is looser (ADR 0045)."""

from __future__ import annotations

import pytest

from loops.engine.limits.ceilings import (
    OFF_AT_ZERO,
    REVIEWS,
    Floor,
    ceilings,
    extended_to,
    held,
    loosened,
    strictest,
)
from loops.engine.state.limits import LIMITS

pytestmark = pytest.mark.spec("S1", "D2")
SMALL, LARGE = dict.fromkeys(LIMITS, 3), dict.fromkeys(LIMITS, 30)
FLOOR = Floor(ceilings([SMALL, LARGE], {"max_steps": 10}), "unless_verified")


def test_a_ceiling_is_what_the_policy_names_or_the_largest_of_any_profile() -> None:
    assert FLOOR.ceilings == {**LARGE, "max_steps": 10}
    assert ceilings([LARGE, SMALL], {})["max_steps"] == 30


@pytest.mark.parametrize("nonsense", ["100", True, None, 1.5, -1, [], {}])
def test_what_is_no_amount_names_nothing(nonsense: object) -> None:
    assert ceilings([SMALL, LARGE], {"max_steps": nonsense})["max_steps"] == 30


@pytest.mark.parametrize("name", LIMITS)
def test_each_limit_is_held_at_its_ceiling_and_not_before(name: str) -> None:
    most = FLOOR.ceilings[name]
    assert not loosened(FLOOR, {name: most})
    (found,) = loosened(FLOOR, {name: most + 1})
    assert (found.field, found.asked, found.allowed) == (f"limits.{name}", most + 1, most)
    assert held(FLOOR, {name: most + 1}) == {name: most}
    assert held(FLOOR, {name: 1}) == {name: 1}


@pytest.mark.parametrize("name", sorted(OFF_AT_ZERO))
def test_never_is_looser_than_any_number(name: str) -> None:
    assert held(FLOOR, {name: 0}) == {name: FLOOR.ceilings[name]}
    assert ceilings([SMALL, {**SMALL, name: 0}], {})[name] == 0
    off = Floor({**FLOOR.ceilings, name: 0}, "never")
    assert not loosened(off, {name: 0})
    assert not loosened(off, {name: 10_000})


@pytest.mark.parametrize("floor", REVIEWS)
@pytest.mark.parametrize("asked", REVIEWS)
def test_a_review_is_at_least_as_strict_as_the_policy(asked: str, floor: str) -> None:
    is_looser = REVIEWS.index(asked) < REVIEWS.index(floor)
    assert bool(loosened(Floor(FLOOR.ceilings, floor), {}, asked)) == is_looser
    assert strictest(asked, floor) == (floor if is_looser else asked)


def test_silence_leaves_the_review_to_the_policy_and_nonsense_is_no_way_round_it() -> None:
    assert not loosened(FLOOR, {}, "")
    assert strictest("", "always") == "always"
    assert strictest("never", "sometimes") == "sometimes"


def test_an_extension_gives_as_much_again_and_always_enough_to_go_on() -> None:
    assert extended_to(FLOOR, "max_steps", 20, 21) == 30
    assert extended_to(FLOOR, "max_tokens", 5, 2_000) == 2_000
