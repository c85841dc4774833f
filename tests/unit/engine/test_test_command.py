"""Which of the criteria's commands an agent runs that is to run the tests (SPEC I5, L2)."""

from __future__ import annotations

import pytest

from loops.engine.state.spec import test_command as chosen

pytestmark = pytest.mark.spec("I5", "L2")


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        ([], ""),
        (["", " "], ""),
        (["make check"], "make check"),
        (["test -f report.csv"], "test -f report.csv"),
        (["ruff check", "python3 -m unittest"], "python3 -m unittest"),
        (["test -f tests", "npm test", "pytest -q"], "npm test"),
        (["ruff check", "mypy ."], ""),
    ],
)
def test_the_one_that_runs_tests(commands: list[str], found: str) -> None:
    assert chosen(commands) == found
