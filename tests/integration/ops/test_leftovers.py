"""A run of the suites that is killed leaves no process and no folder for longer than until the next one begins."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests import leftovers
from tests.security.processes import segments_of
from tests.stack import wait_until

PREFIX = f"ao-leftover-test-{os.getpid()}-"
RUN = f"""
import ctypes, os, subprocess, sys, time
from tests import leftovers
with leftovers.state_folder("{PREFIX}") as folder:
    os.environ["AGENTOPS_STATE"] = str(folder)
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    tied = subprocess.Popen(sleep, preexec_fn=leftovers.tied())
    loose = subprocess.Popen(sleep)
    libc = ctypes.CDLL(None)
    key = os.getpid() + (1 << 24)
    server, other = folder / "postgres", libc.shmget(0, 56, 0o1600)
    server.mkdir()
    (server / "postmaster.pid").write_text(f"1\\n" * 6 + f"{{key:>10}} {{libc.shmget(key, 56, 0o1600):>9}}\\nready\\n")
    print(folder, tied.pid, loose.pid, other, flush=True)
    time.sleep(600)
"""


@pytest.mark.spec("J4")
def test_a_killed_run_is_cleared_by_the_next_and_a_living_one_is_left_alone() -> None:
    root = Path(__file__).parents[3]
    with subprocess.Popen([sys.executable, "-c", RUN], cwd=root, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        name, tied, loose, other = run.stdout.readline().split()
        folder = Path(name)
        foreign = folder.with_name(f"{PREFIX}nobody-knows-whose")
        foreign.mkdir(exist_ok=True)
        try:
            os.kill(int(tied), signal.SIGSTOP)  # not even a frozen one stays
            assert leftovers.clear(PREFIX) == []
            assert folder.is_dir()
            assert len(segments_of(run.pid)) == 2
            run.kill()
            run.wait()
            wait_until(lambda: not _runs(int(tied)), "what is tied to it to end")
            assert _runs(int(loose)), "the control: what is not tied stays, until somebody clears"
            assert leftovers.clear(PREFIX) == [folder]
            wait_until(lambda: not _runs(int(loose)), "the rest to end")
            assert not folder.exists()
            assert foreign.is_dir()
            assert segments_of(run.pid) == [int(other)], "that of its database server is gone, and no other"
        finally:
            ctypes.CDLL(None).shmctl(int(other), leftovers.IPC_RMID, None)
            foreign.rmdir()


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
