"""``make attacks``: try every attack of ``attacks.md``. ``python -m tests.attacks 19 33`` for some of them."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence

import pytest

from tests.attacks.table import ATTACKS, Attack
from tests.controls.guards import GUARDS, ROOT


class Outcomes:
    """Counts how the tests of each file ended."""

    def __init__(self) -> None:
        self.of = defaultdict[str, Counter[str]](Counter)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.of[file_of(report.nodeid)][report.outcome] += 1


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make attacks", description="Try every attack: nothing may get through.")
    parser.add_argument("numbers", nargs="*", type=int, help="only these")
    asked = parser.parse_args(argv)
    chosen = [attack for attack in ATTACKS if not asked.numbers or attack.number in asked.numbers]
    tests = sorted({test for attack in chosen for test in attack.tests})
    os.chdir(ROOT)
    os.environ.setdefault("RACES", "2000")
    began, outcomes = time.monotonic(), Outcomes()
    with tempfile.TemporaryDirectory() as folder:
        # Folders of its own: another pytest of this user closes those of all to other users when it begins.
        told = ("-q", "-p", "no:randomly", "--tb=short", f"--basetemp={folder}/t")
        code = pytest.main([*told, *(f"tests/{test}" for test in tests)], [outcomes])
    print()
    for attack in chosen:
        print(line(attack, outcomes))
    missing = [attack for attack in chosen if attack.missing]
    through = [attack for attack in chosen if attack.tests and verdict(attack, outcomes) != "held"]
    print(
        f"\n{len(chosen) - len(missing)} attacks tried in {sum(outcomes.of[test].total() for test in tests):,} cases: "
        f"{len(through)} through, {len(missing)} not built yet ({time.monotonic() - began:.0f} s)"
    )
    return int(code) or bool(through)


def verdict(attack: Attack, outcomes: Outcomes) -> str:
    """How the tests of an attack ended: "held", "THROUGH", or "NOT TRIED" where one of them did not run."""
    ended = [outcomes.of[test] for test in attack.tests]
    if any(set(count) - {"passed", "skipped"} for count in ended):
        return "THROUGH"
    return "held" if all(count["passed"] for count in ended) else "NOT TRIED"


def line(attack: Attack, outcomes: Outcomes) -> str:
    """One row of the report."""
    if attack.missing:
        return f"{attack.number:>3}  {attack.what[:76]:<76}  not built: {attack.missing}"
    cases = sum(outcomes.of[test].total() for test in attack.tests)
    controls = sum(any(file_of(test) in attack.tests for test in guard.tests) for guard in GUARDS)
    held = verdict(attack, outcomes)
    return f"{attack.number:>3}  {attack.what[:76]:<76}  {held:<9} {cases:>5} cases {controls:>3} controls"


def file_of(test: str) -> str:
    """The file of a test, below ``tests``."""
    return test.removeprefix("tests/").partition("::")[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
