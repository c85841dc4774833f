"""P13: a rollback that is killed between any two compensations undoes each effect once, in reverse order (SPEC O2)."""

from __future__ import annotations

import random
import signal
from collections.abc import Sequence

from loops.crash_points import CrashPoint
from loops.engine import facts as f
from loops.models import Run
from loops.services import steering
from loops.storage import reader
from tests import decisions
from tests.faults import house, lean, ledger, oracle
from tests.faults.outcome import Found, Outcome, first_harm

SCRIPT, EFFECTS = "goes_wrong", 8
DEATHS_AT_MOST = 4
"""Of one rollback: after more workers lost in a row a run is given up, which is another promise."""
STUCK = "part 3"


def check(count: int) -> list[Outcome]:
    """``count`` deaths between two compensations, and one in ten rollbacks with a compensation that fails."""
    outcome = Outcome("P13")
    for deaths, found in lean.lanes(_lane, count):
        outcome.found += found
        outcome.faults += deaths
    outcome.found += undone(fails=True)[1]
    outcome.control = first_harm(lambda: undone(off=["undone"])[1], "happened", 6)
    return [outcome]


def _lane(lane: int, share: int) -> list[tuple[int, Found]]:
    lives: list[tuple[int, Found]] = []
    while sum(deaths for deaths, _ in lives) < share:
        lives.append(undone(fails=random.random() < 0.1))
    return lives


def undone(*, fails: bool = False, off: Sequence[str] = ()) -> tuple[int, Found]:
    """Eight effects, a stop, and a rollback whose workers die: how many did, and what was wrong."""
    run = house.submit(SCRIPT)
    lean.drive(run)
    steering.stop_run(actor=house.boss(), run=run)
    lean.drive(run)
    gate = house.open_gate(run)
    if gate is None or gate.kind != "rollback_choice":
        return 0, Found(lost=[f"{run.pk}: nobody asks whether to roll back, {gate and gate.kind}"])
    decisions.decide(actor=house.boss(), gate_id=gate.pk, verdict="roll_back", digest=gate.digest)
    setup = _closed_bank if fails else None
    deaths = 0
    for _ in range(DEATHS_AT_MOST):
        death = lean.Death(CrashPoint.BETWEEN_COMPENSATIONS, random.choice((1, 1, 2)))
        deaths += lean.drive(run, death=death, off=off, setup=setup) == signal.SIGKILL
        lean.lapse(run)
    lean.drive(run, off=off, setup=setup)
    return deaths, _examined(run, fails)


def _closed_bank() -> None:
    """The bank refuses to take back one of the effects."""
    from tests.faults import bank

    bank.refuses = STUCK


def _examined(run: Run, fails: bool) -> Found:
    found = oracle.examine(run)
    wanted = [f"part {number}" for number in range(EFFECTS, 0, -1) if not (fails and number == 3)]
    refunds = [effect.label for effect in ledger.of(run.pk) if effect.tool == "refund" and not effect.again]
    if refunds != wanted:
        (found.doubled if len(refunds) > len(wanted) else found.lost).append(f"{run.pk}: took back {refunds}")
    ended = [fact for fact in reader.history(run.pk) if isinstance(fact, f.RollbackEnded)]
    if [fact.left for fact in ended] != [int(fails)]:
        found.broken.append(f"{run.pk}: the rollback ended as {ended}")
    report = (reader.report(run.pk) or {}).get("rollback", {})
    if len(report.get("not_undone", [])) != int(fails):
        found.broken.append(f"{run.pk}: the report says {report}")
    return found
