"""One owner at a time, and nothing from anybody else: claims, fences, releases and the sweeper (SPEC J3, J4)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from loops import jobs
from loops.engine import facts as f
from loops.engine.ports import LeaseLost
from loops.models import Run
from loops.storage import inbox, journal
from tests.integration.services.world import closing_connections
from tests.integration.storage import owned
from tests.integration.storage.dispatched import Bells
from tests.stack import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
THREADS = 32
RACES = 100


class TestClaiming:
    @pytest.mark.spec("J3")
    def test_of_many_exactly_one_becomes_the_owner(self) -> None:
        run = owned.new_run()
        for epoch in range(1, 4):
            at_once = threading.Barrier(THREADS)

            @closing_connections
            def claim(name: int, at_once: threading.Barrier = at_once) -> journal.Claim | None:
                connection.ensure_connection()
                at_once.wait(120)
                return journal.claim(run.pk, f"worker {name}")

            with ThreadPoolExecutor(THREADS) as threads:
                won = [held for held in threads.map(claim, range(THREADS)) if held is not None]
            assert [held.epoch for held in won] == [epoch]
            run.refresh_from_db()
            assert (run.epoch, run.runnable) == (epoch, False)
            Run.objects.filter(pk=run.pk).update(owner="", lease_until=None, runnable=True)

    @pytest.mark.spec("J3")
    def test_somebody_elses_run_is_left_alone(self) -> None:
        """The same message three times: whoever comes late leaves without a write."""
        mine = owned.begun()
        before = owned.rows(mine.run)
        assert [jobs.advance(str(mine.run.pk)) for _ in range(3)] == ["taken"] * 3
        assert owned.rows(mine.run) == before

    def test_nothing_to_do_is_nobodys(self) -> None:
        mine = owned.begun()
        mine.journal.release()
        assert journal.claim(mine.run.pk, "x") is None

    @pytest.mark.spec("J4")
    def test_a_dead_owner_is_replaced_and_it_is_said(self) -> None:
        mine = owned.begun()
        owned.lapse(mine.run)
        taken = journal.claim(mine.run.pk, "next")
        assert taken is not None
        assert (taken.epoch, taken.abandoned, taken.recoveries) == (2, True, 1)
        assert (taken.seq, taken.head) == (1, bytes(Run.objects.get(pk=mine.run.pk).head_hash))

    def test_a_timer_that_is_due_makes_a_run_claimable(self) -> None:
        mine = owned.begun()
        mine.journal.release(wake_at=int((time.time() + 3600) * 1e6))
        assert journal.claim(mine.run.pk, "early") is None
        Run.objects.filter(pk=mine.run.pk).update(wake_at=timezone.now() - timedelta(seconds=1))
        assert journal.claim(mine.run.pk, "in time") is not None


def succeeded() -> tuple[owned.Owned, owned.Owned]:
    """An owner whose lease ran out, and the one who came after."""
    stale = owned.begun()
    inbox.put(stale.run.pk, "message", {"text": "hello"})
    owned.lapse(stale.run)
    return stale, owned.own(stale.run, "next")


STALE_WRITES: dict[str, Callable[[owned.Owned], Any]] = {
    "append": lambda stale: stale.append(f.RunPaused(by="stale")),
    "append with a blob": lambda stale: stale.append(f.MessageReceived(text="x" * 10_000)),
    "append with a gate": lambda stale: stale.append(f.RunPaused(), within=[lambda cursor: None]),
    "read mail": lambda stale: stale.journal.append([], [stale.journal.read(stale.journal.mail())]),
    "renew": lambda stale: stale.journal.renew(),
}


@pytest.mark.spec("J3", "A4")
class TestAStaleOwner:
    @pytest.mark.parametrize("write", STALE_WRITES.values(), ids=STALE_WRITES)
    def test_writes_nothing(self, write: Callable[[owned.Owned], Any]) -> None:
        stale, current = succeeded()
        changes_nothing(stale, write)
        current.append(f.RunPaused(by="ana"))
        changes_nothing(stale, write)

    def test_releases_nothing(self) -> None:
        stale, current = succeeded()
        before = owned.rows(stale.run)
        stale.journal.release(runnable=True)
        assert owned.rows(stale.run) == before
        current.journal.renew()

    def test_is_found_out_by_this_very_check(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Negative control: with a journal that ignores epochs, the check above fails."""
        stale, _ = succeeded()
        with without_the_epoch() as unfenced:
            monkeypatch.setattr(journal, "_APPEND", journal._APPEND.replace("journal_append", unfenced))
            with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
                changes_nothing(stale, STALE_WRITES["append"])

    def test_never_leaves_an_older_epoch_after_a_newer_one(self) -> None:
        """Owners come and go while the older ones keep trying."""
        run = owned.new_run()
        owners = [owned.begun(run)]
        for number in range(20):
            owned.lapse(run)
            owners.append(owned.own(run, f"worker {number}"))
            for each in owners:
                try:
                    each.append(f.MessageReceived(text=f"from {each.held.epoch}"))
                except LeaseLost:
                    assert each is not owners[-1]
        found = [(row["epoch"], row["seq"]) for row in sorted(owned.rows(run)["loops_fact"], key=lambda r: r["seq"])]
        assert found == [(1, 1), *((epoch, epoch) for epoch in range(2, 22))]


