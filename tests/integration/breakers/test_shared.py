"""Breakers in Postgres: one row for all workers, one probe, the database's clock, no price for a healthy call."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import connection

from loops.engine.encoding.replace import evolve
from loops.engine.failures import breakers as b
from loops.models import Breaker, BreakerEvent, BreakerRule, Run
from loops.storage import journal
from loops.storage.breakers import Holder, PgBreakers, change_row
from tests.integration.storage import owned

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("E5")]

TOOL = "fetch_url"


class Clock:
    """Uptime of a worker, moved by hand so that what it knows grows old."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        self.at += 1.01
        return self.at


def worker(name: str = "w", uptime: Any = None) -> PgBreakers:
    """A worker that owns a run of its own, and looks anew each time."""
    mine = owned.own(owned.new_run(), owner=name)
    return PgBreakers(mine.journal.connection, mine.run.pk, mine.journal.epoch, uptime or Clock())


def run_of(breakers: PgBreakers) -> Run:
    return Run.objects.get(pk=breakers._holder.run)


def fail(breakers: PgBreakers, times: int = 5) -> None:
    for _ in range(times):
        breakers.failed(b.TOOL, TOOL, "timeout")


def pass_time(seconds: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE loops_breaker SET open_until = open_until - make_interval(secs => %s)", [seconds])


def events() -> list[str]:
    return list(BreakerEvent.objects.order_by("id").values_list("what", flat=True))


@contextmanager
def counted() -> Iterator[list[str]]:
    """Statements that reach the server, as it logs them to the client side of psycopg."""
    seen: list[str] = []
    real = psycopg.Cursor.execute

    def execute(self: Any, query: Any, *args: Any, **more: Any) -> Any:
        seen.append(str(query))
        return real(self, query, *args, **more)

    psycopg.Cursor.execute = execute  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        psycopg.Cursor.execute = real  # type: ignore[method-assign]


def test_failures_of_all_workers_open_it_for_all() -> None:
    one, two, three = worker("a"), worker("b"), worker("c")
    fail(one, 2)
    fail(two, 2)
    assert three.admit(b.TOOL, TOOL) == b.Admitted()
    fail(one, 1)
    refused = three.admit(b.TOOL, TOOL)
    assert isinstance(refused, b.Refusal)
    assert (refused.name, refused.why) == (TOOL, "timeout")
    assert round((refused.until - refused.since) / 1e6) == 30
    assert three.refuses(b.TOOL, TOOL) == refused
    assert three.admit(b.TOOL, "read_file") == b.Admitted(), "another tool"
    assert three.admit(b.MODEL, TOOL) == b.Admitted(), "a model of that name"
    row = Breaker.objects.get()
    assert (row.status, row.why) == ("open", "timeout")
    assert events() == ["opened"]


def test_a_rule_of_its_own_decides_then_that_for_all_then_the_default() -> None:
    BreakerRule.objects.create(kind="tool", name="*", threshold=3, cooldown_s=7)
    BreakerRule.objects.create(kind="tool", name=TOOL, threshold=1)
    mine = worker()
    fail(mine, 1)
    assert mine.refuses(b.TOOL, TOOL)
    for _ in range(2):
        mine.failed(b.TOOL, "read_file", "crash")
    assert mine.refuses(b.TOOL, "read_file") is None
    mine.failed(b.TOOL, "read_file", "crash")
    refused = mine.refuses(b.TOOL, "read_file")
    assert refused is not None
    assert round((refused.until - refused.since) / 1e6) == 7
    BreakerRule.objects.create(kind="model", name="*", enabled=False)
    for _ in range(9):
        mine.failed(b.MODEL, "main", "overloaded_error")
    assert mine.refuses(b.MODEL, "main") is None


def test_one_worker_is_the_probe_and_a_good_one_closes_for_all() -> None:
    one, two = worker("a"), worker("b")
    fail(one)
    pass_time(31)
    assert one.refuses(b.TOOL, TOOL) is None
    assert one.admit(b.TOOL, TOOL) == b.Admitted(probe=True)
    assert isinstance(two.admit(b.TOOL, TOOL), b.Refusal)
    assert one.admit(b.TOOL, TOOL) == b.Admitted(probe=True), "it has it already"
    two.succeeded(b.TOOL, TOOL)
    assert isinstance(two.admit(b.TOOL, TOOL), b.Refusal), "a call begun before it opened closes nothing"
    fail(two)
    assert events() == ["opened", "probed"], "nor does it open it again"
    one.succeeded(b.TOOL, TOOL)
    assert two.admit(b.TOOL, TOOL) == b.Admitted()
    assert events() == ["opened", "probed", "closed"]


def test_a_failed_probe_opens_it_for_twice_as_long() -> None:
    mine = worker()
    fail(mine)
    pass_time(31)
    mine.admit(b.TOOL, TOOL)
    mine.failed(b.TOOL, TOOL, "crash")
    refused = mine.refuses(b.TOOL, TOOL)
    assert refused is not None
    assert 31 < (refused.until - mine._known.rows[b.TOOL, TOOL].now) / 1e6 < 61, "of a minute, some has passed"
    assert events() == ["opened", "probed", "reopened"]


@pytest.mark.spec("J3")
@pytest.mark.parametrize("how", ["lease", "released", "taken"])
def test_the_probe_of_a_worker_that_is_gone_is_free_again(how: str) -> None:
    one, two = worker("a"), worker("b")
    fail(one)
    pass_time(31)
    assert one.admit(b.TOOL, TOOL) == b.Admitted(probe=True)
    run = run_of(one)
    if how == "released":
        Run.objects.filter(pk=run.pk).update(owner="", lease_until=None)
    else:
        owned.lapse(run)
    if how == "taken":
        assert journal.claim(run.pk, "c") is not None
    assert two.admit(b.TOOL, TOOL) == b.Admitted(probe=True)
    one.succeeded(b.TOOL, TOOL)
    assert Breaker.objects.get().status == "half_open", "the one who lost it decides nothing any more"
    assert events() == ["opened", "probed", "probed"]


def test_a_success_forgets_the_failures_in_a_row() -> None:
    mine = worker()
    for _ in range(3):
        fail(mine, 4)
        mine.succeeded(b.TOOL, TOOL)
    assert mine.admit(b.TOOL, TOOL) == b.Admitted()
    assert events() == []


def test_failures_that_lie_apart_open_nothing() -> None:
    mine = worker()
    fail(mine, 4)
    row = Breaker.objects.get()
    row.failed_at = [at - 60_000_000 for at in row.failed_at]
    row.save()
    fail(mine, 4)
    assert mine.admit(b.TOOL, TOOL) == b.Admitted()
    fail(mine, 1)
    assert isinstance(mine.admit(b.TOOL, TOOL), b.Refusal)


def test_a_healthy_call_costs_one_look_a_second_for_all_of_them() -> None:
    mine = worker(uptime=lambda: 5.0)
    with counted() as seen:
        for number in range(50):
            mine.refuses(b.TOOL, f"tool-{number % 5}")
            mine.admit(b.TOOL, f"tool-{number % 5}")
            mine.succeeded(b.TOOL, f"tool-{number % 5}")
    assert len(seen) == 1
    assert Breaker.objects.count() == 0


def test_the_count_of_statements_notices_a_look_each_time() -> None:
    """Negative control: a worker to whom everything is always old."""
    mine = worker()
    with counted() as seen:
        for _ in range(10):
            mine.admit(b.TOOL, TOOL)
    assert len(seen) == 10


def test_times_are_the_databases_whatever_a_worker_thinks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 5e9)
    mine = worker()
    fail(mine)
    assert mine.refuses(b.TOOL, TOOL)
    opened = Breaker.objects.get()
    assert abs((opened.open_until - opened.changed_at).total_seconds() - 30) < 20


