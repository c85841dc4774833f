"""Keeps a handful of processes running, heals those that die, and leaves nothing behind."""

import contextlib
import fcntl
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from agentops.embedded import EmbeddedError
from agentops.embedded.paths import Paths
from agentops.embedded.process import Command, start, stop

TICK = 0.1
LONGEST_BACK_OFF = 15.0
HEALTHY_AFTER = 30.0  # a process that lived this long starts again with the shortest back-off
FAREWELL = b"worker: Warm shutdown"  # Celery says so past its loggers, to somebody who has just pressed Ctrl-C
HOPELESS_AFTER = 5  # quick deaths while the stack is still starting


@dataclass
class Child:
    """One supervised command and what happened to it."""

    command: Command
    process: subprocess.Popen[bytes]
    started_at: float
    quick_deaths: int = 0
    restart_at: float | None = None


class Supervisor:
    """Starts commands in order, restarts the dead ones, stops them in reverse."""

    def __init__(self, paths: Paths, say: Callable[[str], None], *, show_output: bool) -> None:
        self.paths, self.say, self.show_output = paths, say, show_output
        self.children: list[Child] = []
        self.stopping = threading.Event()
        self._pid_file = paths.state / "pids.json"

    @contextlib.contextmanager
    def running(self) -> Iterator["Supervisor"]:
        """Hold the lock of the state folder; at the end stop everything that was started."""
        lock = (self.paths.state / "up.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise EmbeddedError(f"already running on {self.paths.state}: stop it or set AGENTOPS_STATE") from None
        for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(ending, lambda *_: self.stopping.set())
        self._reap_leftovers()
        try:
            yield self
        finally:
            for child in reversed(self.children):
                stop(child.process, child.command.stop_signal)
            self._pid_file.unlink(missing_ok=True)
            lock.close()

    def add(self, command: Command) -> None:
        """Start a command and keep it running from now on."""
        self.children.append(Child(command, self._launch(command), time.monotonic()))
        self._remember()

    def wait_for(self, ready: Callable[[], bool], what: str, patience: float = 180) -> None:
        """Supervise until something is ready, or say why it is not."""
        deadline = time.monotonic() + patience
        while not ready():
            if self.stopping.is_set():
                raise KeyboardInterrupt
            hopeless = next((child for child in self.children if child.quick_deaths >= HOPELESS_AFTER), None)
            if hopeless or time.monotonic() > deadline:
                culprit = hopeless.command.name if hopeless else what
                raise EmbeddedError(f"{culprit} does not start: {self._last_words(culprit)}")
            self.heal()
            time.sleep(TICK / 2)

    def run(self) -> None:
        """Supervise until somebody asks to stop."""
        while not self.stopping.wait(TICK):
            self.heal()

    def heal(self) -> None:
        """Notice deaths and restart what is due."""
        now = time.monotonic()
        for child in self.children:
            if child.restart_at is None and child.process.poll() is not None:
                self._plan_restart(child, now)
            if child.restart_at is not None and now >= child.restart_at:
                child.process, child.started_at, child.restart_at = self._launch(child.command), now, None
                self._remember()

    def _plan_restart(self, child: Child, now: float) -> None:
        lived = now - child.started_at
        child.quick_deaths = child.quick_deaths + 1 if lived < HEALTHY_AFTER else 0
        delay = 0.0 if child.quick_deaths == 0 else min(0.25 * 2**child.quick_deaths, LONGEST_BACK_OFF)
        child.restart_at = now + delay
        self.say(f"{child.command.name} ended with {child.process.returncode}, starting again in {delay:.1f} s")

    def _launch(self, command: Command) -> subprocess.Popen[bytes]:
        if self.show_output and not command.unprivileged and command.name != "valkey":
            process = start(command, subprocess.PIPE)
            threading.Thread(target=_pump, args=(command.name, process.stdout), daemon=True).start()
            return process
        with _log(self.paths, command.name).open("ab") as output:
            return start(command, output)

    def _remember(self) -> None:
        """Write down who runs, by number and birth, for a supervisor after us."""
        born = []
        for child in self.children:
            with contextlib.suppress(psutil.NoSuchProcess):
                born.append([child.process.pid, psutil.Process(child.process.pid).create_time()])
        draft = self._pid_file.with_suffix(".draft")
        draft.write_text(json.dumps(born))
        draft.replace(self._pid_file)

    def _reap_leftovers(self) -> None:
        """Stop what a killed supervisor left. Linux does that by itself (see `process`), other systems do not."""
        try:
            leftovers: Sequence[tuple[int, float]] = json.loads(self._pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return
        for pid, born in reversed(leftovers):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):  # the number may be another user's now
                _end_leftover(psutil.Process(pid), born)

    def _last_words(self, name: str) -> str:
        log = _log(self.paths, name)
        lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
        return lines[-1] if lines else "see its output above"


def _end_leftover(process: psutil.Process, born: float) -> None:
    if abs(process.create_time() - born) >= 1:  # the number was given to somebody else
        return
    process.send_signal(signal.SIGINT if "postgres" in process.name() else signal.SIGTERM)
    try:
        process.wait(15)
    except psutil.TimeoutExpired:
        process.kill()


def _log(paths: Paths, name: str) -> Path:
    """Log of one process; a long one makes room by becoming the previous one."""
    log = paths.logs / f"{name}.log"
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > 5_000_000:
            log.replace(log.with_suffix(".log.1"))
    return log


def _pump(name: str, stream: IO[bytes]) -> None:
    """Copy the output of a child to ours, line by line, under its name."""
    for line in stream:
        if not line.strip() or line.startswith(FAREWELL):
            continue
        sys.stdout.write(f"{name:>8} | {line.decode(errors='replace')}")
        sys.stdout.flush()