def changes_nothing(stale: owned.Owned, write: Callable[[owned.Owned], Any]) -> None:
    before = owned.rows(stale.run)
    with pytest.raises(LeaseLost):
        write(stale)
    assert owned.rows(stale.run) == before


@contextmanager
def without_the_epoch() -> Iterator[str]:
    """A copy of the append that has lost its fence."""
    with owned.superuser() as database:
        found = "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = 'journal_append' ORDER BY pronargs DESC"
        row = database.execute(found).fetchone()
        assert row is not None
        source, fence = str(row[0]), " AND epoch = p_epoch AND head_seq"
        assert fence in source
        database.execute(source.replace("journal_append", "append_unfenced").replace(fence, " AND head_seq"))
        try:
            yield "append_unfenced"
        finally:
            database.execute("DROP FUNCTION append_unfenced")


@pytest.mark.spec("J3")
def test_two_hands_of_one_owner_cannot_both_write_the_same_place() -> None:
    """A connection that broke after its commit: whoever does not know of it moves no further."""
    mine = owned.begun()
    twin = owned.Owned(mine.run, mine.held)
    twin.journal._seq, twin.journal._head = mine.journal._seq, mine.journal._head
    twin.append(f.RunPaused(by="ana"))
    before = owned.rows(mine.run)
    with pytest.raises(LeaseLost, match="is not at 1"):
        mine.append(f.MessageReceived(text="hello"))
    assert owned.rows(mine.run) == before


