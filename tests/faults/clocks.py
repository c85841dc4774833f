"""P19: workers whose clocks are an hour wrong, or stand still, own and lose runs by the database's clock alone."""

from __future__ import annotations

import random
from collections.abc import Sequence

from loops.crash_points import CrashPoint
from loops.models import Run
from tests.faults import dispatch, freezes, house, kills, lean, oracle, workers
from tests.faults.kills import POINTS
from tests.faults.outcome import Found, Outcome, first_harm
from tests.stack import wait_until

CLOCKS = ("ahead", "behind", "frozen")
"""Skewed inside the workers: under libfaketime 0.9.10 Python's own ``time.sleep`` fails."""

BEFORE_ANY_DOUBT = (CrashPoint.CLAIMED, CrashPoint.MODEL_ASKED, CrashPoint.MID_STREAM, CrashPoint.MODEL_ANSWERED)
"""When a person may say what became of a call is counted from the worker's own clock: an hour ahead, an hour later."""


def check(count: int) -> list[Outcome]:
    """``count`` kills and a quarter as many freezes, a second worker for each clock, and real Celery workers."""
    outcome = Outcome("P19", faults=count + max(2, count // 4) + len(CLOCKS))
    wanted = kills.faultless()
    for found in lean.lanes(lambda lane, share: [killed(wanted) for _ in range(share)], count):
        outcome.found += found
    for found in lean.lanes(lambda lane, share: [frozen() for _ in range(share)], max(2, count // 4)):
        outcome.found += found
    for clock in ("ahead", "behind"):
        outcome.found += real_workers(clock)
    for clock in CLOCKS:
        outcome.found += comes_second(off=[clock])
    outcome.notes.append("workers an hour ahead, an hour behind, and with a clock that stands still a day ahead")
    outcome.control = first_harm(lambda: comes_second(off=["own_clock", "ahead"], pace=0.3), "owners", 5)
    return [outcome]


def killed(wanted: dict[str, object]) -> Found:
    """As P1 to P3, with one wrong clock or another."""
    return kills.life(random.choice(POINTS), wanted, off=[random.choice(CLOCKS)]).found


def frozen() -> Found:
    """As P4."""
    return freezes.frozen(random.choice(BEFORE_ANY_DOUBT), off=[random.choice(CLOCKS)])[0]


def comes_second(off: Sequence[str], pace: float = 0.1) -> Found:
    """A worker asks for a run that another one works at, whose lease has seconds to go."""
    run = house.submit(dispatch.SCRIPT, pace=pace)
    first = lean.start(run, off=off)
    wait_until(lambda: Run.objects.get(pk=run.pk).epoch == 1, "the first owner", 60)
    second = lean.start(run, off=off)
    for child in (second, first):
        lean.wait(child)
    return dispatch.heard_once(run)


def real_workers(clock: str) -> Found:
    found = Found()
    with workers.at_work(workers.Workers("threads", 2, off=[clock])) as at_work:
        order = workers.order_death("EFFECT_DONE", 2)
        runs = [house.submit("moves_money") for _ in range(2)]
        workers.see_through(runs, at_work, 120)
        for run in runs:
            found += oracle.examine(run)
        if not workers.died(order):
            found.broken.append(f": nobody died with a clock {clock}")
    return found
