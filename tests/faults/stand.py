"""The test stand: a Postgres that waits for the disk, a Valkey, both of the suite's own and both easy to hurt."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests import leftovers, prepared

STAND: Stand
ENVIRONMENT = {"DJANGO_SETTINGS_MODULE": "tests.faults.settings", "LOG_LEVEL": "ERROR"}
GENEROUS_S = 30.0
_alone = True


def side_by_side() -> None:
    """Promises share the machine from now on, with each other and with the suite."""
    global _alone
    _alone = False


def is_alone() -> bool:
    """Has what is tried now the machine for itself?"""
    return _alone


def within(seconds: float) -> float:
    """How long something that is promised within ``seconds`` may take here. What is kept side by side is only that
    nothing is lost; the seconds themselves are held to where a promise has the machine for itself."""
    return seconds if _alone else seconds + GENEROUS_S


class Stand:
    """Both servers and the processes that were started beside them."""

    def __init__(self) -> None:
        from django.conf import settings

        self.paths = settings.PATHS
        self.postgres: subprocess.Popen[bytes] | None = None
        self.valkey: subprocess.Popen[bytes] | None = None

    def start_postgres(self) -> None:
        from agentops.embedded import postgres
        from tests.stack import wait_until

        self.postgres = start(postgres.command(self.paths))
        wait_until(lambda: postgres.is_ready(self.paths), "Postgres")

    def start_valkey(self) -> None:
        from agentops.embedded import valkey
        from tests.stack import wait_until

        self.valkey = start(valkey.command(self.paths))
        wait_until(lambda: valkey.is_ready(self.paths), "Valkey")

    def crash_postgres(self) -> None:
        """``pg_ctl stop -m immediate``: every backend is gone at once, nothing is written down. It waits for its dead,
        of one of whom a tracer that lets go may have kept the signal: so it is told once more."""
        assert self.postgres is not None
        self.postgres.send_signal(signal.SIGQUIT)
        while self.postgres.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.postgres.wait(5)
            if self.postgres.poll() is None:
                self.postgres.send_signal(signal.SIGCHLD)
        forget_connections()

    def kill_valkey(self) -> None:
        """``kill -9``, and what it had written down is gone as well."""
        assert self.valkey is not None
        self.valkey.kill()
        self.valkey.wait()
        shutil.rmtree(self.paths.valkey)
        self.paths.valkey.mkdir()

    def stop(self) -> None:
        from agentops.embedded.process import stop

        forget_connections()
        for server, how in ((self.valkey, signal.SIGTERM), (self.postgres, signal.SIGINT)):
            if server is not None:
                server.send_signal(signal.SIGCONT)
                stop(server, how)


@contextlib.contextmanager
def running() -> Iterator[Stand]:
    """Set Django up on new servers, with everything that forked children need already imported."""
    global STAND
    with leftovers.state_folder("ao-faults-") as state:
        os.environ |= {"AGENTOPS_STATE": str(state), **ENVIRONMENT}
        prepared.same_secret(state)
        import django

        django.setup()
        from agentops.embedded import postgres

        STAND = stand = Stand()
        prepared.lay(stand.paths)
        postgres.prepare(stand.paths)
        try:
            stand.start_postgres()
            stand.start_valkey()
            prepare()
            yield stand
        finally:
            stand.stop()


def prepare() -> None:
    """Everything that forked children need, done once."""
    from loops.runs import drive  # noqa: F401 - imported before the forks
    from loops.runs.composition import sandbox_level
    from tests.faults import house

    offer()
    sandbox_level()
    house.project()
    for script in sorted((Path(__file__).parent / "scripts").glob("[a-z]*.py")):
        house.agent(script.stem)


def offer() -> None:
    """The suite's own scripts and tools, in this process."""
    from loops.llm.scripted import scripts
    from loops.runs.composition import tool_registry
    from tests.faults import bank

    scripts.__path__.append(str(Path(__file__).parent / "scripts"))
    bank.install(tool_registry())


def start(command: Any, **environ: str) -> subprocess.Popen[bytes]:
    """Start a command of the embedded stack, its output in the stand's log folder."""
    from django.conf import settings

    from agentops.embedded.process import start as launch

    with (settings.PATHS.logs / f"{command.name}.log").open("ab") as log:
        more = {"PYTHONPATH": str(settings.BASE_DIR), **command.environ, **environ}
        return launch(replace(command, environ=more), log)


def forget_connections() -> None:
    """Let go of connections whose server is gone, or that belong to a parent process: never say goodbye on them."""
    from django.db import connections

    for connection in connections.all(initialized_only=True):
        connection.connection = None
        connection.in_atomic_block = False
        connection.savepoint_ids = []
        connection.needs_rollback = False
        connection.run_on_commit = []
        connection.closed_in_transaction = False


def python(*argv: str, name: str, **environ: str) -> subprocess.Popen[bytes]:
    from agentops.embedded.process import Command

    return start(Command(name, [sys.executable, *argv]), **environ)


def wait_for(condition: Any, patience: float, every: float = 0.01) -> float:
    """Seconds until the condition held; -1 when it never did."""
    began = time.monotonic()
    while time.monotonic() - began < patience:
        if condition():
            return time.monotonic() - began
        time.sleep(every)
    return -1.0


def tail(names: Sequence[str], lines: int = 15) -> str:
    """The last words of processes, for people who read why a fault did harm."""
    from django.conf import settings

    found: Mapping[str, Path] = {name: settings.PATHS.logs / f"{name}.log" for name in names}
    return "\n".join(
        f"--- {name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
        for name, log in found.items()
        if log.exists()
    )
