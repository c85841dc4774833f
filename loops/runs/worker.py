"""The life of a worker process: what it promises when it starts, and how it ends (SPEC J3, J4).

SIGTERM: take nothing new, finish what is being performed, give every run back with its bell rung. After ``GRACE_S``
seconds, or at a second SIGTERM, the process is gone and its leases run out, as after a crash. Commands die with it.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
from contextlib import suppress
from typing import Any

from billiard import active_children
from celery.signals import worker_init, worker_ready, worker_shutdown, worker_shutting_down

from loops.driver import drain
from loops.runs import temporary
from loops.storage.connections import guard_connections
from loops.tools import fence

GRACE_S = 10.0
"""Shorter than the patience of whoever sent the signal (``agentops.embedded.process.stop``)."""


@worker_init.connect  # type: ignore[untyped-decorator]
def _promise(**_: Any) -> None:
    temporary.begin()
    fence.make_deadly()
    guard_connections()


@worker_ready.connect  # type: ignore[untyped-decorator]
def _listen(**_: Any) -> None:
    """Hear SIGTERM before Celery does: its handler takes a lock, for which a second one within it waits for ever."""
    celerys, heard = signal.getsignal(signal.SIGTERM), itertools.count()

    def told_to_end(*words: Any) -> None:
        if next(heard):
            end_now()
        if callable(celerys):
            celerys(*words)

    signal.signal(signal.SIGTERM, told_to_end)


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def _leave(**_: Any) -> None:
    temporary.end()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _end(**_: Any) -> None:
    """Runs in a signal handler of the parent process."""
    if drain.begun():
        end_now()
    drain.begin(GRACE_S)
    timer = threading.Timer(GRACE_S, end_now)
    timer.daemon = True
    timer.start()


def end_now() -> None:
    """Like a crash, on purpose."""
    for child in active_children():
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
    os._exit(1)
