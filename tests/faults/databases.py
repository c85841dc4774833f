"""P6: the database crashes and connections break under live runs; what was acknowledged is there (SPEC J4)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import psycopg

from loops.models import Run
from tests.faults import house, oracle, stand, witness, workers
from tests.faults.lines import Line
from tests.faults.outcome import Found, Outcome

SCRIPT = "long_haul"
LIVE = 50


def check(count: int) -> list[Outcome]:
    """``count`` immediate stops and as many broken connections in turn, under at most fifty live runs."""
    outcome = Outcome("P6", faults=2 * count)
    house.agent(SCRIPT, 0.01)
    outcome.found, runs = under_load([stop_at_once, break_a_connection] * count, min(LIVE, 6 * count))
    trouble = max(1, count // 5)
    outcome.found += on_bad_lines(trouble)
    outcome.faults += 8 * trouble
    outcome.notes.append(f"{8 * trouble} times a slow, half open, reset or cut line to the database or the broker")
    outcome.notes.append(f"{runs} runs, {len(witness.acknowledged())} acknowledged commits")
    outcome.control = next(iter(without_waiting_for_the_disk()), "").partition(": ")[2]
    return [outcome]


def under_load(faults: Sequence[Callable[[], None]], live: int) -> tuple[Found, int]:
    """What was lost, and of how many runs."""
    witness.forget()
    found = Found()
    with workers.at_work(workers.Workers("threads", live, AGENTOPS_FAULTS_TTL="3")) as at_work:
        runs = [house.submit(SCRIPT, pace=0.01) for _ in range(live)]
        stand.wait_for(witness.acknowledged, 120)
        for fault in faults:
            _keep_live(runs, live, at_work, random.uniform(0.2, 1.2))
            fault()
            found.lost += witness.missing()
        workers.see_through(runs, at_work, 180)
    for run in runs:
        found += oracle.examine(run)
    found.lost += witness.missing()
    return found, len(runs)


def on_bad_lines(count: int) -> Found:
    """Workers reach database and broker over lines that are slow, half open, reset and cut in turn."""
    from django.conf import settings

    login = settings.DATABASES["default"]
    to_database = Line(f"{settings.PATHS.run}/.s.PGSQL.5432")
    to_broker = Line(str(settings.PATHS.valkey_socket))
    address = f"{login['USER']}:{login['PASSWORD']}@127.0.0.1:{to_database.port}/{login['NAME']}"
    at_work = workers.Workers(
        "threads",
        4,
        AGENTOPS_FAULTS_TTL="3",
        DATABASE_URL=f"postgres://{address}",
        REDIS_URL=f"redis://127.0.0.1:{to_broker.port}/0",
    )
    found = Found()
    with workers.at_work(at_work):
        runs = [house.submit(SCRIPT, pace=0.01) for _ in range(4)]
        stand.wait_for(lambda: Run.objects.filter(pk__in=[run.pk for run in runs], epoch__gt=0).exists(), 120)
        for line in (to_database, to_broker) * count:
            for trouble in (line.slow, line.half_open, line.reset, line.cut):
                trouble()
                workers.see_through(runs, at_work, random.uniform(0.5, 1.0))
                line.mend()
                workers.see_through(runs, at_work, 0.3)
                runs += [house.submit(SCRIPT, pace=0.01)]
        workers.see_through(runs, at_work, 120)
        at_work.kill()
    for run in runs:
        found += oracle.examine(run)
    return found


def _keep_live(runs: list[Run], live: int, at_work: workers.Workers, seconds: float) -> None:
    """Let them go on for a while, with a new run for each that has ended."""
    workers.see_through(runs, at_work, seconds)
    ended = Run.objects.filter(pk__in=[run.pk for run in runs]).exclude(completed_at=None).count()
    runs += [house.submit(SCRIPT, pace=0.01) for _ in range(max(0, min(live - (len(runs) - ended), 5)))]


def stop_at_once() -> None:
    stand.STAND.crash_postgres()
    time.sleep(random.uniform(0, 0.5))
    stand.STAND.start_postgres()


def break_a_connection() -> None:
    """Of the backends that are in a transaction at this moment, one is ended."""
    with owner() as connection:
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            if connection.execute(_BREAK).fetchone():
                return


_BREAK = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE usename = 'agentops' AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
    ORDER BY random() LIMIT 1
"""


@contextmanager
def owner() -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection nothing is forbidden to."""
    from django.conf import settings

    login = settings.DATABASE_OWNER
    with psycopg.connect(
        host=login["HOST"], user=login["USER"], password=login["PASSWORD"], dbname=login["NAME"], autocommit=True
    ) as connection:
        yield connection


def without_waiting_for_the_disk() -> Sequence[str]:
    """The control: commits that come back before they are on the disk."""
    witness.forget()
    with owner() as connection:
        connection.execute("ALTER ROLE agentops SET synchronous_commit = off")
        connection.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        connection.execute("SELECT pg_reload_conf()")
    at_work = workers.Workers("threads", 8, AGENTOPS_UNSAFE_DATABASE="1")
    missing: list[str] = []
    with workers.at_work(at_work):
        for _ in range(4):
            before = len(witness.acknowledged())
            runs = [house.submit(SCRIPT, pace=0.01) for _ in range(8)]
            # The first commits wake the process that flushes; those after them wait for its next round.
            stand.wait_for(lambda before=before: len(witness.acknowledged()) > before + 60, stand.within(15))
            stop_at_once()
            Run.objects.filter(pk__in=[run.pk for run in runs]).update(runnable=False, owner="", lease_until=None)
            if missing := witness.missing():
                break
        at_work.kill()
    with owner() as connection:
        connection.execute("ALTER ROLE agentops RESET synchronous_commit")
        connection.execute("ALTER SYSTEM RESET wal_writer_delay")
        connection.execute("SELECT pg_reload_conf()")
    return missing
