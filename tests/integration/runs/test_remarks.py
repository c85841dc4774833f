"""What a reviewer should know of a result: looked for once, put before a person, and kept (SPEC Q3, L2, N1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from gates.models import Gate
from loops.engine import facts as f
from loops.storage.rebuild import rebuild
from loops.tools import reviewed_files
from tests.integration.runs.test_patch import client_of
from tests.integration.runs.test_trial import TESTS, Played

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("Q3", "L2", "N1")]
LIB = "def add(a, b):\n    return a - b\n"
SUMS = (
    "import unittest\n\nfrom lib import add\n\n\nclass Sums(unittest.TestCase):\n    def test_add(self):\n"
    "        self.assertEqual(add(1, 2), 3)\n"
)
HONEST = ("write_file", {"path": "lib.py", "content": LIB.replace("-", "+")})
CHEAT = ("write_file", {"path": "test_sums.py", "content": SUMS.replace("3)", "-1)")})
TABLE = "def add(a, b):\n" + "".join(f"    if a == {n} and b == 7:\n        return {n + 7}\n" for n in range(4))
UNLESS = "unless_verified"


def sums(place: Path) -> Path:
    """A repository whose test fails."""
    (place / "w").mkdir()
    (place / "w" / "lib.py").write_text(LIB)
    (place / "w" / "test_sums.py").write_text(SUMS)
    return place / "w"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return sums(tmp_path)


@pytest.fixture
def played(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    boss = get_user_model().objects.create_superuser("ana", password="x")
    return Played(boss, folder, monkeypatch)


def gate_of(played: Played) -> Gate:
    return Gate.objects.get(run=played.run, status="open")


def test_honest_work_needs_nobody(played: Played) -> None:
    played.begin(TESTS, calls=[HONEST], review=UNLESS)
    assert played.go() == "ended"
    assert played.run.end_reason == "criteria_met"
    assert [fact.remarks for fact in played.facts if isinstance(fact, f.ChecksCompleted)] == [()]


def test_a_cheat_is_put_before_a_person_although_every_check_passed(played: Played) -> None:
    played.begin(TESTS, calls=[CHEAT], review=UNLESS)
    assert played.go() == "gate:final_review"
    gate = gate_of(played)
    assert (gate.recommended, gate.risk) == ("", "high")
    assert gate.reasons[-1] == "a change could make a check pass without the work"
    (remark,) = gate.view["remarks"]
    assert (remark["code"], remark["level"], remark["path"]) == ("expectation_changed", "suspicious", "test_sums.py")
    page = client_of(played.boss).get(reverse("gate", args=[gate.pk])).content.decode()
    assert page.index("What a reviewer should know") < page.index("What will happen")
    assert "expects -1 where it expected 3" in page
    played.decide("approve")
    assert played.go() == "ended"
    assert played.run.end_reason == "accepted", "a person accepted it; the checks proved nothing"
    (ended,) = [fact for fact in played.facts if isinstance(fact, f.RunEnded)]
    assert (ended.report["remarks"], ended.report["evidence"]) == (gate.view["remarks"], "accepted")
    assert rebuild(played.run.pk).differences == []


def test_where_nobody_is_to_be_asked_the_report_says_it(played: Played) -> None:
    played.begin(TESTS, calls=[CHEAT])
    assert played.go() == "ended"
    (ended,) = [fact for fact in played.facts if isinstance(fact, f.RunEnded)]
    assert [one["code"] for one in ended.report["remarks"]] == ["expectation_changed"]
    assert ended.report["evidence"] == "claimed"


def test_answers_are_compared_with_tests_that_nobody_changed(played: Played, folder: Path) -> None:
    more = "".join(f"        self.assertEqual(add({n}, 7), {n + 7})\n" for n in range(4))
    (folder / "test_sums.py").write_text(SUMS[: SUMS.index("        self.")] + more)
    played.begin(TESTS, calls=[("write_file", {"path": "lib.py", "content": TABLE})], review=UNLESS)
    assert played.go() == "gate:final_review"
    assert [one["code"] for one in gate_of(played).view["remarks"]] == ["known_answers"]
    played.decide("approve")
    assert played.go() == "ended"
    assert played.run.end_reason == "accepted", "what is suspicious is a person's word, whatever the checks prove"


def test_a_result_sent_back_is_looked_at_anew(played: Played) -> None:
    back = ("write_file", {"path": "test_sums.py", "content": SUMS})
    done = ("task_completion", {"result": "Done."})
    played.begin(TESTS, calls=[CHEAT, done, back, HONEST], review=UNLESS)
    assert played.go() == "gate:final_review"
    played.decide("reject", reason="Repair add, and leave the test alone")
    assert played.go() == "ended"
    assert played.run.end_reason == "criteria_met"


def test_where_looking_fails_a_person_looks(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(reviewed_files.review, "remarks", broken)
    played.begin(TESTS, calls=[HONEST], review=UNLESS)
    assert played.go() == "gate:final_review"
    (remark,) = gate_of(played).view["remarks"]
    assert remark["text"] == "The changes could not be looked at: ZeroDivisionError."
