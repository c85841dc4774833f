"""How well a result is proved is told by every door alike: review, page, terminal, API, record, pull request."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client

from gates.models import Gate
from loops.management.run_follower import RunFollower
from loops.models import ProvenanceRecord
from loops.workspaces import pull_requests
from tests.integration.runs.test_sealed_checks import CHEATS, HONEST, LIB, SUMS, TESTS, without_remarks, writes
from tests.integration.runs.test_trial import Played

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("L2", "X4")]
BY_EXIT_CODE = "grep -q + lib.py"
UNHEARD = (
    f"{LIB.rstrip()} + 0\n\n\nimport unittest\nunittest.case.TestCase._callTestMethod = lambda self, method: None\n"
)
"""Tests that call nothing: they hold whatever the work does."""


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "lib.py").write_text(LIB)
    (tmp_path / "w" / "test_sums.py").write_text(SUMS)
    return Played(get_user_model().objects.create_superuser("ana", password="x"), tmp_path / "w", monkeypatch)


def told(played: Played) -> str:
    """The last words of `agentops submit --watch`."""
    out = io.StringIO()
    RunFollower(played.run, played.boss, out, as_json=False).follow()
    return out.getvalue()


def result(played: Played) -> dict[str, Any]:
    client = Client()
    client.force_login(played.boss)
    answer: dict[str, Any] = client.get(f"/api/v1/runs/{played.run.pk}/result/").json()
    return answer


@pytest.mark.spec("N1", "C6", "X3")
def test_what_is_proved_and_what_a_person_accepted_is_told_by_every_door(played: Played) -> None:
    played.begin(TESTS, BY_EXIT_CODE, calls=[HONEST], review="unless_verified")
    assert played.go() == "gate:final_review"
    gate = Gate.objects.get(run=played.run)
    assert gate.title == "Review result (1 proved, 1 supported)"
    assert gate.reasons == ["not every criterion is proved: 1 supported"]
    assert (gate.risk, gate.recommended) == ("medium", "approve")
    played.decide("approve")
    assert played.go() == "ended"
    words = "1 proved, 1 accepted by ana"
    assert f"<strong>{words}</strong>" in played.page()
    assert f"Criteria: {words}." in told(played)
    report = result(played)["report"]
    assert (report["evidence"], report["levels"]) == ("accepted", {"proved": 1, "accepted": 1})
    assert [check["evidence"] for check in report["checks"]] == ["proved", "supported"]
    body = pull_requests.of(played.run).body
    assert "Criteria: 1 proved, 1 accepted by `ana`." in body
    assert f"- passed, supported: `It holds ({BY_EXIT_CODE})`" in body
    assert "`Its command reports no single tests: only its exit code says that it holds.`" in body
    record = json.loads(bytes(ProvenanceRecord.objects.get(run=played.run).body))
    assert (record["weakest_evidence"], record["levels"]) == ("accepted", {"proved": 1, "accepted": 1})
    assert [(one["level"], bool(one["report"])) for one in record["evidence"]] == [
        ("proved", True),
        ("supported", False),
    ]
    played.is_sound()


@pytest.mark.spec("Q3", "C6")
def test_nothing_is_recommended_where_the_work_makes_no_difference(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_remarks(monkeypatch)
    played.begin(TESTS, calls=[writes("lib.py", UNHEARD)], review="unless_verified")
    assert played.go() == "gate:final_review"
    gate = Gate.objects.get(run=played.run)
    assert (gate.reasons, gate.risk, gate.recommended) == (
        ["not every criterion is proved: 1 contradicted"], "high", "",
    )  # fmt: skip


@pytest.mark.spec("C6", "R1")
@pytest.mark.parametrize("cheat", ["claimed", "contradicted"])
def test_what_nobody_wanted_to_see_is_no_success(played: Played, cheat: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_remarks(monkeypatch)
    calls = [writes("lib.py", UNHEARD)] if cheat == "contradicted" else CHEATS["expected value"]
    played.begin(TESTS, calls=calls, review="never")
    assert played.go() == "ended"
    final = {"claimed": "finished", "contradicted": "contradicted"}[cheat]
    assert (played.run.status, played.run.final_status) == ("completed", final)
    page = played.page()
    assert '<span class="state" data-look="good">' not in page.partition('class="end-card')[0].partition("run-state")[2]
    assert "Finished, not proven" in page
    assert "Every acceptance criterion is met" not in page + told(played)
    assert result(played)["report"]["evidence"] == cheat
    assert f"Criteria: 1 {cheat}." in told(played)
    played.is_sound()


@pytest.mark.spec("C6", "R1")
def test_honest_work_is_a_success_and_looks_it(played: Played) -> None:
    played.begin(TESTS, calls=[HONEST], review="unless_verified")
    assert played.go() == "ended"
    assert played.run.final_status == "success"
    assert '<span class="state" data-look="good">' in played.page()
    assert "Every acceptance criterion is met" in told(played)
    assert "Criteria: 1 proved." in told(played)


@pytest.mark.spec("S1", "N1")
def test_the_description_of_the_api_says_what_the_levels_mean(db: Any, tmp_path: Path) -> None:
    call_command("spectacular", "--format=openapi-json", f"--file={tmp_path / 'schema.json'}")
    shapes = json.loads((tmp_path / "schema.json").read_text())["components"]["schemas"]
    said = next(shape["description"] for shape in shapes.values() if "report.levels" in shape.get("description", ""))
    assert all(level in said for level in ("proved", "accepted", "supported", "claimed", "contradicted"))