def in_threads(count: int, work: Any) -> list[Any]:
    """So many threads with connections of their own, all begun at once."""
    found: list[Any] = [None] * count
    start = threading.Barrier(count)

    def one(number: int) -> None:
        try:
            start.wait()
            found[number] = work(number)
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_of_many_that_ask_at_once_one_is_the_probe() -> None:
    fail(worker())
    pass_time(31)
    runs = [owned.own(owned.new_run(), owner=f"w{number}") for number in range(12)]

    def ask(number: int) -> Any:
        mine = runs[number]
        return PgBreakers(journal.raw_connection(), mine.run.pk, mine.journal.epoch).admit(b.TOOL, TOOL)

    answers = in_threads(12, ask)
    assert answers.count(b.Admitted(probe=True)) == 1
    assert sum(isinstance(answer, b.Refusal) for answer in answers) == 11
    assert events() == ["opened", "probed"]


def test_of_many_that_fail_at_once_no_failure_is_lost_and_it_opens_once() -> None:
    BreakerRule.objects.create(kind="tool", name="*", threshold=12)
    runs = [owned.own(owned.new_run(), owner=f"w{number}") for number in range(12)]

    def fails(number: int) -> None:
        mine = runs[number]
        PgBreakers(journal.raw_connection(), mine.run.pk, mine.journal.epoch).failed(b.TOOL, TOOL, "timeout")

    in_threads(11, fails)
    assert len(Breaker.objects.get().failed_at) == 11
    assert events() == []
    fails(11)
    assert events() == ["opened"]


