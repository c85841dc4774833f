"""Precision and recall of loop detection on recorded runs (SPEC F4): ``make eval-loops``.

A run is replayed step by step, and a detector's first finding is taken for a stop. The stop is right when no later step
of that run beats the best score it had by then, and the run never solves its task: nothing was lost. A run has to be
found when it ends unsolved after at least ``TAIL`` steps that brought nothing. A finding at the last step counts as
none, for there was nothing left to save. Thresholds were chosen on one half of the tasks; the other is reported.

Two chances stand beside precision: of the same model's runs stopped at the same steps, and of any run stopped at a
random step. A detector is worth what is lost without it, while all others stay: its marginal gain.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loops.engine.encoding.fingerprints import exact_part
from loops.engine.loop_detection.detectors import (
    DETECTORS,
    INSIDE,
    OUTSIDE,
    Detector,
    detect,
)
from loops.engine.loop_detection.finding import Finding
from loops.engine.state.step_window import Window, observe
from loops.engine.state.thresholds import THRESHOLDS, Thresholds
from tests.evals.trajectories import EXTRACT, Trajectory, read

TAIL = 3
SOLVED = 1.0
HERE = Path(__file__).parents[2]
WHOLE = HERE.parent / "shared" / "data" / "runs"
WINNERS = ("airline", "swe-agent")
MODELS = ("gpt-3.5", "text-davinci-003", "vicuna")
NOT_SHOWN = {
    "repeated_round": "SPEC F3: similar output and similar diagnosis in rounds of repair; no recording has any",
    "progress_stall": "SPEC F2: progress stall, where tests or checks measure it; no recording has any",
}
"""Detectors that stay without a gain on the recordings, for a row of the specification asks for each. Any other without
one has no reason to be."""


@dataclass(frozen=True)
class Score:
    right: int
    wrong: int
    positives: int
    hits: int
    saved: int
    wasted: int
    chance: float
    """Share of right stops when the same runs' contemporaries are stopped at the same steps without looking."""

    @property
    def precision(self) -> float:
        fired = self.right + self.wrong
        return self.right / fired if fired else 1.0

    @property
    def recall(self) -> float:
        return self.hits / self.positives if self.positives else 1.0


def first_finding(run: Trajectory, detector: Detector) -> int | None:
    """The step after which the detector would have stopped the run."""
    window: Window = ()
    for seen in run.steps:
        window = observe(window, seen)
        if detector(window, THRESHOLDS):
            return seen.step
    return None


def is_right(run: Trajectory, step: int) -> bool:
    return max(run.rewards) < SOLVED and max(run.rewards[step:]) <= max(run.rewards[:step])


def dead_tail(run: Trajectory) -> int:
    """Steps after the last one that brought anything, of a run that was never solved."""
    best = max(run.rewards)
    return 0 if best >= SOLVED else len(run.rewards) - run.rewards.index(best) - 1


def score(runs: Sequence[Trajectory], detector: Detector) -> Score:
    right = wrong = positives = hits = saved = wasted = 0
    chances = []
    for run in runs:
        stop, tail = first_finding(run, detector), dead_tail(run)
        positive = tail >= TAIL
        positives, wasted = positives + positive, wasted + (tail if positive else 0)
        if stop is None or stop >= len(run.rewards):
            continue
        chances.append(_chance(runs, run.model, stop))
        if is_right(run, stop):
            right, hits = right + 1, hits + positive
            saved += len(run.rewards) - stop if positive else 0
        else:
            wrong += 1
    return Score(right, wrong, positives, hits, saved, wasted, sum(chances) / len(chances) if chances else 0.0)


def at_random(runs: Sequence[Trajectory]) -> float:
    """Share of right stops among all that could be made: the base rate of not looking at all."""
    stops = [is_right(run, step) for run in runs for step in range(1, len(run.rewards))]
    return sum(stops) / len(stops) if stops else 0.0


def same_error_three_times(window: Window, thresholds: Thresholds) -> Finding | None:
    """Looks at nothing but how the last steps ended."""
    last = window[-TAIL:]
    same = len(last) == TAIL and last[-1].error and len({seen.error for seen in last}) == 1
    return Finding("baseline", "the same error", tuple(seen.step for seen in last), 1.0) if same else None


def same_result_three_times(window: Window, thresholds: Thresholds) -> Finding | None:
    """The rule in one line: no other detector, no matter what was changed, or whether the result had any words."""
    same = [seen.step for seen in window if seen.outcome and exact_part(seen.outcome) == exact_part(window[-1].outcome)]
    return Finding("baseline", "the same result", tuple(same), 1.0) if len(same) >= TAIL else None


def after_five_steps(window: Window, thresholds: Thresholds) -> Finding | None:
    """Looks at nothing but the clock."""
    return Finding("baseline", "five steps", (5,), 1.0) if window[-1].step >= 5 else None


def _chance(runs: Sequence[Trajectory], model: str, step: int) -> float:
    going = [run for run in runs if run.model == model and len(run.rewards) > step]
    return sum(is_right(run, step) for run in going) / len(going)


def combined(detectors: tuple[Detector, ...]) -> Detector:
    return lambda window, thresholds: detect(window, thresholds, detectors)


