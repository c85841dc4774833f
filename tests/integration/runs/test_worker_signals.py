"""How a worker hears that it is to end, whatever it was doing at that moment (SPEC J4)."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from agentops.embedded.paths import BASE_DIR

WORKER = """
import os, signal, time
from types import SimpleNamespace
from celery.apps.worker import install_worker_term_handler
from celery.signals import worker_ready, worker_shutting_down
from loops.runs import worker

install_worker_term_handler(SimpleNamespace(hostname="here"))
worker_ready.send(sender=None)
worker_shutting_down.lock.acquire()  # where a first signal may just be
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(600)
"""


@pytest.mark.spec("J4")
def test_a_second_signal_ends_a_worker_that_still_handles_the_first() -> None:
    with subprocess.Popen([sys.executable, "-c", WORKER], cwd=BASE_DIR, stdout=subprocess.PIPE) as worker:
        try:
            assert worker.stdout is not None
            assert any(b"Warm shutdown" in line for line in worker.stdout), "the first signal"
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 1
        finally:
            worker.kill()