def test_without_comparing_versions_failures_would_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: the same threads, and whoever writes last wins."""
    from loops.storage import breakers

    monkeypatch.setattr(breakers, "_CHANGE", breakers._CHANGE.replace("WHERE b.version = %(version)s::bigint", ""))
    real = breakers._read
    together = threading.Barrier(6)

    def read(cursor: Any, kind: str, name: str) -> Any:
        row = real(cursor, kind, name)
        together.wait()
        return row

    monkeypatch.setattr(breakers, "_read", read)
    BreakerRule.objects.create(kind="tool", name="*", threshold=100)
    runs = [owned.own(owned.new_run(), owner=f"w{number}") for number in range(6)]

    def fails(number: int) -> None:
        mine = runs[number]
        PgBreakers(journal.raw_connection(), mine.run.pk, mine.journal.epoch).failed(b.TOOL, TOOL, "timeout")

    in_threads(6, fails)
    assert len(Breaker.objects.get().failed_at) == 1


@pytest.mark.parametrize("seed", range(8))
def test_what_is_stored_is_what_the_pure_machine_says(seed: int) -> None:
    """Random histories, step by step beside the machine in memory."""
    chance = random.Random(seed)
    raw = journal.raw_connection()
    rule = b.Rule(threshold=3, window_s=60, cooldown_s=30)
    pure, holders = b.Breaker(), [Holder(uuid.uuid4(), number) for number in range(3)]
    for _ in range(60):
        holder = chance.choice(holders)
        what = chance.choice(["failed", "failed", "succeeded", "admit", "wait"])
        if what == "wait":
            pass_time(30)
            pure = pure if not pure.open_until else evolve(pure, open_until=pure.open_until - 30_000_000)
            continue

        def change(row: Any, what: str = what, holder: Holder = holder) -> b.Breaker | None:
            nonlocal pure
            assert row.breaker == pure
            if what == "failed":
                after: b.Breaker | None = b.failed(row.breaker, rule, row.now, holder.name, "crash")
            elif what == "succeeded":
                after = b.succeeded(row.breaker, holder.name)
            else:
                after = b.admit(row.breaker, row.now, holder.name, row.probe_lives)
            pure = after or pure
            return after

        assert change_row(raw, b.TOOL, TOOL, holder, change).breaker == pure
