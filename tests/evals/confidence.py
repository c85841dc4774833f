"""How well what is measured of a run foretells that it comes to nothing (SPEC G2, F4): ``make eval-confidence``.

A run is replayed, and the ceiling of its confidence computed after each step but the last. A state is *lost* when no
later step beat the best score it had by then; where a run has only a score at its end, when that was no success. AUC is
the chance that of two states the lost one has the lower ceiling; 0.5 is no better than a coin. A later state is lost
more often whatever is measured, so the figure to look at compares states of the same step only.
"""

from __future__ import annotations

import argparse
import random
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from loops.engine.apply import initial
from loops.engine.confidence import score as confidence_score
from loops.engine.facts import RunStarted
from loops.engine.state.limits import Limits
from loops.engine.state.measures import Confidence, Measured, StepSeen
from loops.engine.state.run import RunState
from tests.evals.loops import WHOLE
from tests.evals.trajectories import EXTRACT, Trajectory, read
from tests.fakes import spec

LIMITS = Limits(max_steps=25, max_seconds=900, max_failures=5)
"""The moderate profile."""
THRESHOLD = 0.5
SAMPLES = 200
FEATURES = ("failures_in_row", "same_error", "no_progress")
"""What the recordings hold; tests, repairs and budgets they do not."""
Score = Callable[["Point"], float]


@dataclass(frozen=True)
class Point:
    """A run after ``step`` steps. ``lost``: it came to nothing."""

    task: str
    step: int
    features: Mapping[str, float]
    lost: bool

    @property
    def ceiling(self) -> float:
        return confidence_score.ceiling_of(self.features, confidence_score.WEIGHTS)


def points_of(run: Trajectory) -> Iterable[Point]:
    for step, state in enumerate(_states(run), start=1):
        if step < len(run.steps):
            yield Point(run.task, step, confidence_score.features(state), _lost(run, step))


def _states(run: Trajectory) -> Iterable[RunState]:
    """What the engine would know after each step, as far as confidence reads it."""
    start = initial(RunStarted(spec=spec(), system="", prompt_version="", tools_sha256="", at=1))
    seen = tuple(StepSeen(s.step, success=not s.error, signature=s.error, progress=s.progress) for s in run.steps)
    best = list(accumulate((each.progress for each in seen), max, initial=0.0))
    for step in range(1, len(seen) + 1):
        risen = next((at for at in range(step, 0, -1) if best[at] > best[at - 1]), 0)
        latest = Confidence(latest=seen[max(0, step - 5) : step])
        yield replace(start, limits=LIMITS, step=step, measured=Measured(risen_at=risen), confidence=latest)


def _lost(run: Trajectory, step: int) -> bool:
    if not run.rewards:
        return not run.won
    return max(run.rewards[step:], default=0.0) <= max(run.rewards[:step])


def auc(points: Sequence[Point], score: Score) -> float | None:
    """None where one of the two kinds is missing."""
    lost = [score(point) for point in points if point.lost]
    kept = sorted(score(point) for point in points if not point.lost)
    if not lost or not kept:
        return None
    wins = sum((bisect_left(kept, each) + bisect_right(kept, each)) / 2 for each in lost)
    return wins / (len(lost) * len(kept))


def auc_of_same_step(points: Sequence[Point], score: Score) -> float | None:
    """The same over pairs of states of one step only."""
    by_step = defaultdict(list)
    for point in points:
        by_step[point.step].append(point)
    won = pairs = 0.0
    for some in by_step.values():
        found = auc(some, score)
        if found is not None:
            lost = sum(point.lost for point in some)
            won, pairs = won + found * lost * (len(some) - lost), pairs + lost * (len(some) - lost)
    return won / pairs if pairs else None


def interval(points: Sequence[Point], score: Score) -> tuple[float, float] | None:
    """95 % of ``auc_of_same_step`` when the tasks are drawn anew, each with all its states."""
    by_task = defaultdict(list)
    for point in points:
        by_task[point.task].append(point)
    tasks, draw = list(by_task.values()), random.Random(7)
    drawn = (draw.choices(tasks, k=len(tasks)) for _ in range(SAMPLES))
    found = sorted(
        value for some in drawn if (value := auc_of_same_step([p for task in some for p in task], score)) is not None
    )
    return (found[len(found) // 40], found[-1 - len(found) // 40]) if found else None


def against(point: Point) -> float:
    return 1 - point.ceiling


SCORES: tuple[tuple[str, Score], ...] = (
    ("the ceiling", against),
    *((name, lambda point, name=name: point.features[name]) for name in FEATURES),
    ("number of steps alone", lambda point: point.step),
)


def table(title: str, points: Sequence[Point]) -> None:
    lost = sum(point.lost for point in points)
    print(
        f"\n{title}: {len(points)} states of {len({p.task for p in points})} tasks, {_share(lost, len(points))} lost\n"
    )
    print("| | AUC | AUC within a step | 95 % |\n| --- | --: | --: | --: |")
    for name, score in SCORES:
        bounds = interval(points, score)
        said = f"{bounds[0]:.2f} to {bounds[1]:.2f}" if bounds else "-"
        print(f"| {name} | {_figure(auc(points, score))} | {_figure(auc_of_same_step(points, score))} | {said} |")
    below = [point for point in points if point.ceiling < THRESHOLD]
    hits = sum(point.lost for point in below)
    print(
        f"\nBelow {THRESHOLD}: {len(below)} states, {hits} of them lost; that is {_share(hits, lost)} of the lost ones."
    )


def calibration(points: Sequence[Point]) -> None:
    fifths = defaultdict(list)
    for point in points:
        fifths[min(4, int(point.ceiling * 5 + 1e-9))].append(point)
    print("\n| ceiling | states | better came |\n| --- | --: | --: |")
    for fifth, some in sorted(fifths.items()):
        better = sum(not point.lost for point in some)
        print(f"| {fifth / 5:.1f} to {fifth / 5 + 0.2:.1f} | {len(some)} | {_share(better, len(some))} |")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=WHOLE if WHOLE.exists() else EXTRACT, help="folder of *.jsonl.gz")
    parser.add_argument("--half", choices=("report", "tune"), default="report")
    arguments = parser.parse_args()
    print(f"Half: {arguments.half}. Data: {'whole' if arguments.data == WHOLE else arguments.data.name}.")
    for title, name, measured in (
        ("Commands and queries, progress unknown to the run", "intercode", False),
        ("Commands and queries, progress known to the run", "intercode", True),
        ("A customer's service", "airline", False),
    ):
        runs = [run for run in read(arguments.data, name, measured=measured) if run.half == arguments.half]
        points = [point for run in runs if not run.submitted for point in points_of(run)]
        table(title, points)
        calibration(points)


if __name__ == "__main__":
    main()
