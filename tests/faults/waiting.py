"""P12: a gate that waits holds no worker, and outlives everything that is restarted around it (SPEC J5)."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from gates import services
from gates.models import Gate
from loops.models import Run
from loops.services import steering
from tests.faults import house, ledger, oracle, stand, workers
from tests.faults.databases import owner
from tests.faults.outcome import Found, Outcome, TimedOut

SCRIPT, OTHER = "asks_first", "short_errand"
OTHERS = 4
EXPIRING = 20
"""One gate in so many expires."""


def check(count: int) -> list[Outcome]:
    """``count`` gates wait over a pool of two threads, while everything is restarted and the schema changes."""
    outcome = Outcome("P12", faults=count)
    patience = 120 + count / 2
    with workers.at_work(workers.Workers("threads", 2)) as at_work:
        runs = [house.submit(SCRIPT) for _ in range(count)]
        outcome.found += asked(runs, patience)
        outcome.found += others_go_on(at_work)
    restart_everything()
    with workers.at_work(workers.Workers("threads", 2)) as at_work:
        outcome.found += decided(runs, at_work, patience)
    outcome.notes.append(
        f"{count} waiting gates over a pool of 2; database, broker and worker restarted, a column added"
    )
    outcome.control = blocking_wait()
    return [outcome]


def asked(runs: list[Run], patience: float) -> Found:
    """Every run waits, and nobody owns one."""
    names = [run.pk for run in runs]
    waiting = Gate.objects.filter(run_id__in=names, status="open")
    at_rest = Run.objects.filter(pk__in=names, owner="", lease_until=None, status="waiting")
    stand.wait_for(lambda: waiting.count() == len(runs) and at_rest.count() == len(runs), patience, 0.2)
    short = len(runs) - min(waiting.count(), at_rest.count())
    return Found(lost=[f": {short} of {len(runs)} runs do not wait at rest"] if short else [])


def others_go_on(at_work: workers.Workers) -> Found:
    others = [house.submit(OTHER) for _ in range(OTHERS)]
    ended = workers.see_through(others, at_work, 120)
    return Found(lost=[] if ended else [f": others do not go on while gates wait: {[run.status for run in others]}"])


def restart_everything() -> None:
    """Database and broker, hard; and a change of the schema as a migration makes it."""
    stand.STAND.crash_postgres()
    stand.STAND.kill_valkey()
    stand.STAND.start_postgres()
    stand.STAND.start_valkey()
    with owner() as connection:
        connection.execute("ALTER TABLE agent_execution_history ADD COLUMN added_meanwhile int NOT NULL DEFAULT 0")
        connection.execute("ALTER TABLE gates_gate ADD COLUMN added_meanwhile text NOT NULL DEFAULT ''")


def decided(runs: list[Run], at_work: workers.Workers, patience: float) -> Found:
    """One gate in twenty expires, the others are approved: those pay, these do not."""
    found = Found()
    expiring, approved = runs[::EXPIRING], [run for number, run in enumerate(runs) if number % EXPIRING]
    Gate.objects.filter(run__in=expiring, status="open").update(expires_at=timezone.now() - timedelta(days=1))
    services.expire_due()
    for run in approved:
        gate = house.open_gate(run)
        if gate is None:
            found.lost.append(f"{run.pk}: its gate is gone")
        else:
            house.decide(gate)
    workers.see_through(approved, at_work, patience)
    for run in approved:
        found += oracle.examine(run)
        if ledger.done(run.pk, "invoice") != 1:
            found.lost.append(f"{run.pk}: paid {ledger.done(run.pk, 'invoice')} times after its approval")
    for run in expiring:
        if ledger.done(run.pk, "invoice"):
            found.broken.append(f"{run.pk}: an expired gate let it pay")
        steering.stop_run(actor=house.boss(), run=run)
    return found


def blocking_wait() -> str:
    """The control: a worker that waits for the person. Two such runs, and nobody else goes on before it is gone."""
    at_work = workers.Workers("threads", 2, off=["rest"])
    with workers.at_work(at_work):
        waiting = [house.submit(SCRIPT) for _ in range(2)]
        gates = Gate.objects.filter(run__in=waiting, status="open")
        stand.wait_for(lambda: gates.count() == 2, 60, 0.1)
        others = [house.submit(OTHER) for _ in range(OTHERS)]
        ended = workers.see_through(others, at_work, 6)
        at_work.kill()
    for run in waiting:
        Run.objects.filter(pk=run.pk).update(runnable=False, owner="", lease_until=None)
    with workers.at_work(workers.Workers("threads", 2)) as at_work:
        if not workers.see_through(others, at_work, 120):
            raise TimedOut("the others do not go on with a worker that rests either")
    return "" if ended else f"{OTHERS} others did not go on while two gates waited"
