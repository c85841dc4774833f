"""Processes that a command may leave on the machine, and who watches over it: the same for both sandboxes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.stack import wait_until
from tests.unit.tools.harness import Desk

ROOT = Path(__file__).parents[2]
_DAEMON = (
    'python3 -c "import os,time\nif os.fork()==0:\n os.setsid()\n'
    " if os.fork()==0:\n  open('there','w').close()\n  os.closerange(0,99)\n  time.sleep({s})\""
)
_WORKER = """
import sys
from pathlib import Path
from tests.controls import switch
from tests.unit.tools.harness import Desk
from loops.tools.sandbox.capability import SandboxLevel
switch.as_told()
Desk(Path(sys.argv[1]), level=SandboxLevel(int(sys.argv[2]), "test")).shell(sys.argv[3], timeout_s=300)
"""


def new_marker() -> str:
    """So many seconds to sleep as nobody else on the machine sleeps: other tests, and other suites, run beside it."""
    return f"600.{uuid.uuid4().int % 10**12:012d}"


def daemon(marker: str) -> str:
    """A command that forks twice, in a session of its own, with all descriptors closed; then the file ``there`` is."""
    return _DAEMON.format(s=marker)


def crowd(marker: str) -> str:
    """Three that sleep: a daemon, one in a session of its own, and the command itself."""
    return f"{daemon(marker)} & setsid sleep {marker} & sleep {marker}"


def left_by_a_daemon(desk: Desk) -> list[int]:
    """Who is alive once a command is over that had started a daemon."""
    marker = new_marker()
    try:
        result = desk.shell(f"{daemon(marker)}; until [ -e there ]; do sleep 0.05; done", timeout_s=60)
        assert result.ok, f"control: it was running: {result}"
        return alive(marker)
    finally:
        end(marker)


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


def segments_of(process: int) -> list[int]:
    """System V segments of memory on the machine that this process made; they stay until somebody removes them."""
    lines = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()]
    return [int(line[1]) for line in lines[1:] if int(line[lines[0].index("cpid")]) == process]


def wait_until_there(marker: str, most: int) -> None:
    """The control: before anything ends them, all of them run."""
    wait_until(lambda: len(alive(marker)) >= most, f"{most} processes")


def wait_until_gone(marker: str) -> None:
    """Fails where some of them outlive it; by themselves they would sleep much longer."""
    wait_until(lambda: not alive(marker), "the end of its processes", 30)


def left_after_cancelling(desk: Desk, most: int) -> list[int]:
    """Who is alive once a call is cancelled whose ``most`` processes want to stay."""
    marker = new_marker()
    command = f"trap '' TERM INT HUP; {crowd(marker)}"

    async def start_and_cancel() -> list[int]:
        task = asyncio.create_task(desk.execute("run_command", command=command))
        await asyncio.to_thread(wait_until_there, marker, most)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return alive(marker)

    try:
        return asyncio.run(start_and_cancel())
    finally:
        end(marker)


@contextmanager
def worker(folder: Path, level: int, marker: str, most: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs a crowd at this level of the sandbox, once ``most`` of it are there."""
    words = [sys.executable, "-c", _WORKER, str(folder), str(level), crowd(marker)]
    process = subprocess.Popen(words, cwd=ROOT, env={**os.environ, "TMPDIR": str(folder)})
    try:
        wait_until_there(marker, most)
        yield process
    finally:
        process.kill()
        process.wait()
        end(marker)
