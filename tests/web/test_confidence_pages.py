"""Confidence and denied calls as people see them: the curve of a run, its notes, its button, and the two cards."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from gates.models import Decision, Gate
from gates.services.disclosure import whole_proof
from loops.engine import facts as f
from loops.engine.confidence import score as confidence_score
from loops.engine.state.measures import REPORTED
from loops.models import MailboxItem, Run
from loops.services.progress import POINTS
from loops.web.progress_chart import curve_of
from tests import factories as make
from tests.integration.gates.builders import World, make_world, open_gate, tool_view
from tests.web.conftest import House

pytestmark = pytest.mark.django_db


NUMBERS = re.compile(r"\b0\.25\b|\b25 ?%")
FOLDS = re.compile(r"<details.*?</details>", re.DOTALL)


def without_folds(page: str) -> str:
    """What is read without opening anything; drawings speak in coordinates."""
    return FOLDS.sub("", re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL))


def checked(step: int, score: float, **more: Any) -> f.ConfidenceChecked:
    found = {"no_progress": 0.5, "same_error": 1.0}
    common: dict[str, Any] = {
        "trigger": "every_steps",
        "ceiling": confidence_score.ceiling_of(found, confidence_score.WEIGHTS),
        "threshold": 0.5,
        "method": "model",
        "reason": "it reads and reads",
        "features": found,
        "weights": dict(confidence_score.WEIGHTS),
    }
    return f.ConfidenceChecked(step=step, score=score, **{**common, **more})


def judged(run: Run) -> Run:
    for number, share in enumerate((0.0, 0.2, 0.5), 1):
        validation = {"progress": share, "method": "tests", "detail": f"{number} of 6 tests pass (junit)"}
        make.step(run, number, progress=share, validation=validation)
    make.fact(run, checked(2, 0.8), step=2)
    make.fact(run, checked(3, 0.3, raw_score=0.9, problem="late"), step=3)
    Run.objects.filter(pk=run.pk).update(progress=0.5)
    run.refresh_from_db()
    return run


# --- the page of a run ------------------------------------------------------------------------------------------------


@pytest.mark.spec("G1", "G2", "R4")
def test_the_curve_says_progress_with_its_method_and_every_judgement(house: House) -> None:
    run = judged(house.run)
    page = house.client("viewer").get(f"/runs/{run.pk}/curve/").content.decode()
    assert "50 % by tests: 3 of 6 tests pass (junit)" in page
    assert "confidence low (uncalibrated), judged by a model at step 3" in page
    assert page.count('class="point"') == 2
    assert page.count('data-look="bad"') == 1
    assert "it reads and reads" in page


@pytest.mark.spec("G1", "R4")
def test_the_curve_says_that_a_command_counted_the_tests(house: House) -> None:
    validation = {"progress": 0.9, "method": REPORTED, "detail": "9 of 9 tests pass (text)"}
    make.step(house.run, 1, progress=0.9, validation=validation)
    Run.objects.filter(pk=house.run.pk).update(progress=0.9)
    page = house.client("viewer").get(f"/runs/{house.run.pk}/curve/").content.decode()
    assert "90 % by tests that a command reported: 9 of 9 tests pass (text)" in page


@pytest.mark.spec("S4")
@pytest.mark.parametrize(("who", "status"), [("anonymous", 302), ("outsider", 404), ("viewer", 200)])
def test_the_curve_is_for_people_of_the_project(house: House, who: str, status: int) -> None:
    assert house.client(who).get(f"/runs/{house.run.pk}/curve/").status_code == status


def test_a_run_that_has_done_nothing_has_no_curve(house: House) -> None:
    page = house.client("viewer").get(f"/runs/{house.run.pk}/curve/").content.decode()
    assert "<svg" not in page
    assert 'id="curve"' in page


@pytest.mark.spec("R3")
def test_a_long_run_is_drawn_in_samples(house: House, django_assert_max_num_queries: Any) -> None:
    from datetime import UTC, datetime

    from loops.models import Step

    now = datetime.now(UTC)
    Step.objects.bulk_create(
        Step(execution=house.run, step_number=number, timestamp=now, success=True, progress=number / 3000)
        for number in range(1, 3001)
    )
    house.run.total_steps = 3000
    with django_assert_max_num_queries(2):
        drawn = curve_of(house.run)
    assert drawn.progress.count("L") <= 2 * POINTS
    assert (drawn.every, drawn.older) == (15, False)
    assert drawn.progress.endswith(f"L{drawn.progress.rsplit('L', 1)[-1]}")


def test_hostile_words_are_shown_and_not_run(house: House) -> None:
    make.step(house.run, 1)
    make.fact(house.run, checked(1, 0.2, reason="<script>alert(1)</script>"), step=1)
    page = house.client("viewer").get(f"/runs/{house.run.pk}/curve/").content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.spec("G2", "I4", "R1")
def test_the_trace_tells_judgements_and_denials(house: House) -> None:
    run = judged(house.run)
    common: dict[str, Any] = {"call_id": "c1.0", "tool": "delete_file", "operation": "delete"}
    told = f.PermissionDenied(**common, times=1, rung="alternatives", alternatives=("move_file (allowed)",))
    sought = f.PermissionDenied(**common, times=2, rung="specialist", specialist="Cleaner (janitor)", looked_at=3)
    for fact in (told, sought):
        make.fact(run, fact, step=3)
    page = house.client("viewer").get(f"/runs/{run.pk}/").content.decode()
    assert "Confidence low (uncalibrated), judged by a model" in page
    assert "The model rated it higher; the measured score caps it: the same error came again" in page
    assert "0.30" not in without_folds(page)
    assert "move_file (allowed)" in page
    assert "Cleaner (janitor) may do it" in page


@pytest.mark.spec("G2", "K1")
def test_an_operator_asks_for_a_check_by_a_button(house: House) -> None:
    client = house.client("operator")
    assert "Check confidence" in client.get(f"/runs/{house.run.pk}/").content.decode()
    client.post(f"/runs/{house.run.pk}/steer/", {"action": "check_confidence"})
    assert MailboxItem.objects.get(run=house.run).kind == "check_confidence"
    assert "Check confidence" not in house.client("viewer").get(f"/runs/{house.run.pk}/").content.decode()


@pytest.mark.spec("G2", "T2")
def test_the_api_asks_for_a_check(house: House) -> None:
    response = house.client("operator").post(
        f"/api/v1/runs/{house.run.pk}/steer/", {"action": "check_confidence"}, content_type="application/json"
    )
    assert response.status_code in (200, 201, 202), response.content
    assert MailboxItem.objects.get(run=house.run).kind == "check_confidence"


# --- the cards --------------------------------------------------------------------------------------------------------

LOW = {
    "score": 0.25,
    "threshold": 0.5,
    "why": "it <b>reads</b> and reads",
    "method": "model",
    "features": {"no_progress": 0.5, "same_error": 1.0},
    "weights": dict(confidence_score.WEIGHTS),
    "version": "1",
    "latest_steps": [{"step": 4, "tools": ["read_file"], "success": False, "error": "no file", "progress": 0.1}],
    "reasoning": "I am not sure.",
}
BLOCKED = tool_view() | {"alternatives": ["move_file (allowed)"], "specialist": "Cleaner (janitor)"}


@pytest.fixture
def world(db: Any) -> World:
    return make_world()


def browser(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def decide(world: World, gate: Gate, verdict: str, **fields: Any) -> Any:
    data = {"verdict": verdict, "digest": gate.digest, "shown": whole_proof(world.reviewer, gate), **fields}
    return browser(world.reviewer).post(f"/review/{gate.pk}/decide/", data)


@pytest.mark.spec("G2", "Q3")
def test_the_card_of_a_low_confidence_shows_what_it_comes_from(world: World) -> None:
    gate = open_gate(world, "low_confidence", view=LOW)
    page = browser(world.reviewer).get(f"/review/{gate.pk}/").content.decode()
    for part in (
        "Confidence low",
        "uncalibrated: a signal to review, not a probability",
        "The same error came again",
        "0.25, a person is asked below 0.50",
        "Same error",
        "0.250",
        "Step 4",
        "no file",
        "Continue the run",
        "Guidance",
    ):
        assert part in page
    assert "it &lt;b&gt;reads" in page
    assert not NUMBERS.search(without_folds(page)), "the score stands in the fold that explains it, and nowhere else"
    assert ">weights<" not in page, "said in the table, not once more as JSON"


@pytest.mark.spec("G2", "Q1")
def test_the_queue_says_confidence_in_words(world: World) -> None:
    open_gate(world, "low_confidence", view=LOW, confidence=0.25)
    open_gate(world, "tool_approval", view=tool_view(), confidence=0.25)
    page = browser(world.reviewer).get("/review/").content.decode()
    assert page.count("Low confidence, uncalibrated") >= 2
    assert not NUMBERS.search(without_folds(page))


@pytest.mark.spec("G2", "T1")
def test_programs_get_the_number_with_what_it_is_worth(world: World, house: House) -> None:
    gate = open_gate(world, "low_confidence", view=LOW, confidence=0.25)
    for address in (f"/api/v1/gates/{gate.pk}/", "/api/v1/gates/"):
        answer = browser(world.reviewer).get(address).json()
        one = answer["results"][0] if "results" in answer else answer
        assert (one["confidence"], one["confidence_band"], one["confidence_calibrated"]) == (0.25, "low", False)
    found = house.client("viewer").get(f"/api/v1/runs/{judged(house.run).pk}/curve/").json()["confidence"]
    assert [(one["score"], one["band"], one["calibrated"]) for one in found] == [
        (0.8, "high", False),
        (0.3, "low", False),
    ]


@pytest.mark.spec("S1", "G2")
def test_the_threshold_says_that_it_is_no_probability(house: House) -> None:
    page = house.client("admin").get(f"/admin/loops/policy/{house.project.policy.pk}/change/").content.decode()
    assert "is not calibrated" in page


@pytest.mark.spec("I4", "Q3")
def test_the_card_of_a_blocked_permission_shows_the_ways_out(world: World) -> None:
    gate = open_gate(world, "permission_blocked", view=BLOCKED)
    page = browser(world.reviewer).get(f"/review/{gate.pk}/").content.decode()
    for part in ("move_file (allowed)", "Cleaner (janitor)", "Allow once", "Guidance"):
        assert part in page


@pytest.mark.spec("Q4")
@pytest.mark.parametrize("kind", ["low_confidence", "permission_blocked"])
@pytest.mark.parametrize(
    ("verdict", "fields", "status"),
    [
        ("approve", {}, "approved"),
        ("respond", {"answer": "Look elsewhere."}, "answered"),
        ("respond", {"answer": "  "}, "open"),
        ("reject", {"reason": "no"}, "rejected"),
        ("reject", {"reason": ""}, "open"),
        ("approve_with_edits", {}, "open"),
        ("extend", {"extend": "5"}, "open"),
    ],
)
def test_each_verdict_does_what_it_says_or_nothing(
    world: World, kind: str, verdict: str, fields: dict[str, str], status: str
) -> None:
    gate = open_gate(world, kind, view=LOW if kind == "low_confidence" else BLOCKED)
    decide(world, gate, verdict, **fields)
    gate.refresh_from_db()
    assert gate.status == status
    assert Decision.objects.filter(gate=gate).count() == (status != "open")
