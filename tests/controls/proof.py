"""Run the tests of every guard twice, with it and without it, in one pytest session: servers start once."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from tests.controls import switch
from tests.controls.doors import is_door
from tests.controls.guards import ROOT, Guard
from tests.controls.switch import Stale, off
from tests.stack import PATIENCE_S
from tests.suite import seed

HANGS_AFTER_S = 2 * PATIENCE_S
"""What a test waits for in vain has to end before, and says so: that is no time-out."""
HUNG = "from pytest-timeout"
CRASHES = (TypeError, AttributeError, NameError)
"""A test that ends in one of these has met broken code, and not a guard that is missing."""


@dataclass(frozen=True, slots=True)
class Row:
    """``fault`` is why the guard is not proven to be guarded; empty when a test noticed that it was off."""

    guard: Guard
    caught_by: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    test: str
    error: type[BaseException]
    hung: bool


class Controls:
    """A plugin of pytest, with its own loop over the tests."""

    def __init__(self, guards: Sequence[Guard], tell: Callable[[Row], None]) -> None:
        self.guards, self.tell = guards, tell
        self.rows: list[Row] = []
        self._failed: Failed | None = None
        self._good: set[str] = set()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("a test of the table cannot be collected")
        for guard in self.guards:
            self.rows.append(self._row(guard, session.items))
            self.tell(self.rows[-1])
        return True

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is not None:
            hung = isinstance(call.excinfo.value, pytest.fail.Exception) and HUNG in str(call.excinfo.value)
            self._failed = Failed(item.nodeid, call.excinfo.type, hung)

    def _row(self, guard: Guard, collected: Sequence[pytest.Item]) -> Row:
        tests = [item for item in collected if _is_one_of(item.nodeid, guard.tests)]
        if not any(guard.row in mark.args for item in tests for mark in item.iter_markers("spec")):
            return Row(guard, fault=f"none of its tests is marked {guard.row}")
        if failed := self._run([item for item in tests if item.nodeid not in self._good]):
            return Row(guard, fault=f"{failed.test} does not pass with it on: {failed.error.__name__}")
        self._good.update(item.nodeid for item in tests)
        try:
            with off(guard):
                failed = self._run(tests)
        except Stale as stale:
            return Row(guard, fault=str(stale))
        if failed is None:
            return Row(guard, fault="nothing fails with it off")
        if failed.hung:  # so would a machine that is too busy
            return Row(guard, fault=f"{failed.test} hangs with it off, and a time-out proves nothing")
        if issubclass(failed.error, CRASHES):
            return Row(guard, fault=f"switching it off breaks the code: {failed.error.__name__} in {failed.test}")
        if switch.asked and not is_door(guard):
            return Row(guard, fault=f"{switch.asked[0]} asks the very function that is off")
        return Row(guard, caught_by=failed.test)

    def _run(self, tests: Sequence[pytest.Item]) -> Failed | None:
        """The first that does not pass; a skipped one is one of them."""
        self._failed = None
        for item in tests:
            # The session as the next item: what the session holds stays, everything else is taken down.
            item.ihook.pytest_runtest_protocol(item=item, nextitem=item.session)
            if self._failed:
                return self._failed
        return None


def prove(guards: Sequence[Guard], tell: Callable[[Row], None]) -> list[Row]:
    """One row for each guard. Raises RuntimeError, with what pytest says, when the tests cannot be run."""
    tests = sorted({test for guard in guards for test in guard.tests})
    controls, said = Controls(guards, tell), io.StringIO()
    arguments = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-q", f"--timeout={HANGS_AFTER_S:.0f}"]
    arguments += [
        f"--randomly-seed={seed()}",
        "--randomly-dont-reorganize",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:unraisableexception",
        *(str(ROOT / test) for test in tests),
    ]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = pytest.main(arguments, plugins=[controls])
    if len(controls.rows) < len(guards):
        raise RuntimeError(f"pytest ended with {code}:\n{said.getvalue()}")
    return controls.rows


def _is_one_of(node: str, tests: Sequence[str]) -> bool:
    """A test may stand for all its parameters, a class for all its tests."""
    return any(node == test or node.startswith((f"{test}::", f"{test}[")) for test in tests)
