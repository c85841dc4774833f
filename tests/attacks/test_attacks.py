"""The list of attacks is whole, and every test that it names is there. What it claims is for ``make attacks``."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.attacks.__main__ import Outcomes, file_of, line, verdict
from tests.attacks.table import ATTACKS, Attack, Unreadable, read
from tests.controls.guards import ROOT

pytestmark = pytest.mark.spec("X7")


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: str(attack.number))
def test_the_tests_of_an_attack_are_there(attack: Attack) -> None:
    assert bool(attack.tests) != bool(attack.missing)
    assert [test for test in attack.tests if not (ROOT / "tests" / test).is_file()] == []


def test_each_has_a_number_of_its_own_and_none_is_left_out() -> None:
    assert [attack.number for attack in ATTACKS] == list(range(1, len(ATTACKS) + 1))


def test_a_line_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(Unreadable):
        read("| 1 | an attack | refused | somewhere |")


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"passed": 3}, "held"),
        ({"passed": 2, "failed": 1}, "THROUGH"),
        ({"passed": 2, "error": 1}, "THROUGH"),
        ({"skipped": 1}, "NOT TRIED"),
        ({}, "NOT TRIED"),
    ],
)
def test_only_what_was_tried_and_passed_has_held(counts: dict[str, int], said: str) -> None:
    outcomes = Outcomes()
    outcomes.of["a.py"] = Counter(counts)
    attack = Attack(1, "an attack", ("a.py",), "")
    assert verdict(attack, outcomes) == said
    assert said in line(attack, outcomes)


def test_a_guard_counts_for_the_attacks_whose_files_hold_its_tests() -> None:
    assert file_of("tests/a/b.py::TestC::test_d[x::y]") == "a/b.py"


def test_every_test_that_the_security_page_names_is_there() -> None:
    named = re.findall(r"`([\w/]*test_\w+\.py)`", (ROOT / "SECURITY.md").read_text())
    assert named
    assert [path for path in named if not list((ROOT / "tests").rglob(path.rpartition("/")[2]))] == []
