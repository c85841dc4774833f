"""The suite's own Postgres and Valkey, started when the first test needs them and gone with the suite."""

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import psycopg
from django.conf import settings
from django.db import connections
from psycopg import sql

from agentops.embedded import postgres, stack, valkey
from agentops.embedded.process import Command, start, stop
from tests import prepared
from tests.ports import free_port

PATIENCE_S = 180.0
"""How long anything may take to come true on a machine that is a fifth as fast as others: a bound against hanging."""


@contextlib.contextmanager
def servers() -> Iterator[None]:
    """Run both servers."""
    paths = settings.PATHS
    prepared.lay(paths)
    postgres.prepare(paths)
    commands = [postgres.command(paths, *prepared.FAST_BUT_UNSAFE), valkey.command(paths)]
    with contextlib.ExitStack() as running:
        for command in commands:
            running.enter_context(process(command))
        wait_until(lambda: postgres.is_ready(paths) and valkey.is_ready(paths), "the servers of the suite")
        yield


@contextlib.contextmanager
def process(command: Command) -> Iterator[subprocess.Popen[bytes]]:
    """Run one process, its output in the suite's log folder."""
    with (settings.PATHS.logs / f"{command.name}.log").open("ab") as log:
        running = start(command, log)
    try:
        yield running
    finally:
        stop(running, command.stop_signal)


@contextlib.contextmanager
def site() -> Iterator[str]:
    """Run a real web server on the test database; yields its address."""
    port = free_port()
    web = stack.web("127.0.0.1", port)
    url = f"http://127.0.0.1:{port}"
    with process(_on_test_database(web, BASE_URL=url, PORT=str(port))):
        wait_until(lambda: stack.answers(f"{url}/healthz"), "web")
        yield url


