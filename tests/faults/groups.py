"""The short form beside the rest of the suite: begun with it and read at its end, in groups side by side, for promises
mostly wait for leases, sweeps and restarts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from tests import leftovers

GROUPS = (
    ("P1", "P2", "P3", "P13", "P22"),
    ("P24",),
    ("P8", "P9", "P12", "P16"),
    ("P4", "P5", "P19", "P23"),
    ("P6", "P7", "P20", "P21"),
)
TEST = "tests/faults/test_promises.py::test_promise_holds_under_faults_and_fails_without_its_guard"
FOLDER = "AGENTOPS_TEST_FAULTS"
"""The variable that tells every process of the suite where outcomes are written."""
_begun: list[subprocess.Popen[bytes]] = []


def begin(ids: Iterable[str]) -> None:
    """Start the groups of the promises that these tests ask for, unless they are under way."""
    asked = {name.partition("[")[2].partition("]")[0] for name in ids if name.startswith(f"{TEST}[")}
    if asked and not _begun:
        for group in GROUPS:
            if promises := [promise for promise in group if promise in asked]:
                _begun.append(_start(promises))


def prepare() -> None:
    """Make the folder of outcomes, before other processes of the suite are started."""
    os.environ[FOLDER] = tempfile.mkdtemp(prefix="ao-outcomes-")


def end() -> None:
    """Stop what still runs."""
    for process in _begun:
        process.terminate()
    for process in _begun:
        process.wait()
    shutil.rmtree(os.environ[FOLDER], ignore_errors=True)


def outcome(promise: str) -> dict[str, Any] | None:
    """What was found about it, None while its group is at it."""
    outcomes = _file(promise, "outcomes")
    lines = outcomes.read_text().splitlines() if outcomes.exists() else []
    return next((found for found in map(json.loads, lines) if promise in found["promise"].split()), None)


def log(promise: str) -> str:
    """The last words of its group."""
    return _file(promise, "log").read_text()[-3000:]


def is_over(promise: str) -> bool:
    """Whether its group has ended, well or not."""
    pid = int(_file(promise, "pid").read_text())
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def _file(promise: str, what: str) -> Path:
    group = next(group for group in GROUPS if promise in group)
    return Path(os.environ[FOLDER]) / f"{group[0]}.{what}"


def _start(promises: list[str]) -> subprocess.Popen[bytes]:
    outcomes = _file(promises[0], "outcomes")
    argv = [sys.executable, "-m", "tests.faults", "--short", "--outcomes", str(outcomes), *promises]
    with _file(promises[0], "log").open("wb") as log:
        started = subprocess.Popen(
            argv, stdout=log, stderr=subprocess.STDOUT, env=_environment(), preexec_fn=leftovers.tied()
        )
    _file(promises[0], "pid").write_text(str(started.pid))
    return started


def _environment() -> dict[str, str]:
    """Without the variables of the suite around it: a stand has a state folder and servers of its own."""
    foreign = ("AGENTOPS_", "DJANGO_", "DATABASE_", "REDIS_", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**kept, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
