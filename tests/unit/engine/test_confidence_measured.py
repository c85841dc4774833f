"""How well confidence foretells failure is counted, not assumed: the counting itself, on states made by hand (G2)."""

from __future__ import annotations

import pytest

from loops.engine.state.step_window import Seen
from tests.evals.confidence import Point, against, auc, auc_of_same_step, interval, points_of
from tests.evals.trajectories import Trajectory

pytestmark = pytest.mark.spec("G2", "F4")


def point(step: int, bad: float, *, lost: bool, task: str = "a") -> Point:
    return Point(task, step, {"failures_in_row": bad}, lost)


def run(errors: str, rewards: list[float], *, won: bool = False) -> Trajectory:
    """One letter a step: "." went well, any other letter is an error of that name."""
    steps = tuple(Seen(step=n, action="", outcome="", error="" if e == "." else e) for n, e in enumerate(errors, 1))
    return Trajectory(errors, errors, "model", won, steps, tuple(rewards), submitted=False)


def test_the_lower_ceiling_of_the_lost_is_what_counts() -> None:
    good, bad = point(1, 0.0, lost=False), point(1, 1.0, lost=True)
    assert auc([good, bad], against) == 1.0
    assert auc([point(1, 1.0, lost=False), point(1, 0.0, lost=True)], against) == 0.0
    assert auc([good, point(1, 0.0, lost=True)], against) == 0.5, "equal ones say nothing"
    assert auc([bad], against) is None


def test_only_states_of_one_step_are_compared() -> None:
    """The later one is lost and has the lower ceiling: within a step nothing foretold it."""
    points = [point(1, 0.0, lost=False), point(1, 0.0, lost=True), point(9, 1.0, lost=True)]
    assert auc(points, against) == 0.75
    assert auc_of_same_step(points, against) == 0.5
    assert auc_of_same_step(points[1:], against) is None


def test_the_interval_draws_whole_tasks() -> None:
    """The first task foretells rightly, the second wrongly: drawn anew, all is possible."""
    points = [point(1, bad, lost=bad == 1.0, task="a") for bad in (0.0, 1.0)]
    points += [point(1, bad, lost=bad == 0.0, task="b") for bad in (0.0, 1.0)]
    assert auc_of_same_step(points, against) == 0.5
    assert interval(points, against) == (0.0, 1.0)


def test_a_state_is_lost_when_nothing_better_came() -> None:
    points = list(points_of(run("..xx", [0.2, 0.5, 0.5, 0.5])))
    assert [(each.step, each.lost) for each in points] == [(1, False), (2, True), (3, True)]
    assert [each.features["failures_in_row"] for each in points] == [0.0, 0.0, 0.2]
    assert [each.lost for each in points_of(run("...", [], won=True))] == [False, False]
    assert [each.lost for each in points_of(run("...", []))] == [True, True]


def test_the_engine_itself_measures_each_state() -> None:
    last = list(points_of(run("xxxx.", [0.0] * 5)))[-1]
    assert (last.features["failures_in_row"], last.features["same_error"]) == (0.8, 1.0)
    assert last.features["no_progress"] == 0.4
    assert last.ceiling == pytest.approx(1 - 0.35 * 0.8 - 0.25 - 0.2 * 0.4)
