"""The one-command stack, started for real, killed in every way, started again."""

import contextlib
import json
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from agentops.embedded.process import nobody
from agentops.embedded.root import handover, service_user, user_access
from agentops.embedded.root.user_access import User
from agentops.evidence import anchors
from agentops.health import BEAT_KEY
from tests.ports import free_port
from tests.stack import PATIENCE_S, wait_until

pytestmark = [pytest.mark.spec("J4")]

ROOT = Path(__file__).parents[2]
PARTS = {
    "postgres": "bin/postgres",
    "valkey": "valkey-server",
    "web": "daphne",
    "worker": "agentops worker",
    "beat": "agentops.clock",
    "monitor": "-m agentops monitor",
}
KEYS = {"ODD_KEY": "kept-by-the-worker-0123456789"}
APART = ("web", "monitor")
"""What the clock rings does not pass through these."""


@dataclass
class Stack:
    """One state folder and the supervisor that runs on it, if any."""

    state: Path
    port: int = field(default_factory=free_port)
    up: subprocess.Popen[str] | None = None
    ready: dict[str, str] = field(default_factory=dict)

    def command(self) -> list[str]:
        return [sys.executable, "manage.py", "up", "--json-ready", "--no-demo", "--port", str(self.port)]

    def environ(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
        return {**kept, **KEYS, "AGENTOPS_STATE": str(self.state)}

    def start(self) -> float:
        """Start and wait for the line that says ready; returns how long that took."""
        began = time.monotonic()
        said = self.state.with_suffix(".err")
        with said.open("a") as errors:
            self.up = subprocess.Popen(
                self.command(), cwd=ROOT, env=self.environ(), stdout=subprocess.PIPE, stderr=errors, text=True
            )
        line = self.up.stdout.readline()
        assert line, said.read_text()[-3000:]
        self.ready = json.loads(line)
        return time.monotonic() - began

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.up.pid).children(recursive=True)

    def of_everyone(self, ask: Callable[[psutil.Process], Any]) -> list[Any]:
        """Ask every process, except those that end meanwhile: servers have short-lived helpers."""
        answers = []
        for process in [psutil.Process(self.up.pid), *self.family()]:
            with contextlib.suppress(psutil.NoSuchProcess):
                answers.append(ask(process))
        return answers

    def part(self, name: str) -> psutil.Process:
        """The direct child that plays one part."""
        children = psutil.Process(self.up.pid).children()
        return next(child for child in children if PARTS[name] in " ".join(child.cmdline()))

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def is_ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def forget_the_clock(self) -> None:
        with redis.Redis(unix_socket_path=str(self.state / "run" / "valkey.sock")) as broker:
            broker.delete(BEAT_KEY)

    def stop(self) -> int:
        self.up.send_signal(signal.SIGINT)
        code = self.up.wait(PATIENCE_S)
        self.up.stdout.close()
        return code


@pytest.fixture(scope="module")
def state() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ao-up-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@pytest.fixture(scope="module")
def stack(state: Path) -> Iterator[Stack]:
    stack = Stack(state)
    stack.start()
    yield stack
    if stack.up and stack.up.poll() is None:
        stack.stop()


@pytest.mark.spec("T5")
def test_says_ready_when_it_answers(stack: Stack) -> None:
    assert stack.get("/healthz") == (200, '{"status": "ok"}')
    # A clock that was put forward since the last beat makes it silent until the next one.
    wait_until(lambda: stack.get("/readyz")[0] == 200, "all parts to be ready")
    code, said = stack.get("/readyz")
    assert code == 200, said
    assert set(json.loads(said)["checks"]) == {"database", "migrations", "broker", "beat"}


@pytest.mark.spec("X1")
def test_root_starts_it_and_another_user_runs_it_or_one_sentence_says_why_not(stack: Stack) -> None:
    users = set(stack.of_everyone(lambda process: process.uids().effective))
    files = {path.lstat().st_uid for path in (stack.state, *stack.state.iterdir())}
    known = next((entry.pw_uid for entry in pwd.getpwall() if entry.pw_name == service_user.NAME), None)
    other = User(service_user.NAME, *nobody())
    why = (
        (user_access.why_no_access(other, stack.state) or user_access.weaker_sandbox(other))
        if os.geteuid() == 0
        else ""
    )
    if why:
        printed = stack.state.with_suffix(".err").read_text().splitlines()
        assert f"AgentOps runs as root: {why}." in printed
    else:
        assert users == files == {known if os.geteuid() == 0 else os.geteuid()}


