"""A worker and a clock of one's own, on a broker of their own: nobody else takes the runs of the test."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from celery import Celery
from django.conf import settings
from django.db import connection

from agentops.embedded import process, stack, valkey
from loops.models import Fact, Run
from tests.stack import PATIENCE_S
from tests.stack import _on_test_database as on_test_database

BROKER = 7
"""Number of the broker's database; the suite's own worker listens to 0."""


def broker() -> str:
    return valkey.url(settings.PATHS).replace("db=0", f"db={BROKER}")


app = Celery("tests.e2e")
"""Rings this plant's bell (``settings.AGENTOPS_CELERY``)."""
APP = f"{__name__}.app"


class Plant:
    """Runs jobs until it is told to stop, or killed. ``killed`` are the workers that died by ``kill``."""

    def __init__(self, app: str = "") -> None:
        self._app = app
        self.worker: subprocess.Popen[bytes] | None = None
        self.clock: subprocess.Popen[bytes] | None = None
        self.killed: list[int] = []

    def start(self) -> None:
        command = stack.worker()
        argv = [str(part) for part in command.argv]
        if self._app:
            argv[argv.index("-A") + 1] = self._app
        self.worker = _start(process.Command(command.name, argv, environ=command.environ))

    def start_clock(self) -> None:
        self.clock = _start(stack.beat())

    def kill(self) -> list[Run]:
        """``kill -9`` for the worker; the runs that it owned at that moment."""
        assert self.worker is not None
        self.worker.send_signal(signal.SIGKILL)
        self.worker.wait()
        self.killed.append(self.worker.pid)
        return list(Run.objects.filter(owner__contains=f":{self.worker.pid}:", lease_until__isnull=False))

    def stop(self) -> None:
        for running in (self.clock, self.worker):
            if running is not None:
                process.stop(running, signal.SIGTERM)


def _start(command: process.Command) -> subprocess.Popen[bytes]:
    with (settings.PATHS.logs / f"e2e-{command.name}.log").open("ab") as log:
        return process.start(on_test_database(command, REDIS_URL=broker()), log)


@contextlib.contextmanager
def ringing() -> Iterator[None]:
    """Bells of this process ring at the plant's own broker."""
    global app  # a closed Celery app forgets its broker: every plant has one of its own
    app = Celery("tests.e2e")
    app.conf.update(
        broker_url=broker().replace("unix://", "redis+socket://").replace("?db=", "?virtual_host="),
        broker_transport_options=settings.CELERY_BROKER_TRANSPORT_OPTIONS,
    )
    try:
        yield
    finally:
        app.close()


@contextlib.contextmanager
def running(app: str = "") -> Iterator[Plant]:
    """A worker, of another Celery app where one is named, and a clock, gone at the end."""
    plant = Plant(app)
    with ringing():
        try:
            plant.start()
            plant.start_clock()
            yield plant
        finally:
            plant.stop()


def wait_for_runs(runs: Sequence[uuid.UUID], patience: float = PATIENCE_S, *, until: Any = None) -> None:
    """Wait until all have ended; on the way ``until`` may stop the waiting by returning true."""
    deadline = time.monotonic() + patience
    while (left := Run.objects.filter(pk__in=runs, completed_at=None)).exists():
        if until is not None and until():
            return
        assert time.monotonic() < deadline, f"after {patience:.0f} s:\n" + "\n".join(map(told, left))
        time.sleep(0.05)


def told(run: Run) -> str:
    """One line about a run, for people who read why a test failed."""
    latest = Fact.objects.filter(run=run).order_by("-seq").values_list("seq", "kind").first()
    return f"{run.pk} {run.task.title[:30]!r} {run.status} {run.end_reason} owner={run.owner!r} latest={latest}"


def kinds(run_id: uuid.UUID) -> list[str]:
    return list(Fact.objects.filter(run_id=run_id).order_by("seq").values_list("kind", flat=True))


_LATEST = (
    "SELECT DISTINCT ON (run_id) run_id, seq, kind FROM loops_fact WHERE run_id = ANY(%s) ORDER BY run_id, seq DESC"
)


def latest_facts(runs: Sequence[uuid.UUID]) -> dict[uuid.UUID, tuple[int, str]]:
    """(number of facts, kind of the latest) of every run."""
    with connection.cursor() as cursor:
        cursor.execute(_LATEST, [list(runs)])
        return {run_id: (seq, kind) for run_id, seq, kind in cursor.fetchall()}


def logs() -> str:
    """The last words of worker and clock."""
    files = [settings.PATHS.logs / f"e2e-{name}.log" for name in ("worker", "beat")]
    texts = [file.read_text(errors="replace")[-3000:] for file in files if file.exists()]
    return os.linesep.join(texts)
