"""Real Celery workers of the stand, replaced when they die, and the person and the clock that runs need."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agentops.embedded import process, stack
from agentops.embedded.process import Command
from loops.models import Run
from tests.faults import bells, guards, house, stand
from tests.faults.stand import start


class Workers:
    """One worker process (or its pool of children) that is started again when it is gone."""

    def __init__(
        self, pool: str = "threads", size: int = 4, *, off: Sequence[str] = (), ring: str = bells.LOUD, **environ: str
    ) -> None:
        self._environ = {"AGENTOPS_FAULTS_BELLS": ring, guards.VARIABLE: ",".join(off), "LOG_LEVEL": "WARNING"}
        self._environ |= environ
        argv = [str(part) for part in stack.worker().argv]
        argv[argv.index("-A") + 1] = "tests.faults.worker"
        argv[argv.index("-P") + 1], argv[argv.index("-c") + 1] = pool, str(size)
        self._command = Command("worker", argv)
        self.process: subprocess.Popen[bytes] | None = None
        self.deaths = 0

    def start(self) -> None:
        self.process = start(self._command, **self._environ)

    def keep(self) -> None:
        """Start another one when this one died."""
        if self.process is not None and self.process.poll() is not None:
            self.deaths += 1
            self.start()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        if self.process is not None:
            process.stop(self.process, self._command.stop_signal)


class Relieved(Workers):
    """The next one is loaded already, and begins as soon as the one before it is gone."""

    def __init__(self, *given: Any, **how: Any) -> None:
        super().__init__(*given, **how)
        self._next: tuple[subprocess.Popen[bytes], Path] = self._loaded()

    def start(self) -> None:
        self.process, gate = self._next
        gate.touch()
        self._next = self._loaded()

    def stop(self) -> None:
        waiting, _ = self._next
        waiting.kill()
        waiting.wait()
        super().stop()

    def _loaded(self) -> tuple[subprocess.Popen[bytes], Path]:
        gate = stand.STAND.paths.state / f"gate.{uuid.uuid4().hex}"
        return start(self._command, **self._environ, AGENTOPS_FAULTS_GATE=str(gate)), gate


@contextlib.contextmanager
def at_work(workers: Workers, ring: str = bells.LOUD) -> Iterator[Workers]:
    """Workers that hear the bells of this process; gone at the end, with all that is still in their queue."""
    workers.start()
    try:
        with bells.heard(ring):
            yield workers
    finally:
        workers.stop()
        empty_broker()


def empty_broker() -> None:
    import redis
    from django.conf import settings

    with contextlib.suppress(redis.RedisError), redis.Redis.from_url(settings.REDIS_URL) as client:
        client.flushall()


def see_through(runs: Sequence[Run], workers: Workers, patience: float, *, sweep: bool = True) -> bool:
    """Keep the worker alive, decide what is asked, let leases of the dead run out and sweep, until all have ended."""
    from loops import jobs

    deadline, swept = time.monotonic() + patience, 0.0
    while open_runs := list(Run.objects.filter(pk__in=[run.pk for run in runs], completed_at=None)):
        workers.keep()
        for run in open_runs:
            if (gate := house.open_gate(run)) is not None:
                house.decide(gate)
            house.look_after(run)
            if sweep and run.owner and not is_alive(run.owner):
                lapse_at_once(run)
        if sweep and time.monotonic() - swept > 0.5:
            jobs.sweep()
            swept = time.monotonic()
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def is_alive(owner: str) -> bool:
    """Does the process that took the run live? An owner's name is host:process:thread."""
    with contextlib.suppress(ValueError, IndexError, ProcessLookupError):
        os.kill(int(owner.split(":")[1]), 0)
        return True
    return False


def lapse_at_once(run: Run) -> None:
    """As ``lean.lapse``, and what is left of it is old enough for the sweeper."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE agent_execution_history SET lease_until = clock_timestamp() - interval '1 second', "
            "last_activity_at = clock_timestamp() - interval '3 seconds' WHERE id = %s AND owner = %s",
            [run.pk, run.owner],
        )


def order_death(point: str, count: int = 1) -> str:
    """Tell the workers where one of them dies; the order's number."""
    from django.conf import settings

    nonce = uuid.uuid4().hex
    order = settings.PATHS.state / "order"
    draft = order.with_name("order.draft")
    draft.write_text(f"{point}:{count}:{nonce}")
    draft.rename(order)
    return nonce


def died(nonce: str) -> bool:
    from django.conf import settings

    return (settings.PATHS.state / f"order.{nonce}").exists()


def last_words() -> str:
    return stand.tail(["worker"])