ROWS: tuple[tuple[str, Detector], ...] = (
    *((detector.__name__, detector) for detector in DETECTORS),
    ("inside the run", combined(INSIDE)),
    ("the monitor", combined(OUTSIDE)),
    ("all together", combined(DETECTORS)),
)
BASELINES: tuple[tuple[str, Detector], ...] = (
    ("*three identical errors*", same_error_three_times),
    ("*the same result three times*", same_result_three_times),
    ("*any run after five steps*", after_five_steps),
)
HEAD = ("detector", "right", "wrong", "precision", "same step", "recall", "steps saved")


def table(title: str, runs: Sequence[Trajectory], rows: Sequence[tuple[str, Detector]]) -> None:
    positives = sum(dead_tail(run) >= TAIL for run in runs)
    better = sum(len(run.rewards) > TAIL and not is_right(run, TAIL) for run in runs)
    print(f"\n{title}: {len(runs)} runs, {positives} to be found, {better} that got better after step {TAIL}.")
    print(f"At a random step a stop is right in {at_random(runs):.3f}; at the same step of the same model's runs:\n")
    print(f"| {' | '.join(HEAD)} |\n| --- | --: | --: | --: | --: | --: | --: |")
    for name, detector in rows:
        print(_row(name, score(runs, detector)))


def _row(name: str, got: Score) -> str:
    if not got.right + got.wrong:
        return f"| {name} | 0 | 0 | - | - | {got.recall:.2f} | - |"
    saved = f"{got.saved / got.wasted:.0%}" if got.wasted else "-"
    parts = (got.right, got.wrong, f"{got.precision:.3f}", f"{got.chance:.2f}", f"{got.recall:.2f}", saved)
    return f"| {name} | {' | '.join(map(str, parts))} |"


def by_model(runs: Sequence[Trajectory], rows: Sequence[tuple[str, Detector]]) -> None:
    for model in MODELS:
        if some := [run for run in runs if run.model == model]:
            table(f"Only {model}", some, rows)


def against_the_rule(runs: Sequence[Trajectory]) -> tuple[Score, Score]:
    """All detectors together, and the rule in one line that they have to be at least as good as."""
    return score(runs, combined(DETECTORS)), score(runs, same_result_three_times)


def compared(runs: Sequence[Trajectory]) -> None:
    ours, rule = against_the_rule(runs)
    print(f"\nAll together: precision {ours.precision:.3f}, recall {ours.recall:.3f}.")
    print(f"The same result three times: precision {rule.precision:.3f}, recall {rule.recall:.3f}.")


def gains(runs: Sequence[Trajectory], winners: Sequence[Trajectory]) -> None:
    """What each detector adds to all others."""
    whole = score(runs, combined(DETECTORS))
    disturbed = found_in(winners, combined(DETECTORS))
    print("\nWhat would be lost without each detector, while all others stay:\n")
    print("| detector | right | wrong | steps saved | winners disturbed | |\n| --- | --: | --: | --: | --: | --- |")
    for detector in DETECTORS:
        others = combined(tuple(other for other in DETECTORS if other is not detector))
        without = score(runs, others)
        lost = (whole.right - without.right, whole.wrong - without.wrong, whole.saved - without.saved)
        winning = disturbed - found_in(winners, others)
        no_gain = lost[0] <= 0 and lost[2] <= 0
        why = NOT_SHOWN.get(detector.__name__, "NO GAIN: has no reason to be" if no_gain else "")
        print(f"| {detector.__name__} | {' | '.join(f'{part:+d}' for part in (*lost, winning))} | {why} |")


def false_alarms(folder: Path) -> None:
    """Winners in which something was found: at most so many stops would have cost a success."""
    looks = (*(each for _, each in BASELINES), combined(INSIDE), combined(DETECTORS))
    names = (*(name for name, _ in BASELINES), "inside the run", "all together")
    print(f"\n| winners | {' | '.join(names)} |\n| --- |{' --: |' * len(names)}")
    for name in WINNERS:
        winners = winners_of(folder, name)
        print(f"| {name} ({len(winners)}) | {' | '.join(str(found_in(winners, each)) for each in looks)} |")


def winners_of(folder: Path, name: str) -> list[Trajectory]:
    return [run for run in read(folder, name) if run.won] if (folder / f"{name}.jsonl.gz").exists() else []


def found_in(runs: Sequence[Trajectory], detector: Detector) -> int:
    return sum(first_finding(run, detector) is not None for run in runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=WHOLE if WHOLE.exists() else EXTRACT, help="folder of *.jsonl.gz")
    parser.add_argument("--half", choices=("report", "tune"), default="report")
    arguments = parser.parse_args()
    runs = [run for run in read(arguments.data, "intercode") if run.half == arguments.half and run.rewards]
    scored = [run for run in runs if not run.submitted]
    print(f"Half: {arguments.half}. Data: {'whole' if arguments.data == WHOLE else arguments.data.name}.")
    table("Scored after every step", scored, (*BASELINES, *ROWS))
    compared(scored)
    gains(scored, [run for name in WINNERS for run in winners_of(arguments.data, name)])
    by_model(scored, (*BASELINES, ROWS[-1]))
    table("With the runs that are scored only when they are handed in", runs, (*BASELINES, ROWS[-1]))
    known = [run for run in read(arguments.data, "intercode", measured=True) if run.half == arguments.half]
    stall = ("progress_stall, 6 steps", lambda window, _: DETECTORS[-1](window, replace(THRESHOLDS, stalled_steps=6)))
    table("When the score is known to the run", [run for run in known if run.rewards and not run.submitted], (stall,))
    false_alarms(arguments.data)


if __name__ == "__main__":
    main()
