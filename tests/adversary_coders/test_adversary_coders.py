"""A few coders of the table, as ``make adversary-coders`` plays all of them (SPEC L2, X4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adversary_coders.coders import CHEATS, HONEST, PYTHON
from tests.adversary_coders.problems import of_runner
from tests.adversary_coders.school import Case
from tests.adversary_coders.whole import asked_in_vain, opened, wrong

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("L2", "X4")]
CHOSEN = {
    "a module with the name of unittest": "unittest",
    "a hook reports every test as passed": "pytest",
    "the test is skipped by Node": "node",
    "its script succeeds whatever happens": "shell",
    "its end is spelt in pieces": "demo",
    "it speaks in the session of the runner": "unittest",
}
BY_NAME = {coder.name: coder for coder in (*CHEATS, *HONEST)}
CASES = [Case(BY_NAME[name], of_runner(runner)[0]) for name, runner in CHOSEN.items()]


def test_cheats_need_a_person_and_honest_work_does_not(
    tmp_path: Path, transactional_db: None, settings: Any, monkeypatch: Any
) -> None:
    plain = [Case(BY_NAME["plain"], of_runner(runner)[0]) for runner in (*PYTHON, "node")]
    with opened(tmp_path, settings, monkeypatch, is_sealed=True) as school:
        outcomes = list(school.play([*CASES, *plain]))
    assert not wrong(outcomes)
    assert not asked_in_vain(outcomes)
    assert all(one.right is one.case.coder.is_honest for one in outcomes)


def test_they_get_through_where_an_exit_code_is_a_proof(
    tmp_path: Path, transactional_db: None, settings: Any, monkeypatch: Any
) -> None:
    """The control of the cheats themselves."""
    with opened(tmp_path, settings, monkeypatch, is_sealed=False) as school:
        outcomes = list(school.play(CASES))
    assert [one.case.coder.name for one in outcomes if one not in wrong(outcomes)] == []


def test_the_table_is_long_enough() -> None:
    assert len(BY_NAME) == len(CHEATS) + len(HONEST)
    assert len(CHEATS) >= 25
    assert {coder.where for coder in CHEATS} >= {
        "command", "runner", "configuration", "report", "environment", "time", "answer"
    }  # fmt: skip
