"""The whole suite, in an order that belongs to the commit: ``python -m tests.suite [arguments of pytest]`` (ADR 0057).

Up to MOST tests that failed are tried again, each twice, alone, in a process of its own. What passes both times depends
on what ran beside it: it is printed as FLAKY, to be repaired, and does not hold up what has nothing to do with it.
Loaded as a plugin of pytest, this module writes down what failed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.report import kind_of

MOST = 3
TRIES = 2
SLOWEST = 30  # are named at the end
# Pure code has no excuse, and a promise that holds most of the time is none.
NEVER = {"unit", "contracts", "architecture", "controls", "attacks", "faults", "security"}
PROMISES = "J"  # rows of the specification: durability
# Tests wait for other processes for two fifths of their time: twice as many as cores, and memory for eight.
PROCESSES = min(8, 2 * (os.cpu_count() or 1))
DEALT = ("-n", str(PROCESSES), "--dist", "loadgroup", "--no-loadscope-reorder")
"""In order, so that tests with a browser stay the last of each process, whose servers are its own."""
COMPILED = "AGENTOPS_TEST_COMPILED"
"""The variable that names the file by which the first process says that it has collected the tests."""
FIRST_WORKER = "gw0"
LONGEST_COMPILING_S = 120
_GROUP = re.compile(r"@[^@\]]+$")  # what xdist adds to the name of a test


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare where to write what failed."""
    parser.addoption("--failures-to", metavar="FILE", help="write the tests that failed to this file, as JSON")


def pytest_itemcollected(item: Any) -> None:
    """Deal the tests that share what is built for a module, or for a class, to one process of xdist: it is built once.

    Not those with a browser: they come last of all, not with the others of their module.
    """
    if "playwright" in item.fixturenames or item.get_closest_marker("xdist_group"):
        return
    fixtures = [found[-1] for found in item._fixtureinfo.name2fixturedefs.values()]
    if any(fixture.baseid and fixture.scope in {"module", "class"} for fixture in fixtures):
        item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Let one process of xdist compile the tests, half of the work of collecting them: the others read that."""
    worker = getattr(session.config, "workerinput", {})
    compiled = Path(os.environ[COMPILED]) if worker and COMPILED in os.environ else None
    if compiled and worker["workerid"] != FIRST_WORKER:
        deadline = time.monotonic() + LONGEST_COMPILING_S
        while not compiled.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
    try:
        return (yield)
    finally:
        if compiled:
            compiled.touch()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let reports carry the rows that their test proves, from the processes of xdist too."""
    for item in items:
        rows = [row for mark in item.iter_markers("spec") for row in mark.args]
        item.user_properties.append(("spec", " ".join(rows)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Write down what failed."""
    if path := terminalreporter.config.getoption("--failures-to"):
        stats = terminalreporter.stats
        rows = [_failure(report) for report in [*stats.get("failed", []), *stats.get("error", [])]]
        Path(path).write_text(json.dumps(rows))


def _failure(report: Any) -> dict[str, str]:
    crash = getattr(report.longrepr, "reprcrash", None)
    words = (crash.message if crash else str(report.longrepr)).strip().splitlines() or ["no words"]
    return {"name": _GROUP.sub("", report.nodeid), "words": words[0][:200], "final": _final(report)}


def _final(report: Any) -> str:
    """Why this failure is not tried again, or "" when it may be."""
    if isinstance(report, pytest.CollectReport):
        return "it could not be collected"
    if report.when not in {"setup", "call", "teardown"}:
        return "the process that ran it died"
    if (kind := kind_of(report.nodeid)) in NEVER:
        return f"tests of {kind} have to pass at once"
    rows = dict(report.user_properties).get("spec", "").split()
    return "it proves a promise" if any(row.startswith(PROMISES) for row in rows) else ""


def second_try(failures: list[dict[str, str]], seed: int) -> int:
    """0 when everything that failed passes alone, TRIES times."""
    names = list(dict.fromkeys(one["name"] for one in failures))
    final = {one["name"]: one["final"] for one in failures if one["final"]}
    for name, why in final.items():
        print(f"not tried again: {name}: {why}", flush=True)
    if final or not 0 < len(names) <= MOST:
        return 1
    for name in names:
        for number in range(TRIES):
            print(f"\ntry {number + 1} of {TRIES}, alone: {name}", flush=True)
            if _pytest("-q", f"--randomly-seed={seed}", name):
                return 1
    for one in {one["name"]: one for one in failures}.values():
        print(f"FLAKY {one['name']}: {one['words']}", flush=True)
    return 0


def seed_of_commit() -> int:
    """The same order for everybody who tests this commit, and another for the next; 0 outside of a checkout."""
    found = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=False)
    return int(found.stdout, 16) if found.returncode == 0 else 0


def seed() -> int:
    """What chance begins with: of the commit, unless somebody repeats another run (``SEED``)."""
    return int(os.environ.get("SEED") or seed_of_commit())


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def main(arguments: list[str]) -> int:
    """Run the suite; the exit code of pytest, or of the second try."""
    begins = seed()
    with tempfile.TemporaryDirectory() as folder:
        failures = Path(folder) / "failures"
        os.environ[COMPILED] = f"{folder}/compiled"
        # Folders of its own: pytest clears away what others left, and takes a suite whose clock differs for dead.
        own = ("-p", "tests.suite", f"--failures-to={failures}", f"--basetemp={folder}/t", f"--randomly-seed={begins}")
        code = _pytest(*own, *DEALT, f"--durations={SLOWEST}", *arguments)
        again = second_try(json.loads(failures.read_text()), begins) if code == 1 else code
    print(f"the order of this run: SEED={begins}", flush=True)
    return again


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
