"""P22: a worker is told to end while others stand by; its runs go over to them, none is stolen or begun twice.

And old and new code side by side: what the old one cannot read it gives back as it is, as often as it is asked.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Sequence

from loops.crash_points import CrashPoint
from loops.engine import facts as f
from loops.models import Fact, Run
from loops.storage import reader
from tests.faults import guards, house, lean, ledger, oracle, stand, workers
from tests.faults.outcome import Found, Outcome, first_harm

SCRIPT = "slow_bank"
LATER = "moves_money"
RUNS = 2
OFFERS = 8
"""More than the losses after which a run is given up."""
ENDS_WITHIN_S = 7.0
CALLS_AT_MOST, BESIDE_OTHERS = 2, 5
"""What is being performed may end, nothing more; the grace of a worker is ten seconds. Of one run that is a call, and
another while the signal is on its way: beside others it is longer on its way."""


def check(count: int) -> list[Outcome]:
    """``count`` deployments: SIGTERM for the old worker in the middle of its calls, the new one runs other code; and
    ``count`` runs that old workers are offered after newer ones."""
    outcome = Outcome("P22", faults=count + count * OFFERS)
    for _ in range(count):
        outcome.found += deployed()
        outcome.found += offered_to_older_code()
        outcome.found += overlooked()
    controls = [
        first_harm(lambda: deployed(off=["drain"]), "after it was told to end", 2),
        first_harm(lambda: offered_to_older_code(off=["overlooks"]), "wrote", 1),
    ]
    outcome.control = "; ".join(controls) if all(controls) else ""
    return [outcome]


def deployed(off: Sequence[str] = ()) -> Found:
    found = Found()
    old = workers.Workers("threads", RUNS, off=off)
    with workers.at_work(old):
        runs = [house.submit(SCRIPT) for _ in range(RUNS)]
        stand.wait_for(lambda: all(ledger.of(run.pk) for run in runs), 120)
        new = workers.Workers("threads", RUNS, off=["newer"])
        with workers.at_work(new):
            time.sleep(random.uniform(2.0, 3.0))  # it has started, and the old one is somewhere in a call
            assert old.process is not None
            old.process.send_signal(signal.SIGTERM)
            heads = {run.pk: Run.objects.values_list("epoch", "head_seq").get(pk=run.pk) for run in runs}
            allowed = stand.within(ENDS_WITHIN_S)
            if stand.wait_for(lambda: old.process is None or old.process.poll() is not None, allowed) < 0:
                found.broken.append(f": the old worker did not end within {allowed:.0f} s")
                old.kill()
            workers.see_through(runs, new, 120)
            for run in runs:
                found += _handed_over(run)
                found += _went_on(run, *heads[run.pk])
    return found


def _went_on(run: Run, epoch: int, head: int) -> Found:
    """What the old worker began after ``head``."""
    calls = Fact.objects.filter(run=run, epoch=epoch, seq__gt=head, kind="ToolIntended").count()
    words = f"{run.pk}: the old worker began {calls} calls after it was told to end"
    return Found(broken=[words] if calls > (CALLS_AT_MOST if stand.is_alone() else BESIDE_OTHERS) else [])


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


def offered_to_older_code(off: Sequence[str] = ()) -> Found:
    """A newer worker writes facts that the older one does not know, and dies of a call. The older one is rung again
    and again; what it must not hide from the next newer one is that a call is in doubt."""
    run = house.submit(LATER)
    lean.drive(run, off=["tomorrow"])
    gate = house.open_gate(run)
    assert gate is not None
    house.decide(gate)
    lean.drive(
        run, off=["tomorrow"], death=lean.Death(random.choice((CrashPoint.AFTER_INTENT, CrashPoint.EFFECT_DONE)))
    )
    run.refresh_from_db()
    before, broken = (run.owner, run.recoveries), []
    head = run.head_seq
    for _ in range(OFFERS):
        lean.lapse(run)
        lean.wake(run)
        lean.drive(run, off=off)
    run.refresh_from_db()
    if run.head_seq != head:
        broken.append(f"{run.pk}: the older code wrote {run.head_seq - head} facts behind what it cannot read")
    if (run.owner, run.recoveries) != before or run.completed_at is not None:
        broken.append(f"{run.pk}: not left as it was: {run.status}, {run.owner}, {run.recoveries} losses")
    lean.finish(run, off=["tomorrow"])
    (found,) = lean.lanes(lambda lane, share: [_ended_as_newer_code_sees_it(run)], 1, 1)
    found.broken += broken
    return found


def _ended_as_newer_code_sees_it(run: Run) -> Found:
    guards.off("tomorrow")
    found = oracle.examine(run)
    if run.status != "completed":
        found.lost.append(f"{run.pk}: {run.status} {run.end_reason} with newer code")
    return found


def overlooked() -> Found:
    """A field that the older code does not know stays in the journal as it was written; the run goes on."""
    run = house.submit(LATER)
    lean.drive(run, off=["field"])
    lean.finish(run)
    found = oracle.examine(run)
    steps = Fact.objects.filter(run=run, kind="StepCompleted").values_list("body", flat=True)
    more = [b"hopeful" in bytes(body) for body in steps]
    if run.status != "completed" or not any(more) or all(more):
        found.lost.append(f"{run.pk}: {run.status}; steps with the newer field: {more}")
    return found
