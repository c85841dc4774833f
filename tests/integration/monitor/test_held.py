"""A run that the monitor paused is found by whoever has to look: pages, lists, Review, API, terminal."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from loops.engine.loop_detection.finding import Finding
from loops.models import MailboxItem, Membership, Run
from loops.monitor.alerts import tell
from loops.monitor.queries import live_runs
from loops.monitor.rules import SPEND, Alert
from loops.storage import rebuild
from loops.web import overview
from tests import factories as make
from tests import fakes
from tests.integration.monitor.test_monitor import begun, bell, working

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("F2", "X7")]
__all__ = ["bell"]
ASKS = [fakes.says("", ("ask_question", {"question": "Where?"}))]
WHY = "spends $9.10 a minute, more than the 2.00 allowed"


@pytest.fixture
def held() -> Any:
    """As the monitor really does it: mail, which the run's worker turns into a fact."""
    owned = begun()
    working(owned.run)
    (seen,) = live_runs()
    assert tell(seen, Alert(SPEND, Finding("runaway_spend", WHY, (), 1.0)))
    assert owned.drive([]) == "paused"
    owned.run.refresh_from_db()
    return owned


def client(name: str, role: str, run: Run) -> Client:
    person = get_user_model().objects.create_user(name, password="x")
    Membership.objects.create(project=run.project, user=person, role=role)
    browser = Client()
    browser.force_login(person)
    return browser


def shown(browser: Client, page: str, *args: Any) -> str:
    return browser.get(reverse(page, args=args)).content.decode()


def test_who_paused_it_why_and_since_when_stands_wherever_it_is_listed(held: Any) -> None:
    run = held.run
    assert (run.status, run.paused_by, run.paused_reason) == ("paused", "monitor", WHY)
    assert run.paused_at is not None
    operator = client("olga", "operator", run)
    for page in (("run", run.pk), ("runs",), ("overview",), ("review",)):
        said = shown(operator, *page)
        assert f"Paused by the monitor: {WHY}" in said, page
        assert "Paused by a person" not in said
    assert f'datetime="{run.paused_at:%Y-%m-%dT%H:%M}' in shown(operator, "run", run.pk)
    row = operator.get(f"/api/v1/runs/{run.pk}/").json()
    assert (row["paused_by"], row["paused_reason"]) == ("monitor", WHY)
    assert row["paused_at"]
    assert [one["id"] for one in operator.get("/api/v1/runs/?held=true").json()["results"]] == [str(run.pk)]
    assert operator.get("/api/v1/runs/?held=false").json()["results"] == []
    out = StringIO()
    call_command("agentops", "--as", "olga", "runs", stdout=out)
    assert f"(Paused by the monitor: {WHY})" in out.getvalue()
    out = StringIO()
    call_command("agentops", "--as", "olga", "runs", "--json", stdout=out)
    assert json.loads(out.getvalue())["paused_by"] == "monitor"


def test_it_is_counted_as_something_that_waits_and_decided_in_review(held: Any) -> None:
    run = held.run
    operator, viewer = client("olga", "operator", run), client("vera", "viewer", run)
    assert ">1<span" in shown(operator, "badge")
    assert "hidden" in shown(viewer, "badge")
    assert 'Needs you <span class="num muted">1</span>' in shown(operator, "overview")
    review = shown(operator, "review")
    assert 'value="resume"' in review
    assert ">1<span" in review  # its own badge as well
    assert 'value="stop"' in review
    assert "Paused by the monitor" not in operator.get(reverse("review") + "?kind=question").content.decode()
    answer = operator.post(
        reverse("runs-bulk"), {"run": str(run.pk), "action": "resume", "next": reverse("review")}, follow=True
    )
    assert answer.redirect_chain[0][0] == reverse("review")
    assert MailboxItem.objects.filter(kind="resume").exists()
    assert held.drive(ASKS) == "gate:question"
    run.refresh_from_db()
    assert (run.paused_by, run.paused_reason, run.paused_at) == ("", "", None)
    assert "hidden" in shown(operator, "badge")


@pytest.mark.parametrize(
    ("role", "looks_at"), [("viewer", ["run", "overview", "review"]), ("reviewer", ["run", "review"])]
)
def test_who_may_not_resume_it_still_sees_who_paused_it_why_and_since_when(
    held: Any, role: str, looks_at: list[str]
) -> None:
    run, someone = held.run, client("rita", role, held.run)
    for page in looks_at:
        said = shown(someone, page, *([run.pk] if page == "run" else []))
        assert f"Paused by the monitor: {WHY}" in said, page
        assert f'datetime="{run.paused_at:%Y-%m-%dT%H:%M}' in said, page
        assert 'value="resume"' not in said
        assert "Needs you <span" not in said
    assert "An operator of the project resumes or stops it." in shown(someone, "review")
    assert "hidden" in shown(someone, "badge"), "nothing that they have to do"
    stranger = client("otto", role, make.run(make.project()))
    assert stranger.get(reverse("run", args=[run.pk])).status_code == 404
    assert "Paused by the monitor" not in shown(stranger, "review")


def test_a_run_that_others_have_to_resume_is_not_pushed_off_the_overview(held: Any) -> None:
    for _ in range(overview.LIVE + 2):
        make.run(held.run.project)
    said = shown(client("vera", "viewer", held.run), "overview")
    assert said.count(f"Paused by the monitor: {WHY}") == 1
    assert "All runs in progress" in said


def test_a_persons_pause_names_the_person_and_is_nobodys_queue(held: Any) -> None:
    run = held.run
    operator = client("olga", "operator", run)
    operator.post(reverse("run-steer", args=[run.pk]), {"action": "resume"})
    assert held.drive(ASKS) == "gate:question"
    operator.post(reverse("run-steer", args=[run.pk]), {"action": "pause"})
    assert held.drive([]) == "gate:question"  # and a pause beside it
    assert "Paused by olga" in shown(operator, "run", run.pk)
    assert "Paused by" not in shown(operator, "review")
    assert "hidden" in shown(operator, "badge")


def test_what_is_rebuilt_from_the_facts_is_the_same(held: Any) -> None:
    assert rebuild.rebuild(held.run.pk).differences == []
    Run.objects.filter(pk=held.run.pk).update(paused_by="", paused_reason="", paused_at=None)
    assert rebuild.rebuild(held.run.pk, write=True).differences
    held.run.refresh_from_db()
    assert (held.run.paused_by, held.run.paused_reason) == ("monitor", WHY)
