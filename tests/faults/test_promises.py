"""The short form of ``make faults``: every promise under a few real faults, each on a stand of its own processes.

The promises mostly wait for leases, sweeps and restarts, so groups of them run side by side.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import leftovers
from tests.faults.__main__ import SUITE

GROUPS = (
    ("P1", "P2", "P3", "P13", "P22"),
    ("P8", "P9", "P12", "P16"),
    ("P4", "P5", "P19", "P23"),
    ("P6", "P7", "P20", "P21"),
)
SPEC = {
    "P1": ["A4", "J4"],
    "P2": ["J2"],
    "P3": ["J2"],
    "P4": ["J3"],
    "P5": ["J2", "J3"],
    "P6": ["J4"],
    "P7": ["J4"],
    "P8": ["J3"],
    "P9": ["J6"],
    "P12": ["J5"],
    "P13": ["O2"],
    "P16": ["K1", "I8"],
    "P19": ["J3"],
    "P20": ["J4"],
    "P21": ["J4"],
    "P22": ["J4"],
    "P23": ["J4"],
}
PATIENCE_S = 280.0


class Side:
    """One group under way."""

    def __init__(self, folder: Path, promises: list[str]) -> None:
        self.outcomes, self.log = folder / f"{promises[0]}.jsonl", folder / f"{promises[0]}.log"
        argv = [sys.executable, "-m", "tests.faults", "--short", "--outcomes", str(self.outcomes), *promises]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                argv, stdout=log, stderr=subprocess.STDOUT, env=_environment(), preexec_fn=leftovers.tied()
            )

    def outcome(self, promise: str) -> dict[str, Any] | None:
        lines = self.outcomes.read_text().splitlines() if self.outcomes.exists() else []
        return next((found for found in map(json.loads, lines) if promise in found["promise"].split()), None)


def _environment() -> dict[str, str]:
    """Without the variables of the suite around it: a stand has a state folder and servers of its own."""
    foreign = ("AGENTOPS_", "DJANGO_", "DATABASE_", "REDIS_", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**kept, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}


@pytest.fixture(scope="session")
def sides(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Side]]:
    """Only what is asked for runs."""
    here = [item for item in request.session.items if item.path == Path(__file__) and hasattr(item, "callspec")]
    if "PYTEST_XDIST_WORKER" in os.environ:
        assert all(item.nodeid.endswith("@faults") for item in here), "every process would start all groups"
    asked = {item.callspec.params["promise"] for item in here}
    folder = tmp_path_factory.mktemp("faults")
    found: dict[str, Side] = {}
    for group in GROUPS:
        if promises := [promise for promise in group if promise in asked]:
            found |= dict.fromkeys(promises, Side(folder, promises))
    yield found
    for side in found.values():
        side.process.terminate()
        side.process.wait()


@pytest.mark.xdist_group("faults")  # one process of the suite starts the groups, once
@pytest.mark.timeout(PATIENCE_S + 20)
@pytest.mark.parametrize(
    "promise", [pytest.param(promise, marks=pytest.mark.spec(*rows)) for promise, rows in SPEC.items()]
)
def test_promise_holds_under_faults_and_fails_without_its_guard(promise: str, sides: dict[str, Side]) -> None:
    side, deadline = sides[promise], time.monotonic() + PATIENCE_S
    while (outcome := side.outcome(promise)) is None and time.monotonic() < deadline:
        assert side.process.poll() is None or side.outcome(promise), side.log.read_text()[-3000:]
        time.sleep(0.1)
    assert outcome is not None, side.log.read_text()[-3000:]
    assert outcome["faults"] > 0, outcome["told"]
    assert not outcome["harm"], outcome["told"]
    assert outcome["control"], f"the test proves nothing: with its guard off it did not fail\n{outcome['told']}"


def test_every_promise_of_the_suite_is_in_the_short_form() -> None:
    assert {promise for names in SUITE for promise in names.split()} == set(SPEC)
    assert sorted(promise for group in GROUPS for promise in group) == sorted(SPEC)