@contextlib.contextmanager
def worker(*extra: str, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a real worker on the test database, with these variables besides."""
    command = stack.worker()
    more = Command(command.name, [*command.argv, *extra])
    with process(_on_test_database(more, **environ)) as running:
        yield running


@contextlib.contextmanager
def listening() -> Iterator[None]:
    """Let the worker hear bells, from now on and until the end of the block.

    Else it would take, and end, the runs of tests that only look at pages: their gates would close under their hands.
    """
    from agentops.celery import app

    queue = app.conf.task_default_queue

    def heard(act: Callable[..., object]) -> bool:
        """Ask again until the worker is up and does what it was told."""
        act(queue, reply=True, timeout=2, limit=1)
        listed = app.control.inspect(timeout=2, limit=1).active_queues()
        return listed is not None and any(map(len, listed.values())) is (act == app.control.add_consumer)

    app.control.purge()  # bells of earlier tests
    wait_until(lambda: heard(app.control.add_consumer), "the worker to listen")
    yield
    wait_until(lambda: heard(app.control.cancel_consumer), "the worker to stop listening")


@contextlib.contextmanager
def swept() -> Iterator[None]:
    """No clock runs beside the worker of tests: what a busy broker did not take is rung for again here."""
    from loops import jobs

    over = threading.Event()

    def sweep() -> None:
        try:
            while not over.wait(5):
                jobs.sweep()
        finally:
            connections.close_all()

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        yield
    finally:
        over.set()
        sweeper.join()


def wait_until(condition: Callable[[], object], what: str, patience: float = PATIENCE_S, every: float = 0.05) -> None:
    """Wait for a condition, or fail naming it; for less only where something else would bring it about in the end."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"waited {patience:.0f} s for {what}"
        time.sleep(every)


def is_frozen(pid: int) -> bool:
    """Has each of its threads stopped? They do so one after the other, some time after the signal."""
    states = [thread.read_text().rpartition(")")[2].split()[0] for thread in Path("/proc").glob(f"{pid}/task/*/stat")]
    return set(states) == {"T"}


def _on_test_database(command: Command, **environ: str) -> Command:
    state = str(settings.PATHS.state)
    database = settings.DATABASES["default"]["NAME"]
    test = {
        "AGENTOPS_TEST_STATE": state,
        "AGENTOPS_TEST_DATABASE": database,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
    }
    path = os.pathsep.join(filter(None, [str(settings.BASE_DIR), os.environ.get("PYTHONPATH")]))
    return Command(command.name, command.argv, environ={**test, "PYTHONPATH": path, **environ})


class Snapshot:
    """The rows that migrations made, put back after a test that committed.

    Django's own flush would empty those tables too, and runs as the role that may not rewrite history.
    """

    def __init__(self, database: str) -> None:
        login = settings.DATABASE_OWNER
        self._connection = psycopg.connect(
            host=login["HOST"], user=login["USER"], password=login["PASSWORD"], dbname=database, autocommit=True
        )
        self._connection.execute("SET session_replication_role = replica")  # no foreign keys, no plain triggers
        self._connection.execute("SET lock_timeout = '10s'")
        self._tables = [name for (name,) in self._ask(_TABLES)]
        self._seeded = {table: self._read(table) for table in self._filled()}
        self._sequences = self._ask(_SEQUENCES)

    def restore(self) -> None:
        """Empty what a test filled, and refill what was there before it.

        A page that the test's browser had open may still be read for: where the two wait for each other, or it holds
        a table for long, try again.
        """
        for tries_left in reversed(range(5)):
            try:
                self._restore()
                break
            except (psycopg.errors.DeadlockDetected, psycopg.errors.LockNotAvailable):
                if not tries_left:
                    raise

    def _restore(self) -> None:
        filled = self._filled()
        dirty = [table for table in filled if table not in self._seeded or self._read(table) != self._seeded[table]]
        dirty += [table for table in self._seeded if table not in filled]
        moved = set(self._ask(_SEQUENCES)) - set(self._sequences)
        with self._connection.transaction():
            if dirty:
                self._empty(dirty)
            for sequence, value in self._sequences:
                if any(sequence == name for name, _ in moved):
                    self._connection.execute(
                        "SELECT setval(%s::regclass, %s, %s)", [sequence, value or 1, value is not None]
                    )

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def _filled(self) -> list[str]:
        one = sql.SQL("SELECT {} WHERE EXISTS (SELECT 1 FROM {})")
        questions = [one.format(sql.Literal(table), sql.Identifier(table)) for table in self._tables]
        return [str(name) for (name,) in self._connection.execute(sql.SQL(" UNION ALL ").join(questions))]

    def _read(self, table: str) -> bytes:
        copy = sql.SQL("COPY (SELECT * FROM {} AS row ORDER BY row::text) TO STDOUT").format(sql.Identifier(table))
        with self._connection.cursor().copy(copy) as stream:
            return b"".join(bytes(part) for part in stream)

    def _empty(self, tables: Sequence[str]) -> None:
        """Deleting a few rows is a tenth of the work of new files for a table and its indexes; many rows, or what was
        left of those deleted before, are worth that. Truncating wants the tables that refer to these, too."""
        if self._connection.execute(_LONG, [list(tables)]).fetchone():
            names = sql.SQL(", ").join(map(sql.Identifier, self._tables))
            with self._open_triggers(self._tables):
                self._connection.execute(sql.SQL("TRUNCATE {}").format(names))
                self._refill(self._seeded)
            return
        names = [sql.Identifier(table) for table in tables]
        # Whoever is still writing is waited for, as truncating would, so that nothing of it comes afterwards.
        whole = sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE; ").format(sql.SQL(", ").join(names))
        whole += sql.SQL("; ").join(sql.SQL("DELETE FROM {}").format(name) for name in names)
        with self._open_triggers(tables):
            self._connection.execute(whole)
            self._refill(self._seeded.keys() & set(tables))

    def _refill(self, tables: Iterable[str]) -> None:
        for table in tables:
            with self._connection.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(table))) as stream:
                stream.write(self._seeded[table])

    @contextlib.contextmanager
    def _open_triggers(self, tables: Sequence[str]) -> Iterator[None]:
        """Switch off the triggers that guard the history in these tables even from replicas."""
        guards = [(table, trigger) for table, trigger in self._ask(_GUARDS) if table in tables]
        self._switch(guards, "DISABLE TRIGGER")
        yield
        self._switch(guards, "ENABLE ALWAYS TRIGGER")

    def _switch(self, guards: Sequence[tuple[str, ...]], action: str) -> None:
        alter = sql.SQL("ALTER TABLE {} " + action + " {}")
        if guards:
            self._connection.execute(sql.SQL("; ").join(alter.format(*map(sql.Identifier, one)) for one in guards))

    def _ask(self, question: str) -> list[tuple[str, ...]]:
        return self._connection.execute(question).fetchall()


_TABLES = """
    SELECT relname FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relname <> 'django_migrations'
"""
_LONG = """
    SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname = ANY(%s)
    AND pg_total_relation_size(oid) > 2000000
"""
_SEQUENCES = "SELECT quote_ident(sequencename), last_value FROM pg_sequences WHERE schemaname = 'public'"
_GUARDS = """
    SELECT relname, tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
    WHERE NOT tgisinternal AND tgenabled = 'A' AND relnamespace = 'public'::regnamespace
"""
