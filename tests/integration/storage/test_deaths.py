"""Which deaths of workers put a run aside: of real processes, under whose names the run is driven here."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from asgiref.sync import sync_to_async
from django.db import connections

from loops.driver.interrupts import Interrupts
from loops.engine import facts as f
from loops.engine.apply import replay
from loops.engine.encoding import canonical
from loops.engine.encoding.codec import to_plain
from loops.models import AuditEvent, Fact, Run
from loops.runs import drive, recovery
from loops.services import steering
from loops.storage import owners, reader
from tests import factories as make
from tests.integration.storage import owned
from tests.integration.storage.test_owners import WHO
from tests.integration.storage.test_recovery import bell, stumbling
from tests.integration.storage.test_resume import add_checkpoint
from tests.stack import PATIENCE_S

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("J4")]
__all__ = ["bell", "stumbling"]
LATER = """if next(count) in (0, 2):
        raise Killed
    from loops.llm.scripted.adapter import Turn
    finished = ("task_completion", {"result": "seen"})
    return Turn(text="I look.", calls=(finished if number else ("list_files", {}),))"""


@contextlib.contextmanager
def process() -> Iterator[str]:
    """The name of an owner whose process lives until the end of the block, and is killed there."""
    with subprocess.Popen([sys.executable, "-c", WHO], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        yield worker.stdout.readline().strip()
        worker.kill()


def dies_of(run: Run) -> None:
    """The same, and the process of that name is gone."""
    with process() as name:
        dies_under(run, name)


def dies_under(run: Run, name: str) -> None:
    """Somebody takes the run under this name and dies in the middle of it."""
    with pytest.raises(BaseException, match=r"^$") as killed:
        drive.drive(run.pk, name)
    assert killed.typename == "Killed"
    owned.lapse(run)


def taken(run: Run) -> list[f.RunTakenOver]:
    return [fact for fact in reader.history(run.pk) if isinstance(fact, f.RunTakenOver)]


def test_a_third_worker_asks_nobody_but_a_person(stumbling: Callable[[str], Run]) -> None:
    run = stumbling("raise Killed")
    for _ in range(recovery.DEATHS_AT_MOST):
        dies_of(run)
    assert drive.drive(run.pk, owners.me()) == "paused"
    run.refresh_from_db()
    assert (run.status, run.paused_by, run.owner) == ("paused", "watchdog", "")
    assert [one.died for one in taken(run)] == [True, True]
    assert Fact.objects.filter(run=run, kind="ModelRequested").count() == recovery.DEATHS_AT_MOST, "no third request"

    steering.resume_run(actor=make.superuser(), run=run)
    for _ in range(recovery.DEATHS_AT_MOST):
        dies_of(run)
    assert drive.drive(run.pk, owners.me()) == "paused", "let on once, it is put aside again, and never given up"


def test_a_death_at_a_later_step_begins_to_count_anew(stumbling: Callable[[str], Run]) -> None:
    run = stumbling(LATER)
    dies_of(run)
    dies_of(run)
    drive.drive(run.pk, owners.me())
    assert [one.died for one in taken(run)] == [True, True]
    assert not Fact.objects.filter(run=run, kind="RunPaused").exists()
    assert Fact.objects.filter(run=run, kind="ResultProposed").exists()


async def until_it_left_word(watch: Interrupts, run: Run) -> None:
    watching = asyncio.create_task(watch.run())
    word = AuditEvent.objects.filter(run=run, kind="run.worker_told_to_end")
    async with asyncio.timeout(PATIENCE_S):
        while not await word.aexists():
            assert not watching.done(), watching
            await asyncio.sleep(0.05)
    watching.cancel()
    await sync_to_async(connections.close_all)()


def test_who_was_told_to_end_did_not_die_of_its_run(stumbling: Callable[[str], Run]) -> None:
    run = stumbling("raise Killed")
    dies_of(run)
    with process() as name:
        watch = Interrupts(owned.own(run, name).journal, draining=lambda: True)
        asyncio.run(until_it_left_word(watch, run))
    owned.lapse(run)
    dies_of(run)
    last = taken(run)[-1]
    assert (last.lost_is_dead, last.died, last.why) == (True, False, "the worker was told to end")


@pytest.mark.spec("J2")
@pytest.mark.parametrize(("place", "value"), [(0, "elsewhere"), (3, "anotherb"), (4, "1")])
def test_nothing_is_proven_of_another_machine_or_container(
    stumbling: Callable[[str], Run], place: int, value: str
) -> None:
    run = stumbling("raise Killed")
    dies_of(run)
    with process() as name:
        parts = name.split(":")
        parts[place] = value
        owned.own(run, ":".join(parts))
    owned.lapse(run)
    dies_of(run)
    assert [(one.lost_is_dead, one.died) for one in taken(run)] == [(False, False)]


@pytest.mark.spec("J2")
def test_who_was_ended_with_whoever_started_it_did_not_die_of_its_run(stumbling: Callable[[str], Run]) -> None:
    """As when a machine's service, or all of AgentOps, is ended at once."""
    run = stumbling("raise Killed")
    dies_of(run)
    with process() as parent, process() as name:
        pid, birth = parent.split(":")[1], parent.split(":")[5]
        owned.own(run, f"{name.rpartition(':')[0]}:{pid}.{birth}")
    owned.lapse(run)
    dies_of(run)
    assert [(one.lost_is_dead, one.died) for one in taken(run)] == [(True, False)]


@pytest.mark.spec("J2")
def test_a_checkpoint_of_another_place_counts_no_death_twice(stumbling: Callable[[str], Run]) -> None:
    """It lies before the death that its state knows of already."""
    run = stumbling("raise Killed")
    dies_of(run)
    dies_under(run, "somebody")
    facts = reader.history(run.pk)
    known = 1 + next(at for at, fact in enumerate(facts) if isinstance(fact, f.RunTakenOver))
    add_checkpoint(run, 10**6, canonical.encode(to_plain(replay(facts[:known]))), at=known - 1)
    dies_under(run, "another")
    assert [one.died for one in taken(run)] == [True, False]
    assert not Fact.objects.filter(run=run, kind="RunPaused").exists()


def test_whoever_said_its_error_was_not_taken_by_the_run(stumbling: Callable[[str], Run]) -> None:
    """Three times the same, and it is given up; nobody is asked to look before."""
    run = stumbling("raise LookupError('nobody knows why')")
    for _ in range(recovery.FAILURES_AT_MOST):
        with process() as name, pytest.raises(LookupError):
            drive.drive(run.pk, name)
        owned.lapse(run)
    assert drive.drive(run.pk, owners.me()) == "ended"
    assert not any(one.died for one in taken(run))
