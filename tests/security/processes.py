"""Processes that a command may leave on the machine, and who watches over it: the same for both sandboxes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.unit.tools.harness import Desk

ROOT = Path(__file__).parents[2]
_DAEMON = (
    'python3 -c "import os,time\nif os.fork()==0:\n os.setsid()\n'
    ' if os.fork()==0:\n  os.closerange(0,99)\n  time.sleep({s})"'
)
_WORKER = """
import sys
from pathlib import Path
from tests.controls import switch
from tests.unit.tools.harness import Desk
from loops.tools.sandbox.capability import SandboxLevel
switch.as_told()
Desk(Path(sys.argv[1]), level=SandboxLevel(int(sys.argv[2]), "test")).shell(sys.argv[3], timeout_s=60)
"""


def daemon(seconds: str) -> str:
    """A command that forks twice, in a session of its own, with all descriptors closed; ``seconds`` marks it."""
    return _DAEMON.format(s=seconds)


def crowd(seconds: str) -> str:
    """Three that sleep: a daemon, one in a session of its own, and the command itself."""
    return f"{daemon(seconds)} & setsid sleep {seconds} & sleep {seconds}"


def alive(marker: str) -> list[int]:
    """Processes of commands whose command line has the marker; neither we nor the worker of a test."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if any(marker in word for word in words) and not any("harness" in word for word in words):
            found.append(process.pid)
    return found


def end(marker: str) -> None:
    """Leave nothing to the machine where a sandbox did."""
    for process in alive(marker):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def wait_until_gone(marker: str, within_s: float) -> None:
    """Fails where some of them outlive it."""
    deadline = time.monotonic() + within_s
    while alive(marker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive(marker) == []


def seconds_to_cancel(desk: Desk, marker: str, most: int) -> float:
    """How long it takes to cancel a call whose ``most`` processes want to stay."""
    command = f"trap '' TERM INT HUP; {crowd(marker)}"

    async def start_and_cancel() -> float:
        task = asyncio.create_task(desk.execute("run_command", command=command))
        for _ in range(200):
            await asyncio.sleep(0.05)
            if len(alive(marker)) >= most:
                break
        assert len(alive(marker)) >= most, "control: it was running"
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - started

    return asyncio.run(start_and_cancel())


@contextmanager
def worker(folder: Path, level: int, marker: str, most: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs a crowd at this level of the sandbox, once ``most`` of it are there."""
    words = [sys.executable, "-c", _WORKER, str(folder), str(level), crowd(marker)]
    process = subprocess.Popen(words, cwd=ROOT, env={**os.environ, "TMPDIR": str(folder)})
    try:
        deadline = time.monotonic() + 20
        while len(alive(marker)) < most and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(alive(marker)) >= most, "control: it was running"
        yield process
    finally:
        process.kill()
        process.wait()
        end(marker)
