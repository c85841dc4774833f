"""P8: a bell that rings three times is heard by one owner (SPEC J3)."""

from __future__ import annotations

import os
from collections.abc import Sequence

from loops.engine import facts as f
from loops.models import Run
from loops.storage import reader
from tests.faults import bells, house, lean, oracle, workers
from tests.faults.outcome import Found, Outcome, first_harm

SCRIPT = "short_errand"


def check(count: int) -> list[Outcome]:
    """``count`` bells heard by three workers at the same moment, and a tenth of it through Celery's pools."""
    outcome = Outcome("P8", faults=3 * count)
    house.agent(SCRIPT)
    for found in lean.lanes(lambda lane, share: [at_the_same_moment() for _ in range(share)], count):
        outcome.found += found
    through = max(2, count // 10)
    for pool in ("threads", "prefork"):
        outcome.found += through_celery(pool, through)
    outcome.faults += 6 * through
    outcome.notes.append(f"{count} bells for three forked workers, {2 * through} through Celery, all three times")
    outcome.control = first_harm(lambda: at_the_same_moment(off=["claim"], pace=0.3), "owners", 20)
    return [outcome]


def at_the_same_moment(off: Sequence[str] = (), pace: float = 0.0) -> Found:
    """Three workers wait at a gate, and ask for the same run together. With a ``pace`` the model takes so many seconds
    a piece, so that the first one is not done before the others come, however busy the machine is."""
    run = house.submit(SCRIPT, pace=pace)
    reading, writing = os.pipe()
    children = [lean.start(run, off=off, setup=lambda: _wait_for_end_of(reading, writing)) for _ in range(3)]
    os.close(reading)
    os.close(writing)
    for child in children:
        lean.wait(child)
    return heard_once(run)


def _wait_for_end_of(reading: int, writing: int) -> None:
    from loops.storage.journal import raw_connection

    raw_connection()
    os.close(writing)
    os.read(reading, 1)


def through_celery(pool: str, count: int, off: Sequence[str] = ()) -> Found:
    """Slow runs in a worker whose broker delivers again after one second what is not acknowledged."""
    found = Found()
    with workers.at_work(workers.Workers(pool, 3, off=off, ring=bells.TRIPLE), ring=bells.TRIPLE) as at_work:
        runs = [house.submit(SCRIPT, pace=0.2) for _ in range(count)]
        workers.see_through(runs, at_work, 120)
        for run in runs:
            found += heard_once(run)
    return found


def heard_once(run: Run) -> Found:
    """One owner from the first fact to the last, and no trace of the two others."""
    found = oracle.examine(run)
    owners = run.epoch
    if owners != 1:
        found.doubled.append(f"{run.pk}: {owners} owners")
    asked = sum(isinstance(fact, f.ModelRequested) for fact in reader.history(run.pk))
    if asked > run.total_steps:
        found.doubled.append(f"{run.pk}: the model was asked {asked} times in {run.total_steps} steps")
    return found
