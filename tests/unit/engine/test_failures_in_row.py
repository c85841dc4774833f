"""A given-up approach counts as one failure: the run that starts anew is not stopped for what it left (ADR 0015)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine import facts as f
from loops.engine.state.limits import Limits
from loops.engine.state.thresholds import OFF
from loops.engine.values import ToolResult
from tests.fakes import Tools, World, done, says
from tests.unit.engine import in_a_row
from tests.unit.engine.effort import examples

PROFILES = {"simple": Limits(max_failures=3), "moderate": Limits(max_failures=5, max_steps=25)}
ALONE = {"max_steps": 99, "circles": OFF, "reflect_after": 0}
"""Nothing else stands in the way."""
FAILED = ToolResult(ok=False, content="", error="no such file")


def world(outcomes: str, **limits: Any) -> World:
    """Looks at another place in each step; "x" fails, "." goes well, the last one for ever."""
    places, results = itertools.count(), itertools.chain(outcomes[:-1], itertools.repeat(outcomes[-1]))
    looks = lambda request: says("", ("look", {"at": next(places)}))  # noqa: E731
    return World(looks, Tools({"look": lambda a: FAILED if next(results) == "x" else "seen"}), limits=ALONE | limits)


@pytest.mark.spec("D1", "D2", "E3", "E4")
def test_a_simple_task_goes_on_after_the_approach_it_has_given_up() -> None:
    answers = [says("", ("look", {"at": place})) for place in range(4)]
    outcomes = iter([FAILED, FAILED, FAILED, "seen"])
    made = World([*answers, done()], Tools({"look": lambda a: next(outcomes)}), limits=ALONE | {"max_failures": 3})
    assert made.drive() == "ended"
    assert made.state.end_reason == "no_criteria"
    assert len(made.journal.of(f.Backtracked)) == 1


@pytest.mark.spec("D1", "D2")
@pytest.mark.parametrize(("profile", "steps", "given_up"), [("simple", 5, 1), ("moderate", 11, 3)])
def test_when_nothing_works_a_person_is_asked(profile: str, steps: int, given_up: int) -> None:
    """The figures that stand in agentops/docs/termination.md."""
    made = world("x", max_failures=PROFILES[profile].max_failures)
    assert made.drive() == "gate:limit_reached"
    assert made.gatekeeper.opened[0].view["limit"] == "max_failures"
    assert (made.state.step, len(made.journal.of(f.Backtracked))) == (steps, given_up)
    assert steps == in_a_row.bound(PROFILES[profile]) == in_a_row.longest(made.journal.facts)


@pytest.mark.spec("D1")
def test_where_attempts_outnumber_the_failures_allowed_nothing_is_given_up_first() -> None:
    made = world("x", max_failures=3, max_attempts=9)
    assert made.drive() == "gate:limit_reached"
    assert (made.state.step, made.journal.of(f.Backtracked)) == (3, [])


@pytest.mark.spec("D1")
def test_a_step_that_goes_well_starts_the_count_anew() -> None:
    made = world("xxx.x", max_failures=3)
    assert made.drive() == "gate:limit_reached"
    assert made.state.step == 4 + 5


@pytest.mark.spec("A6", "D1", "E4")
@examples(usual=150, full=2000)
@given(st.text("x.", min_size=1, max_size=12), st.integers(1, 6), st.integers(1, 5), st.integers(1, 6))
def test_no_row_of_failures_is_longer_than_the_bound(outcomes: str, failures: int, attempts: int, most: int) -> None:
    made = world(outcomes + "x", max_failures=failures, max_attempts=attempts, max_backtracks=most)
    assert made.drive() in ("gate:limit_reached", "ended")
    assert in_a_row.longest(made.journal.facts) <= in_a_row.bound(made.state.limits)
    assert made.state.failures_in_row <= failures
