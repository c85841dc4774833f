"""What people see of circles and stalls: which steps, why, and what was done about it."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from loops.engine import facts as f
from loops.models import Detection, Run
from tests import factories as make
from tests.web.test_pages import HOSTILE, dangers, text_of

pytestmark = pytest.mark.spec("F1", "F2", "F3")


def detection(run: Run, **more: Any) -> Detection:
    given = {
        "kind": "stall",
        "method": "hung_worker",
        "evidence": "its lease ran out",
        "steps": [6],
        "seq": run.head_seq,
    }
    return Detection.objects.create(run=run, **{**given, **more})


def banner(house: Any, user: str = "operator") -> str:
    return text_of(house.client(user).get(reverse("run-detections", args=[house.run.pk])))


def test_the_timeline_says_how_why_and_which_steps(house: Any) -> None:
    found = f.LoopDetected(method="semantic", evidence="4 steps did nearly the same", steps=(3, 4, 5), by="monitor")
    make.fact(house.run, found, step=5)
    make.fact(house.run, f.LoopBroken(rung="other_words", method="semantic", steps=(3, 4, 5)), step=5)
    skipped = f.LoopBroken(rung="another_model", method="semantic", skipped="no other model is configured for this run")
    make.fact(house.run, skipped, step=5)
    page = text_of(house.client("operator").get(reverse("run", args=[house.run.pk])))
    assert "Loop detected: similar steps again and again" in page
    assert "4 steps did nearly the same" in page
    assert "by monitor" in page
    assert page.count('href="#step-4"') == 1
    assert "Instructed again, in other words, to start over" in page
    assert "no other model is configured" in page


def test_a_hung_worker_shows_above_the_timeline_until_the_run_moves(house: Any) -> None:
    house.run.refresh_from_db()
    detection(house.run)
    assert "its worker hangs" in banner(house)
    Run.objects.filter(pk=house.run.pk).update(head_seq=house.run.head_seq + 1)
    assert "its worker hangs" not in banner(house)


def test_the_page_asks_at_once_and_the_answer_only_after_a_while(house: Any) -> None:
    """An answer that asked at once would be replaced by one that does, without end."""
    page = text_of(house.client("operator").get(reverse("run", args=[house.run.pk])))
    assert 'hx-trigger="load, every 8s"' in page
    assert 'hx-trigger="every 8s"' in banner(house)
    Run.objects.filter(pk=house.run.pk).update(status="completed")
    assert "hx-trigger" not in banner(house)


def test_the_system_page_names_the_run(house: Any) -> None:
    house.run.refresh_from_db()
    detection(house.run)
    page = text_of(house.client("operator").get(reverse("system-live")))
    assert "Its lease ran out" in page
    assert reverse("run", args=[house.run.pk]) in page


def test_what_was_found_cannot_act(house: Any) -> None:
    house.run.refresh_from_db()
    detection(house.run, evidence=HOSTILE)
    make.fact(house.run, f.StallDetected(method=HOSTILE, evidence=HOSTILE, by=HOSTILE), step=5)
    page = text_of(house.client("operator").get(reverse("run", args=[house.run.pk])))
    assert dangers(banner(house)) == dangers(page) == []


def test_outsiders_see_nothing(house: Any) -> None:
    assert house.client("outsider").get(reverse("run-detections", args=[house.run.pk])).status_code == 404


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("identical_errors", "the same error again and again"),
        ("repeated_call", "the same call, and nothing new"),
        ("recurring", "a similar step, with others between"),
    ],
)
def test_what_an_older_version_found_is_said_in_words(house, method, said):
    make.fact(house.run, f.LoopDetected(method=method, evidence="", steps=(1, 2, 3)), step=4)
    make.step(house.run, 4)
    page = house.client("viewer").get(reverse("run", args=[house.run.pk])).content.decode()
    assert f"Loop detected: {said}" in page