def test_all_that_lies_in_the_state_folder_is_known_to_a_handover(stack: Stack) -> None:
    assert [path.name for path in stack.state.iterdir() if not handover._is_ours(path.name)] == []
    assert handover._is_ours(anchors.FOLDER), "made half a minute after a start"


def test_keeps_its_secrets_to_itself(stack: Stack) -> None:
    for name in ("secret", "admin-password"):
        assert (stack.state / name).stat().st_mode & 0o777 == 0o600


@pytest.mark.spec("I7")
@pytest.mark.parametrize("part", ["postgres", "valkey", "web", "beat", "monitor"])
def test_only_the_worker_has_the_keys_of_models(stack: Stack, part: str) -> None:
    """As the kernel says it, of the part and of everything that it started."""
    stack_worker = Path(f"/proc/{stack.part('worker').pid}/environ").read_bytes()
    assert b"ODD_KEY=" in stack_worker
    first = stack.part(part)
    for process in [first, *first.children(recursive=True)]:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            environ = Path(f"/proc/{process.pid}/environ").read_bytes()
            assert KEYS["ODD_KEY"].encode() not in environ, environ


def test_opens_no_port_but_its_own(stack: Stack) -> None:
    """None that stays: the worker's probe of the sandbox listens for a moment, to see that nobody gets through."""

    def listening() -> set[int]:
        return {
            connection.laddr.port
            for connections in stack.of_everyone(lambda process: process.net_connections("inet"))
            for connection in connections
            if connection.status == psutil.CONN_LISTEN
        }

    wait_until(lambda: listening() == {stack.port}, "no port but its own", 30)


@pytest.mark.parametrize("part", PARTS)
def test_heals_a_killed_part(stack: Stack, part: str) -> None:
    wait_until(stack.is_ready, "/readyz")
    victim = stack.part(part)
    victim.kill()
    wait_until(lambda: not victim.is_running(), f"the end of {part}")
    wait_until(lambda: _is_back(stack, part, victim), f"another {part}")
    if part not in APART:
        stack.forget_the_clock()  # so that ready means: clock, broker and worker did it again
    wait_until(stack.is_ready, f"/readyz after {part}")


def test_a_second_one_is_refused_in_one_line(stack: Stack) -> None:
    second = subprocess.run(
        stack.command(), cwd=ROOT, env=stack.environ(), capture_output=True, text=True, check=False, timeout=60
    )
    assert second.returncode != 0
    assert second.stderr.strip().splitlines() == [f"CommandError: already running on {stack.state}: "
                                                 "stop it or set AGENTOPS_STATE"]  # fmt: skip


def test_a_taken_port_is_refused_naming_a_free_one(stack: Stack, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="ao-up-", dir="/tmp") as other:
        Path(other).chmod(0o711)
        rival = Stack(Path(other), port=stack.port)
        refused = subprocess.run(
            rival.command(), cwd=ROOT, env=rival.environ(), capture_output=True, text=True, check=False, timeout=60
        )
    assert refused.returncode != 0
    assert f"port {stack.port} is taken: try PORT=" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_idles_in_little_memory(stack: Stack) -> None:
    wait_until(stack.is_ready, "/readyz")
    megabytes = sum(stack.of_everyone(lambda process: process.memory_full_info().pss)) / 1e6
    assert megabytes <= 600


def test_a_killed_supervisor_leaves_nothing(stack: Stack) -> None:
    family = stack.family()
    stack.up.kill()
    stack.up.wait()
    stack.up.stdout.close()
    _, alive = psutil.wait_procs(family, PATIENCE_S)
    assert not alive
    assert stack.start() < 120  # a bound on hanging: how long a start takes is measured elsewhere
    wait_until(stack.is_ready, "/readyz")


def test_killing_everything_at_once_is_no_obstacle(stack: Stack) -> None:
    stack.of_everyone(lambda process: process.kill())
    stack.up.wait()
    stack.up.stdout.close()
    stack.start()
    wait_until(stack.is_ready, "/readyz")


def test_stops_cleanly_and_starts_warm(stack: Stack) -> None:
    family = stack.family()
    assert stack.stop() == 0
    assert not [process for process in family if process.is_running()]
    assert stack.start() < 120  # 5 seconds on a quiet machine
    assert stack.get("/healthz")[0] == 200


def _is_back(stack: Stack, part: str, victim: psutil.Process) -> bool:
    try:
        return stack.part(part).pid != victim.pid
    except (StopIteration, psutil.NoSuchProcess):
        return False