@pytest.mark.spec("J4")
class TestMailAndReleaseMeet:
    """Whatever the order, a run with unread mail is left runnable: nobody has to wait for a sweeper."""

    def test_many_times_with_real_threads(self) -> None:
        run = owned.begun().run
        lost: list[int] = []
        start, end = threading.Barrier(2), threading.Barrier(2)

        @closing_connections
        def sender() -> None:
            for _ in range(RACES):
                start.wait(120)
                inbox.put(run.pk, "message", {"text": "hello"})
                end.wait(120)

        @closing_connections
        def owner() -> None:
            for number in range(RACES):
                Run.objects.filter(pk=run.pk).update(runnable=True, owner="", lease_until=None)
                mine = owned.own(run)
                start.wait(120)
                mine.journal.release()
                end.wait(120)
                mine.run.refresh_from_db()
                lost.extend([number] if not mine.run.runnable else [])
                mine.run.mailbox.update(consumed_seq=1)

        with ThreadPoolExecutor(2) as threads:
            for done in [threads.submit(sender), threads.submit(owner)]:
                done.result()
        assert not lost

    def test_when_the_mail_commits_while_the_release_waits(self) -> None:
        assert self.released_during_a_delivery("journal_release") is True

    def test_a_release_in_one_statement_would_lose_it(self) -> None:
        """Negative control: a statement sees nothing that was committed after it began, not even when it waited."""
        with owned.superuser() as database:
            database.execute(
                """
                CREATE FUNCTION release_at_once(p_run uuid, p_epoch bigint, p_wake timestamptz, p_runnable boolean)
                RETURNS boolean LANGUAGE sql AS $$
                    UPDATE agent_execution_history SET owner = '', lease_until = NULL, wake_at = p_wake,
                        runnable = p_runnable OR EXISTS (
                            SELECT 1 FROM loops_mailboxitem WHERE run_id = p_run AND consumed_seq IS NULL)
                    WHERE id = p_run AND epoch = p_epoch RETURNING runnable
                $$
                """
            )
            try:
                assert self.released_during_a_delivery("release_at_once") is False
            finally:
                database.execute("DROP FUNCTION release_at_once(uuid, bigint, timestamptz, boolean)")

    @staticmethod
    def released_during_a_delivery(function: str) -> bool:
        mine = owned.begun()

        @closing_connections
        def release() -> None:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT {function}(%s, %s, NULL, false)", [mine.run.pk, mine.held.epoch])

        with ThreadPoolExecutor(1) as threads:
            with transaction.atomic():
                inbox.put(mine.run.pk, "message", {"text": "hello"})
                done = threads.submit(release)
                wait_for_a_lock()
            done.result(30)
        mine.run.refresh_from_db()
        return mine.run.runnable


def wait_for_a_lock() -> None:
    """Until somebody else of this database waits for one."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with owned.superuser() as database:
        wait_until(lambda: database.execute(waiting).fetchone() != (0,), "a lock", every=0.005)


def rest(run: Run, **state: Any) -> None:
    """Times of ``state`` are counted from now."""
    now = timezone.now()
    moments = {name: now + value for name, value in state.items() if isinstance(value, timedelta)}
    Run.objects.filter(pk=run.pk).update(**state | moments)


@pytest.mark.spec("J4")
class TestTheSweeper:
    AGO, LATER = timedelta(days=-1), timedelta(days=1)
    RESTING = {"runnable": False, "owner": "", "lease_until": None, "wake_at": None, "last_activity_at": AGO}

    @pytest.mark.parametrize(
        ("state", "found"),
        [
            pytest.param({"runnable": True}, True, id="lost bell"),
            pytest.param({"owner": "dead", "lease_until": AGO}, True, id="dead owner"),
            pytest.param({"wake_at": AGO}, True, id="timer due"),
            pytest.param({}, False, id="at rest"),
            pytest.param({"wake_at": LATER}, False, id="timer not due"),
            pytest.param({"owner": "alive", "lease_until": LATER}, False, id="owned"),
            pytest.param({"owner": "alive", "lease_until": LATER, "runnable": True}, False, id="owned, more to do"),
            pytest.param({"runnable": True, "last_activity_at": LATER}, False, id="bell on its way"),
        ],
    )
    def test_rings_for_whoever_needs_it(self, bell: Bells, state: dict[str, Any], found: bool) -> None:
        run = owned.new_run()
        rest(run, **self.RESTING | state)
        assert jobs.sweep() == int(found)
        assert bell.rung == [str(run.pk)] * found
        assert (journal.claim(run.pk, "worker") is not None) is found or "last_activity_at" in state

    def test_finds_mail_that_woke_nobody(self, bell: Bells) -> None:
        run = owned.new_run()
        inbox.put(run.pk, "pause")
        rest(run, **self.RESTING)
        bell.rung.clear()
        assert jobs.sweep() == 1
        assert bell.rung == [str(run.pk)]
        assert journal.claim(run.pk, "worker") is not None

    def test_outlives_a_broker_that_is_away(self, bell: Bells) -> None:
        run = owned.new_run()
        rest(run, **self.RESTING | {"runnable": True})
        bell.broken = True
        assert jobs.sweep() == 1
        bell.broken = False
        assert jobs.sweep() == 1
        assert bell.rung == [str(run.pk)]
