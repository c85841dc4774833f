"""How good detection is, is counted, not assumed: the counting itself, on runs made by hand (SPEC F4)."""

from __future__ import annotations

import pytest

from loops.engine.loop_detection.detectors import DETECTORS
from loops.engine.state.step_window import Seen, Window
from loops.engine.state.thresholds import Thresholds
from tests.evals import loops
from tests.evals.loops import Score, at_random, first_finding, gains, is_right, same_result_three_times, score
from tests.evals.trajectories import EXTRACT, Trajectory, read

pytestmark = pytest.mark.spec("F4")


def run(what: str, rewards: list[float]) -> Trajectory:
    """One letter a step: the same letter is the same call with the same result."""
    steps = tuple(Seen(step=number, action=f"{letter}.", outcome=f"{letter}.") for number, letter in enumerate(what, 1))
    return Trajectory(what, what, "model", max(rewards) >= 1, steps, tuple(rewards), submitted=False)


def twice(window: Window, _: Thresholds) -> bool:
    """A crude detector: the same step twice in a row."""
    return len(window) > 1 and window[-1].call == window[-2].call


def never(window: Window, _: Thresholds) -> bool:
    return False


STUCK = run("abbbbb", [0.2, 0.2, 0.2, 0.2, 0.2, 0.2])
HELPED_ITSELF = run("abbcde", [0.2, 0.2, 0.2, 0.2, 0.5, 0.5])
SOLVED = run("abcd", [0.1, 0.4, 0.8, 1.0])
STUCK_IN_NEW_WAYS = run("abcdef", [0.3, 0.3, 0.3, 0.3, 0.3, 0.3])
ALL = (STUCK, HELPED_ITSELF, SOLVED, STUCK_IN_NEW_WAYS)


def test_a_stop_is_right_when_nothing_better_would_have_come() -> None:
    assert first_finding(STUCK, twice) == 3
    assert is_right(STUCK, 3)
    assert not is_right(HELPED_ITSELF, 3)
    assert first_finding(SOLVED, twice) is None


def test_precision_counts_the_stops_and_recall_the_runs_that_were_stuck() -> None:
    found = score(ALL, twice)
    assert (found.right, found.wrong) == (1, 1)
    assert (found.precision, found.recall) == (0.5, 0.5)
    assert found.saved == 3  # steps of the one that was stuck
    assert 0 < found.chance < 1


def test_a_detector_that_sees_nothing_has_no_recall() -> None:
    found = score(ALL, never)
    assert (found.recall, found.right + found.wrong) == (0.0, 0)
    assert Score(0, 0, 0, 0, 0, 0, 0.0).recall == 1.0  # nothing was there to be found


def test_by_chance_every_stop_that_could_be_made_counts_once() -> None:
    right = sum(is_right(run, step) for run in ALL for step in range(1, len(run.rewards)))
    every = sum(len(run.rewards) - 1 for run in ALL)
    assert (right, every) == (5 + 1 + 0 + 5, 5 + 5 + 3 + 5)
    assert at_random(ALL) == right / every
    assert at_random([]) == 0.0


def test_the_rule_in_one_line_counts_over_the_whole_window() -> None:
    assert first_finding(run("abacda", [0.0] * 6), same_result_three_times) == 6
    assert first_finding(run("abacd", [0.0] * 5), same_result_three_times) is None


@pytest.mark.parametrize("half", ["tune", "report"])
def test_all_detectors_together_are_at_least_as_good_as_the_rule_in_one_line(half: str) -> None:
    scored = [one for one in read(EXTRACT, "intercode") if one.half == half and one.rewards and not one.submitted]
    ours, rule = loops.against_the_rule(scored)
    assert ours.right > 0
    assert rule.right > 0
    assert ours.precision >= rule.precision
    assert ours.recall >= rule.recall


def test_what_a_detector_adds_is_what_is_lost_without_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that finds what nobody else does has a gain; one that only repeats it has none, and is named."""

    def again(window: Window, thresholds: Thresholds) -> bool:
        return twice(window, thresholds)

    monkeypatch.setattr(loops, "DETECTORS", (twice, never))
    gains(ALL, [SOLVED])
    lines = capsys.readouterr().out.splitlines()[-2:]
    assert lines[0].startswith("| twice | +1 | +1 | +3 | +0 |")
    assert lines[1].endswith("NO GAIN: has no reason to be |")
    monkeypatch.setattr(loops, "DETECTORS", (twice, again))
    gains(ALL, [SOLVED])
    assert "| again | +0 | +0 | +0 | +0 | NO GAIN" in capsys.readouterr().out


def test_only_detectors_that_exist_are_excused() -> None:
    assert set(loops.NOT_SHOWN) <= {detector.__name__ for detector in DETECTORS}
    assert all(why.startswith("SPEC F") for why in loops.NOT_SHOWN.values())


@pytest.mark.spec("F4")
@pytest.mark.parametrize("half", ["tune", "report"])
def test_no_detector_is_without_a_gain_and_without_an_excuse(half: str, capsys: pytest.CaptureFixture[str]) -> None:
    """On either half of the recordings that come along; the whole ones are measured by hand."""
    gains([one for one in read(EXTRACT, "intercode") if one.half == half and one.rewards and not one.submitted], [])
    assert "NO GAIN" not in capsys.readouterr().out
