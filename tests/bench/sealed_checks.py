"""What a clean checkout adds to the check of a criterion, and what breaking the work once more costs (SPEC L2).

No server is needed: ``python -m tests.bench.sealed_checks``.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import django

from loops.tools.seals import Seal, lay_work
from loops.tools.workspace import CACHES
from tests.bench import report
from tests.unit.tools.harness import reachable
from tests.unit.tools.test_rollback_tools import UndoDesk

SUITE_S, MODULES, TESTS, ROUNDS = 2.0, 300, 40, 5
COMMAND = "python3 -m unittest"
WORK = "def total(numbers):\n    return sum(numbers)\n"
CASES = (
    "import time, unittest\nfrom work import total\n\n\nclass Sums(unittest.TestCase):\n"
    + f"    def setUp(self):\n        time.sleep({SUITE_S / TESTS})\n"
    + "".join(
        f"    def test_{number}(self):\n        self.assertEqual(total([{number}, 1]), {number + 1})\n"
        for number in range(TESTS)
    )
)


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    with tempfile.TemporaryDirectory() as folder:
        _measure(reachable(Path(folder)))
    print(flush=True)


def _measure(folder: Path) -> None:
    desk = UndoDesk(folder)
    for number in range(MODULES):
        (desk.workspace / f"module_{number}.py").write_text(f"VALUE = {number}\n" * 50)
    (desk.workspace / "work.py").write_text(WORK.replace("sum", "max"))
    (desk.workspace / "test_work.py").write_text(CASES)
    start = desk.service.snapshot(desk.context)
    (desk.workspace / "work.py").write_text(WORK)
    desk.context = replace(desk.context, is_criterion=True, criteria=(COMMAND,))
    rounds = [_round(desk, start) for _ in range(ROUNDS)]
    plain, sealed, broken = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(f"a suite of {SUITE_S:g} s in a folder of {MODULES} files: {plain:.2f} s plain, {sealed:.2f} s sealed")
    print(report.at_most("sealed check / plain check", statistics.median(s / p for p, s, _ in rounds), 1.3))
    print(f"once more with the work broken: {broken / plain:.2f} of a plain check more")


def _round(desk: UndoDesk, start: str) -> tuple[float, float, float]:
    """Seconds of a plain check, of one in a checkout, and of one where the work is broken, which has to fail."""
    seal = Seal()

    def sealed() -> bool:
        nonlocal seal
        seal = desk.service.seal(desk.context, start, frozenset())
        return _in_checkout(desk, seal.lay)

    def broken() -> bool:
        files = seal.broken().files
        return _in_checkout(desk, lambda place: lay_work(place, files))

    return _timed(lambda: desk.shell(COMMAND).ok), _timed(sealed), _timed(broken, holds=False)


def _in_checkout(desk: UndoDesk, lay: Callable[[Path], None]) -> bool:
    from loops.workspaces.folder_copy import Copy

    own, place = desk.context, desk.workspace.with_name("checkout")
    place.mkdir()
    try:
        Copy(desk.workspace, place, without=CACHES).run()
        lay(place)
        desk.context = replace(own, workspace=str(place))
        return desk.shell(COMMAND).ok
    finally:
        desk.context = own
        shutil.rmtree(place)


def _timed(work: Callable[[], bool], *, holds: bool = True) -> float:
    began = time.perf_counter()
    assert work() is holds
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
