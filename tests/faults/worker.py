"""The Celery app of the real workers: the product's own, with the fake bank, and deaths that the test orders.

A death is ordered in a file, so that one worker can die of one thing after another; each order is carried out once.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import django
from celery.signals import task_prerun

django.setup()

from django.conf import settings  # noqa: E402 - after the setup

from agentops.celery import app  # noqa: E402
from loops import crash_points  # noqa: E402
from tests.faults import guards, stand, witness  # noqa: E402

__all__ = ["app"]
ORDER = Path(settings.PATHS.state) / "order"
_carried_out: set[str] = set()


@task_prerun.connect
def _read_order(**_: Any) -> None:
    with suppress(FileNotFoundError):
        order = ORDER.read_text()
        name, count, nonce = order.split(":")
        if nonce not in _carried_out and not ORDER.with_suffix(f".{nonce}").exists():
            _carried_out.add(nonce)
            crash_points.arm(crash_points.CrashPoint[name], int(count))


def _die_once() -> None:
    """Count down as the product does; of several processes with the same order one dies."""
    with crash_points._lock:
        crash_points._left -= 1
        if crash_points._left:
            return
    nonce = ORDER.read_text().split(":")[2]
    with suppress(FileExistsError):
        os.close(os.open(ORDER.with_suffix(f".{nonce}"), os.O_CREAT | os.O_EXCL))
        os.kill(os.getpid(), signal.SIGKILL)


crash_points._count_down = _die_once
# A lost owner is noticed within seconds instead of within a quarter of a minute.
if short := float(os.environ.get("AGENTOPS_FAULTS_TTL", "0")):
    guards.lease(short)
stand.offer()
witness.attend()
guards.off_by_environment()
if gate := os.environ.get("AGENTOPS_FAULTS_GATE"):  # everything is loaded: it begins when it is its turn
    parent = os.getppid()
    while not Path(gate).exists() and os.getppid() == parent:
        time.sleep(0.01)
