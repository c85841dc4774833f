"""P22: a worker is told to end while others stand by; its runs go over to them, none is stolen or begun twice."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Sequence

from loops.engine import facts as f
from loops.models import Run
from loops.storage import reader
from tests.faults import house, ledger, oracle, stand, workers
from tests.faults.outcome import Found, Outcome, first_harm

SCRIPT = "slow_bank"
RUNS = 2
ENDS_WITHIN_S = 7.0
"""What is being performed may end, nothing more; the grace of a worker is ten seconds."""


def check(count: int) -> list[Outcome]:
    """``count`` deployments: SIGTERM for the old worker in the middle of its calls, the new one runs other code."""
    outcome = Outcome("P22", faults=count)
    for _ in range(count):
        outcome.found += deployed()
    outcome.control = first_harm(lambda: deployed(off=["drain"]), "", 2)
    return [outcome]


def deployed(off: Sequence[str] = ()) -> Found:
    found = Found()
    old = workers.Workers("threads", RUNS, off=off)
    with workers.at_work(old):
        runs = [house.submit(SCRIPT) for _ in range(RUNS)]
        stand.wait_for(lambda: all(ledger.of(run.pk) for run in runs), 30)
        new = workers.Workers("threads", RUNS, off=["newer"])
        with workers.at_work(new):
            time.sleep(random.uniform(2.0, 3.0))  # it has started, and the old one is somewhere in a call
            assert old.process is not None
            old.process.send_signal(signal.SIGTERM)
            seconds = stand.wait_for(lambda: old.process is None or old.process.poll() is not None, ENDS_WITHIN_S)
            if seconds < 0:
                found.broken.append(f": the old worker did not end within {ENDS_WITHIN_S:.0f} s")
                old.kill()
            workers.see_through(runs, new, 60)
            for run in runs:
                found += _handed_over(run)
    return found


def _handed_over(run: Run) -> Found:
    found = oracle.examine(run)
    facts = reader.history(run.pk)
    taken = [fact for fact in facts if isinstance(fact, f.RunTakenOver)]
    if taken:
        found.broken.append(f"{run.pk}: taken over from a living worker instead of given back")
    if any(isinstance(fact, f.GateOpened) and fact.kind == "in_doubt" for fact in facts):
        found.broken.append(f"{run.pk}: a call was cut off, and a person had to be asked")
    if run.epoch > 2:
        found.doubled.append(f"{run.pk}: {run.epoch} owners in one deployment")
    return found
