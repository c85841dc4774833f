"""Which failures end a run, after how many of them, and what a worker does whose run became somebody else's."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from loops import crash_points
from loops.crash_points import CrashPoint
from loops.llm.scripted import scripts
from loops.models import Agent, AuditEvent, Fact, Run
from loops.runs import drive, recovery
from loops.services.models import ensure_script
from loops.storage import journal, reader
from tests import factories as make
from tests.integration.storage import owned

pytestmark = pytest.mark.django_db(transaction=True)
SCRIPT = """
import itertools, psycopg
from loops.llm.scripted.adapter import Script

class Killed(BaseException):
    pass

count = itertools.count()

def _play(request, number):
    {body}

SCRIPT = Script(name="stumbles", summary="Fails.", play=_play)
"""
ERROR = "raise LookupError('nobody knows why')"
LOSSES = {
    "killed": "raise Killed",
    "the database restarts": "raise psycopg.OperationalError('the server closed the connection')",
    "its session idled": "raise psycopg.errors.IdleInTransactionSessionTimeout('terminating connection')",
    "the disk is full": "raise OSError(28, 'No space left on device')",
    "another error each time": "raise type(f'Error{next(count)}', (Exception,), {})",
}


@pytest.fixture(autouse=True)
def bell(settings: Any) -> None:
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"


@pytest.fixture
def stumbling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Run]]:
    """``stumbling(body)``: a run whose scripted model does ``body`` when it is asked."""
    monkeypatch.setattr(scripts, "__path__", [*scripts.__path__, str(tmp_path)])

    def run(body: str) -> Run:
        (tmp_path / "stumbles.py").write_text(SCRIPT.replace("{body}", body))
        project = make.project()
        agent = Agent.objects.create(project=project, name="a", actor_model=ensure_script("stumbles", pace=0))
        return make.run(make.task(project, agent=agent), runnable=True, status="queued")

    yield run
    sys.modules.pop(f"{scripts.__name__}.stumbles", None)


def workers_lost_over(run: Run) -> int:
    """Workers try it one after the other until it has ended."""
    for number in range(9):
        with suppress(BaseException):
            drive.drive(run.pk, f"worker {number}")
        run.refresh_from_db()
        if run.completed_at is not None:
            return number
        owned.lapse(run)
    raise AssertionError("it goes on for ever")


@pytest.mark.spec("J4", "A5")
class TestGivingUp:
    def test_the_same_error_at_the_same_place_ends_it_after_three(self, stumbling: Callable[[str], Run]) -> None:
        run = stumbling(ERROR)
        assert workers_lost_over(run) == recovery.FAILURES_AT_MOST
        assert (run.status, run.end_reason) == ("failed", "internal_error")
        report = reader.report(run.pk) or {}
        assert report["kind"] == "FailureReport"
        assert "3 workers failed at the same place" in str(report)
        assert "LookupError in _play (stumbles.py:" in str(report)
        assert "nobody knows why" in str(report)
        assert AuditEvent.objects.filter(run=run, kind=recovery.KIND).count() == recovery.FAILURES_AT_MOST

    @pytest.mark.parametrize("body", LOSSES.values(), ids=LOSSES)
    def test_what_says_nothing_about_the_run_may_happen_more_often(
        self, stumbling: Callable[[str], Run], body: str
    ) -> None:
        run = stumbling(body)
        assert workers_lost_over(run) == recovery.LOSSES_AT_MOST + 1
        assert "6 workers were lost in a row" in str(reader.report(run.pk))

    def test_a_person_who_tries_again_begins_to_count_anew(self, stumbling: Callable[[str], Run]) -> None:
        from loops.services import steering

        run = stumbling(ERROR)
        workers_lost_over(run)
        steering.retry_run(actor=make.superuser(), run=run)
        with pytest.raises(LookupError):
            drive.drive(run.pk, "again")
        owned.lapse(run)
        with pytest.raises(LookupError):
            drive.drive(run.pk, "and again")


@pytest.mark.spec("J2", "J4")
@pytest.mark.parametrize("lost", ["", "somebody"], ids=["given back", "its owner was lost"])
def test_a_run_that_only_newer_code_can_read_is_left_as_it_was_found(lost: str) -> None:
    """Whoever can read it learns that its owner was lost: an INTENT of theirs is in doubt."""
    mine = owned.begun()
    run, fact = mine.run, {"kind": "FactOfTomorrow", "body": b'{"fact":"FactOfTomorrow","v":1}'}
    Fact.objects.create(run=run, seq=2, prev=b"", hash=b"", at=timezone.now(), epoch=1, **fact)
    if lost:
        owned.lapse(run)
    else:
        mine.journal.release(runnable=True)
    for number in range(2 * recovery.LOSSES_AT_MOST):
        assert drive.drive(run.pk, f"old {number}") == "newer"
        assert drive.drive(run.pk, f"old {number}") == "taken", "not at once again"
        run.refresh_from_db()
        assert (run.owner, run.recoveries, run.completed_at) == (lost, 0, None)
        assert run.waiting_on == "a worker of a newer version"
        Run.objects.filter(pk=run.pk).update(wake_at=timezone.now())
        owned.lapse(run)
    assert (run.head_seq, Fact.objects.filter(run=run).count()) == (1, 2), "nothing was written"


@pytest.mark.spec("J3")
@pytest.mark.parametrize("begun", [False, True], ids=["before its first fact", "before it noted the takeover"])
def test_an_owner_that_was_overtaken_is_lost_and_writes_nothing(begun: bool) -> None:
    run = owned.begun().run if begun else owned.new_run()
    if begun:
        owned.lapse(run)

    def overtaken(*_: Any) -> None:
        owned.lapse(run)
        assert journal.claim(run.pk, "the next") is not None

    before = signal.signal(signal.SIGUSR1, overtaken)
    crash_points.arm(CrashPoint.CLAIMED, how=signal.SIGUSR1)
    try:
        assert drive.drive(run.pk, "slow") == "lost"
    finally:
        crash_points.arm(None)
        signal.signal(signal.SIGUSR1, before)
    run.refresh_from_db()
    assert (run.owner, run.head_seq) == ("the next", int(begun))
    assert not AuditEvent.objects.filter(run=run, kind=recovery.KIND).exists()
