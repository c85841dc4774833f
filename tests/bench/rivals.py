"""The peers as the benchmark sees them: started once, asked for one run at a time, so that rounds can alternate."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from tests import leftovers
from tests.bench.work import Took

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".venv-bench"
MODULES = {"LangGraph": "graph", "DBOS": "workflow"}


class Peer:
    """One engine in a process of its own; raises EOFError with its last words when it is gone."""

    def __init__(self, environment: Path, module: str, login: dict[str, str], log: Path) -> None:
        argv = [environment / "bin" / "python", "-m", "tests.bench.peers.child", module]
        self._log = log
        with log.open("wb") as errors:
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
            self.process = subprocess.Popen(argv, cwd=ROOT, text=True, preexec_fn=leftovers.tied(), **pipes)
        self.version = str(self._ask(json.dumps(login))["version"])

    def run(self, steps: int) -> Took:
        return Took(**self._ask(str(steps)))

    def _ask(self, line: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise EOFError(self._log.read_text().strip().splitlines()[-1:])
        found: dict[str, Any] = json.loads(answer)
        return found


@contextlib.contextmanager
def running(login: dict[str, str], logs: Path, environment: Path = ENVIRONMENT) -> Iterator[dict[str, Peer]]:
    """Every peer that is installed and starts, by its name, on a database of its own in the same server."""
    found: dict[str, Peer] = {}
    if not (environment / ".peers").exists():
        print("LangGraph and DBOS are left out: `make bench` could not install requirements-bench.lock")
        yield found
        return
    with contextlib.ExitStack() as open_:
        for name, module in MODULES.items():
            database = f"bench_{module}"
            with psycopg.connect(**login, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {database}")  # type: ignore[call-overload]
            try:
                peer = Peer(environment, module, {**login, "dbname": database}, logs / f"{database}.log")
            except EOFError as why:
                print(f"{name} is left out: {why}")
                continue
            open_.callback(peer.process.wait, 30)
            open_.callback(peer.process.terminate)
            found[f"{name} {peer.version}"] = peer
        yield found
