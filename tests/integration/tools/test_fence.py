"""Whoever was frozen past the lease does nothing any more: file tools in a thread, commands in their sandbox.

Each test has its negative control: with the fence switched off, the late effect happens.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from loops.tools import fence
from loops.tools.fence import Fence
from loops.tools.sandbox.lease_wrapper import LeaseWrapper
from loops.uptime import uptime
from tests.stack import is_frozen, wait_until
from tests.unit.tools.harness import reachable

ROUNDS = 2
LEASE_S = 8.0
"""What is left of the lease when a thread begins, beyond the margin."""
COMMANDS_LEASE_S = 25.0
"""The same for a command, whose sandbox has to be made first."""

IN_A_THREAD = """
import os, sys, threading
from loops.tools import fence
from loops.tools.limits import Limits
from loops.tools.workspace import Workspace
from loops.uptime import uptime

real = os.rename
def rename(*words, **places):  # after the look at the clock, before the effect
    print("ready", flush=True)
    sys.stdin.readline()
    return real(*words, **places)

fence.make_deadly()
os.rename = rename
ends = uptime() + fence.MARGIN_S + float(sys.argv[2])
def act():
    with Workspace(sys.argv[1], Limits(), fence=fence.Fence(lambda: ends)) as workspace:
        workspace.write("note", b"late")
thread = threading.Thread(target=act)
thread.start()
thread.join()
"""

COMMAND = """
import asyncio, sys
from loops.tools import fence
from loops.tools.limits import Limits
from loops.tools.sandbox.runner import Job, run_inside
from loops.tools.workspace import Workspace
from loops.uptime import uptime

ends = uptime() + fence.MARGIN_S + float(sys.argv[2])
words = f"sleep {sys.argv[3]}; echo late > note"
async def act():
    with Workspace(sys.argv[1], Limits(), fence=fence.Fence(lambda: ends), made=True) as workspace:
        print("ready", flush=True)
        await run_inside(workspace, Job(("sh", "-c", words), 900), lambda stream, chunk: None)
asyncio.run(act())
"""


@contextmanager
def running(
    code: str, folder: Path, *, fenced: bool, lease_s: float = LEASE_S, sleeps_s: float = 600
) -> Iterator[subprocess.Popen[str]]:
    """A worker of its own that is about to act: a thread once it reads a line, a command once it has slept."""
    environ = os.environ | {"AGENTOPS_FENCE": "on" if fenced else "off"}
    words = [sys.executable, "-c", code, str(folder), str(lease_s), str(sleeps_s)]
    with subprocess.Popen(
        words, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
            yield worker
        finally:
            worker.kill()


def frozen_for(worker: subprocess.Popen[str], seconds: float) -> None:
    """Frozen before it acts; once it wakes up, nothing holds it any more."""
    assert worker.stdin is not None
    worker.send_signal(signal.SIGSTOP)
    wait_until(lambda: is_frozen(worker.pid), "the freeze")
    worker.stdin.write("\n")
    time.sleep(seconds)
    worker.send_signal(signal.SIGCONT)


@pytest.mark.spec("J2", "J3")
def test_a_thread_that_wakes_after_its_lease_dies_before_it_acts(tmp_path: Path) -> None:
    for _ in range(ROUNDS):
        with running(IN_A_THREAD, tmp_path, fenced=True) as worker:
            frozen_for(worker, LEASE_S + 0.2)
            assert worker.wait(60) == -signal.SIGALRM
            assert not (tmp_path / "note").exists()


@pytest.mark.spec("J2", "J3")
def test_without_the_fence_the_thread_acts(tmp_path: Path) -> None:
    """Negative control."""
    with running(IN_A_THREAD, tmp_path, fenced=False) as worker:
        frozen_for(worker, LEASE_S + 0.2)
        assert worker.wait(60) == 0
        assert (tmp_path / "note").read_bytes() == b"late"


def test_a_thread_in_time_is_let_alone(tmp_path: Path) -> None:
    with running(IN_A_THREAD, tmp_path, fenced=True, lease_s=30) as worker:
        frozen_for(worker, 0.2)
        assert worker.wait(60) == 0
        assert (tmp_path / "note").read_bytes() == b"late"


@pytest.mark.spec("J2")
def test_the_clock_is_looked_at_as_well() -> None:
    """Even where the alarm cannot be armed."""
    with pytest.raises(fence.LeaseOver, match="nothing was done"), fence.Fence(uptime).armed():
        pytest.fail("it acted")


@pytest.mark.spec("J2", "J4")
def test_who_is_late_before_the_alarm_is_set_does_not_end_the_other_runs_of_its_process() -> None:
    code = (
        "from loops.tools import fence; from loops.uptime import uptime\n"
        "fence.make_deadly()\n"
        "try:\n"
        "    with fence.Fence(uptime).armed(): print('acted')\n"
        "except fence.LeaseOver: print('nothing was done')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("nothing was done\n", 0), done.stderr


@pytest.mark.spec("J3")
def test_a_process_in_which_somebody_handles_the_alarm_does_not_act() -> None:
    code = (
        "import signal; from loops.tools import fence; from loops.uptime import uptime\n"
        "fence.make_deadly(); signal.signal(signal.SIGALRM, lambda *a: None)\n"
        "with fence.Fence(lambda: uptime() + 60).armed(): print('acted')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "something handles SIGALRM" in done.stderr
    assert done.stdout == ""


@pytest.fixture(params=["bubblewrap", "landlock"])
def command(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What a worker runs, in each of the two sandboxes."""
    reachable(tmp_path)
    return (
        COMMAND if request.param == "bubblewrap" else COMMAND.replace("chunk: None)", "chunk: None, namespaces=False)")
    )


