"""A list that is cut says how many more there are, and where they stand (SPEC X5)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from gates.web import queue
from loops.engine import facts as f
from loops.ids import new_id
from loops.models import Breaker, BreakerEvent, Detection, Project, Run
from loops.services import breakers as breaker_service
from loops.services.progress import POINTS
from loops.storage import reader
from loops.web import breakers, comparison, loop_detection, overview, system
from tests import factories as make
from tests.integration.bounds.pages import page_of
from tests.integration.gates.builders import make_world, open_gate

pytestmark = [pytest.mark.django_db, pytest.mark.spec("X5")]


def paused(project: Project, count: int) -> None:
    task, now = make.task(project, title="Held"), datetime.now(UTC)
    for number in range(count):
        make.run(task, status="paused", paused_by="monitor", paused_reason=f"stall {number}", paused_at=now)


def test_review_says_how_many_more_runs_are_paused(root: Client, project: Project) -> None:
    paused(project, queue.HELD)
    assert "more are paused" not in page_of(root, "review")
    paused(project, 3)
    page = page_of(root, "review")
    assert f"{queue.HELD + 3} paused by AgentOps" in page
    assert f"{queue.HELD + 3} waiting for you" in page, "the badge counts what it counts everywhere"
    assert "3 more are paused by AgentOps" in page
    assert reverse("runs") + "?state=held" in root.get(reverse("review")).content.decode()


def test_overview_counts_every_paused_run(root: Client, project: Project) -> None:
    paused(project, overview.HELD)
    assert "more are paused" not in page_of(root, "overview")
    paused(project, 3)
    page = page_of(root, "overview")
    assert f"Needs you {overview.HELD + 3}" in page
    assert "3 more are paused by AgentOps" in page


def test_the_list_of_runs_has_those_that_the_monitor_paused(root: Client, project: Project) -> None:
    paused(project, 2)
    make.run(make.task(project, title="By a person"), status="paused", paused_by="ada")
    page = page_of(root, "runs", state="held")
    assert page.count("Held") == 2
    assert "By a person" not in page


def events(count: int, name: str = "fetch_url") -> None:
    for number in range(count):
        BreakerEvent.objects.create(
            id=new_id(), at=datetime.now(UTC), kind="tool", name=name, what="opened", why=f"reason {number:03}."
        )


def test_older_events_of_breakers_are_counted_and_reached(root: Client) -> None:
    events(breakers.SHOWN)
    assert "Older" not in page_of(root, "breakers")
    events(2, "other_tool")
    page = page_of(root, "breakers")
    assert f"the latest {breakers.SHOWN} of {breakers.SHOWN + 2}" in page
    assert "reason 001." in page
    last = list(BreakerEvent.objects.all()[: breakers.SHOWN])[-1]
    older = page_of(root, "breakers", before=str(last.pk))
    assert "reason 000." in older
    assert "other_tool" not in older
    assert "Older" not in older
    assert "Latest" in older
    assert "reason 000." in page_of(root, "breakers-live", before=str(last.pk))
    assert page_of(root, "breakers", before="nonsense") == page


def test_the_api_says_how_many_events_a_breaker_has(root: Client) -> None:
    now = datetime.now(UTC)
    one = Breaker.objects.create(kind="tool", name="fetch_url", status="open", opened_at=now, changed_at=now)
    events(breaker_service.SHOWN + 4)
    events(1, "other_tool")
    found = root.get(f"/api/v1/breakers/{one.pk}/").json()
    assert (len(found["events"]), found["events_total"]) == (breaker_service.SHOWN, breaker_service.SHOWN + 4)


def detect(run: Run, number: int) -> None:
    Detection.objects.create(
        run=run, kind="stall", method=f"m{number}", evidence=f"evidence {number}.", seq=run.head_seq
    )


def test_more_findings_of_the_monitor_are_counted(root: Client, project: Project) -> None:
    run = make.run(make.task(project), status="thinking")
    run.refresh_from_db()
    for number in range(loop_detection.MOST):
        detect(run, number)
    for name, args in (("run-detections", [run.pk]), ("system-live", [])):
        assert "not shown" not in page_of(root, name, *args)
    detect(run, 90)
    detect(run, 91)
    for name, args in (("run-detections", [run.pk]), ("system-live", [])):
        assert "2 more findings are not shown here" in page_of(root, name, *args)


def test_runs_that_were_given_up_are_all_counted(root: Client, project: Project) -> None:
    task = make.task(project)
    for _ in range(system.DEAD_LETTERS + 2):
        make.run(task, status="failed", end_reason="internal_error", completed_at=datetime.now(UTC))
    assert "2 more were given up" in page_of(root, "system")


@pytest.fixture
def pair(project: Project, monkeypatch: pytest.MonkeyPatch) -> tuple[Run, Run, dict[Any, str]]:
    one, other = (make.run(make.task(project), status="completed", completed_at=datetime.now(UTC)) for _ in range(2))
    results: dict[Any, str] = {}
    monkeypatch.setattr(reader, "report", lambda run_id: {"result": results[run_id]})
    return one, other, results


def test_results_that_were_compared_in_part_say_so(root: Client, pair: tuple[Run, Run, dict[Any, str]]) -> None:
    one, other, results = pair
    long = "same line\n" * (comparison.LONGEST_RESULT // 10)
    results |= {one.pk: f"{long}A", other.pk: f"{long}BB"}
    page = page_of(root, "run-compare", one.pk, other.pk)
    assert "Only the first 20,000 characters of each are compared: A has 20,001, B has 20,002." in page
    assert "word by word" not in page
    assert "The compared part is identical; the rest differs." in page
    results |= {one.pk: f"{long}A", other.pk: f"{long}A"}
    page = page_of(root, "run-compare", one.pk, other.pk)
    assert "Both results are identical" in page
    assert "Only the first" not in page
    results |= {one.pk: f"X{long}", other.pk: f"Y{long}"}
    page = page_of(root, "run-compare", one.pk, other.pk)
    assert "Only the first 20,000 characters of each" in page
    assert "they are the same" not in page


def test_a_drawing_of_a_long_run_says_what_it_leaves_out(root: Client, project: Project) -> None:
    run = make.run(make.task(project), status="thinking", total_steps=2 * POINTS)
    for number in range(1, 2 * POINTS + 1):
        make.step(run, number, success=True)
    judged = f.ConfidenceChecked(
        step=1, score=0.5, threshold=0.3, method="measured", trigger="every_steps", ceiling=1.0, reason="r"
    )
    for _ in range(POINTS):
        make.fact(run, judged, step=1)
    page = page_of(root, "run-curve", run.pk)
    assert "to step 400, one step in 2" in page
    assert "All confidence checks" in page
    make.fact(run, judged, step=1)
    page = page_of(root, "run-curve", run.pk)
    assert "The latest 200 confidence checks" in page
    assert "Older ones are in the raw view" in page
    found = root.get(f"/api/v1/runs/{run.pk}/curve/").json()
    assert (found["every"], found["confidence_has_older"], len(found["confidence"])) == (2, True, POINTS)


def test_a_loop_of_many_steps_names_those_that_are_not_shown(root: Client) -> None:
    world = make_world()
    for number in range(1, 15):
        make.step(world.run, number)
    view = {"method": "repeated_result", "steps": list(range(1, 15)), "evidence": "the same"}
    gate = open_gate(world, "loop_detected", call_id="", tool="", view=view, step=14)
    page = page_of(root, "gate", gate.pk)
    assert "Earlier steps of the same loop: 1, 2, 3, 4." in page
    few = open_gate(make_world(), "loop_detected", call_id="", tool="", view={**view, "steps": [12, 13, 14]}, step=14)
    assert "of the same loop" not in page_of(root, "gate", few.pk)
