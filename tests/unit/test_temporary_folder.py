"""A worker's temporary files lie in a folder that names it, and go with the next one when it was killed (SPEC J4)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentops.embedded.paths import BASE_DIR

pytestmark = pytest.mark.spec("J4")
WORKER = """
import sys, tempfile, time
from loops.runs import temporary

temporary.begin()
tempfile.mkdtemp(prefix="agentops-report-")
print(tempfile.gettempdir(), flush=True)
sys.stdin.readline()
temporary.end()
"""


def start(place: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that has begun as workers do, and its folder."""
    environ = {**os.environ, "TMPDIR": str(place)}
    worker = subprocess.Popen([sys.executable, "-c", WORKER], cwd=BASE_DIR, env=environ, stdin=-1, stdout=-1, text=True)
    assert worker.stdout is not None
    return worker, Path(worker.stdout.readline().strip())


def finish(worker: subprocess.Popen[str]) -> None:
    worker.communicate("\n", timeout=60)
    assert worker.returncode == 0


def test_what_a_killed_worker_left_goes_with_the_next_one(tmp_path: Path) -> None:
    killed, its_own = start(tmp_path)
    alive, other = start(tmp_path)
    assert {path.parent for path in (its_own, other)} == {tmp_path}
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert [path.name[:16] for path in its_own.iterdir()] == ["agentops-report-"]
    finish(start(tmp_path)[0])
    assert (its_own.exists(), other.exists()) == (False, True), "who is at work keeps its own"
    finish(alive)
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_say_whose_it_is_stays(tmp_path: Path) -> None:
    others = [tmp_path / name for name in ("agentops-worker-", "agentops-worker-1-2", "agentops-report-x", "mine")]
    for folder in others:
        folder.mkdir()
    finish(start(tmp_path)[0])
    assert sorted(tmp_path.iterdir()) == sorted(others)