class TestACommand:
    @pytest.mark.spec("J2", "J3")
    def test_of_a_frozen_worker_ends_with_the_lease(self, tmp_path: Path, command: str) -> None:
        with running(command, tmp_path, fenced=True, lease_s=COMMANDS_LEASE_S) as worker:
            wait_until(lambda: len(below(worker)) >= 3, "the command to start")
            tree = below(worker)
            worker.send_signal(signal.SIGSTOP)
            wait_until(lambda: not any(alive(one) for one in tree), "the end of the command")
            assert not (tmp_path / "note").exists()

    def test_of_a_frozen_worker_goes_on_without_the_fence(self, tmp_path: Path, command: str) -> None:
        """Negative control."""
        with running(command, tmp_path, fenced=False, sleeps_s=COMMANDS_LEASE_S) as worker:
            wait_until(lambda: len(below(worker)) >= 2, "the command to start")
            worker.send_signal(signal.SIGSTOP)
            wait_until((tmp_path / "note").exists, "the late effect")

    @pytest.mark.spec("J2", "J3")
    def test_is_not_begun_after_the_lease(self, tmp_path: Path, command: str) -> None:
        with running(command, tmp_path, fenced=True, lease_s=-1, sleeps_s=0) as worker:
            assert worker.wait(60) == 0
            assert not (tmp_path / "note").exists()

    @pytest.mark.spec("J3")
    def test_lives_on_while_the_lease_is_renewed(self, tmp_path: Path, command: str) -> None:
        renewing = command.replace("lambda: ends", "lambda: uptime() + fence.MARGIN_S + float(sys.argv[2])")
        with running(renewing, tmp_path, fenced=True, lease_s=15, sleeps_s=18) as worker:
            assert worker.wait(60) == 0
            assert (tmp_path / "note").read_text() == "late\n"

    @pytest.mark.spec("I8", "J4")
    @pytest.mark.parametrize("fenced", [True, False], ids=["with a lease", "without one"])
    def test_of_a_killed_worker_leaves_nothing(self, tmp_path: Path, command: str, fenced: bool) -> None:
        with running(command, tmp_path, fenced=fenced, lease_s=600) as worker:
            wait_until(lambda: len(below(worker)) >= 3, "the command to start")
            tree = below(worker)
            worker.kill()
            worker.wait()
            wait_until(lambda: not any(alive(one) for one in tree), "the end of the tree")
            assert not (tmp_path / "note").exists()

    @pytest.mark.spec("I8", "J4")
    def test_that_has_only_begun_is_not_outlived_by_its_first_process(self) -> None:
        """Bubblewrap's child is tied to its parent's life some milliseconds after it was made: here it never is."""
        with untied() as (worker, first):
            let_go(worker)
            wait_until(lambda: not alive(first), "the end of the first process", 30)

    def test_that_has_only_begun_is_outlived_where_nobody_ends_its_first_process(self) -> None:
        """Negative control."""
        with untied("os.kill(int(one), int(sys.argv[2]))") as (worker, first):
            let_go(worker)
            assert alive(first)


@contextmanager
def untied(without: str = "") -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """A leash ``without`` these words, around a shell whose child nothing ties to it; news come from its input."""
    held = LeaseWrapper(Fence(lambda: uptime() + 60), signal.SIGKILL)
    held.close()
    python, option, code, _, ended_by = held.argv
    assert without in code
    words = [python, option, code.replace(without, "pass") if without else code, "0", ended_by]
    shell = ["/bin/sh", "-c", "sleep 60 & echo $!; wait"]
    with subprocess.Popen([*words, *shell], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.buffer.write(struct.pack("d", uptime() + 60))
        worker.stdin.flush()
        first = psutil.Process(int(worker.stdout.readline()))
        try:
            yield worker, first
        finally:
            worker.kill()
            if alive(first):
                first.kill()


def let_go(leash: subprocess.Popen[str]) -> None:
    """As the end of its worker does."""
    assert leash.stdin is not None
    leash.stdin.close()
    assert leash.wait(60) == 137


def below(worker: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(worker.pid).children(recursive=True)


def alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
