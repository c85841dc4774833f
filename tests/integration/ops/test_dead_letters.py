"""A run that AgentOps gave up on is found, tried again by a person, and goes on exactly where it was."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from loops.engine.state.lifecycle import Phase
from loops.models import AuditEvent, Fact, Project, Run
from loops.runs import drive, recovery
from loops.services import steering
from loops.storage import chain, journal, reader
from tests import factories as make
from tests import fakes
from tests.integration.storage import owned

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("A5", "J4")]


@pytest.fixture(autouse=True)
def bell(settings: Any) -> None:
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"


def given_up(project: Project | None = None) -> owned.Owned:
    """A run at work in its second step whose workers were lost again and again."""
    mine = owned.begun(owned.new_run(project))

    class Died(BaseException):
        pass

    turns = iter([fakes.says("one", ("look", {"at": 1}))])

    def answer(request: Any) -> Any:
        if (turn := next(turns, None)) is None:
            raise Died
        return turn

    with pytest.raises(Died):
        mine.drive(answer)
    Run.objects.filter(pk=mine.run.pk).update(recoveries=recovery.LOSSES_AT_MOST)
    owned.lapse(mine.run)
    assert drive.drive(mine.run.pk, "the last") == "ended"
    mine.run.refresh_from_db()
    return mine


def test_it_fails_with_a_report_and_nobody_goes_on_by_himself() -> None:
    run = given_up().run
    assert (run.status, run.end_reason, run.runnable) == ("failed", "internal_error", False)
    assert list(Run.objects.dead_lettered()) == [run]
    assert drive.drive(run.pk, "sweeper") == "taken"


def test_try_again_goes_on_exactly_there() -> None:
    mine = given_up()
    root = make.superuser()
    before = Run.objects.get(pk=mine.run.pk).head_seq
    steering.retry_run(actor=root, run=mine.run)
    again = owned.own(mine.run, "next")
    assert again.drive([fakes.done("seen")], fakes.Tools({"look": lambda arguments: "twice?"})) == "ended"
    mine.run.refresh_from_db()
    assert (mine.run.status, mine.run.end_reason, mine.run.recoveries) == ("completed", "no_criteria", 0)
    kinds = list(Fact.objects.filter(run=mine.run, seq__gt=before).order_by("seq").values_list("kind", flat=True))
    assert kinds[0] == "RunResumed"
    assert Fact.objects.filter(run=mine.run, kind="ToolIntended").count() == 1  # the first step is not done again
    assert Run.objects.dead_lettered().count() == 0
    report = chain.verify(mine.run.pk)
    assert report.ok, report.problems
    assert AuditEvent.objects.get(kind="run.retry").actor == root


def test_pressed_twice_it_goes_on_once() -> None:
    mine = given_up()
    root = make.superuser()
    for _ in range(2):
        steering.retry_run(actor=root, run=mine.run)
    assert owned.own(mine.run, "next").drive([fakes.done("seen")]) == "ended"
    assert Fact.objects.filter(run=mine.run, kind="RunResumed").count() == 1


def test_a_condemned_run_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its journal holds a fact that only another version knows; with that version it goes on."""
    mine = owned.begun()
    real = journal.load

    def unreadable(run_id: Any) -> Any:
        raise KeyError("FactOfTomorrow")

    monkeypatch.setattr(journal, "load", unreadable)
    Run.objects.filter(pk=mine.run.pk).update(recoveries=recovery.LOSSES_AT_MOST)
    owned.lapse(mine.run)
    assert drive.drive(mine.run.pk, "the last") == "condemned"
    assert list(Run.objects.dead_lettered()) == [mine.run]
    left = reader.report(mine.run.pk)
    assert left is not None
    assert (left["kind"], left["reason"], left["causes"]) == ("FailureReport", "journal_unreadable", [left["reason"]])
    assert "FactOfTomorrow" in left["diagnosis"]
    monkeypatch.setattr(journal, "load", real)
    steering.retry_run(actor=make.superuser(), run=mine.run)
    assert owned.own(mine.run, "next").drive([fakes.done("seen")]) == "ended"
    mine.run.refresh_from_db()
    assert (mine.run.status, mine.run.phase) == ("completed", Phase.COMMIT)
    assert (reader.report(mine.run.pk) or {})["kind"] == "AgentResult"


@pytest.mark.spec("E7", "N1")
@pytest.mark.parametrize("damaged", ["the last", "the first"])
def test_a_run_whose_journal_is_damaged_leaves_a_report_on_every_door(
    client: Any, monkeypatch: pytest.MonkeyPatch, damaged: str
) -> None:
    """One fact cannot be read: what stands before it is in the report, or what the run's row says."""
    project = make.project()
    mine = owned.begun(owned.new_run(project))
    turns = iter(
        [fakes.says("I look.", ("look", {"at": 1})), fakes.says("Which?", ("ask_question", {"question": "?"}))]
    )
    assert mine.drive(lambda request: next(turns)) == "gate:question"
    facts = Fact.objects.filter(run=mine.run).order_by("seq")
    broken = bytes((facts.last() if damaged == "the last" else facts[0]).body)
    whole = reader.decode_fact

    def decode(body: bytes, blobs: Any) -> Any:
        if body == broken:
            raise ValueError("no fact")
        return whole(body, blobs)

    monkeypatch.setattr(reader, "decode_fact", decode)
    Run.objects.filter(pk=mine.run.pk).update(runnable=True, owner="gone", recoveries=recovery.LOSSES_AT_MOST)
    owned.lapse(mine.run)
    assert drive.drive(mine.run.pk, "the last") == "condemned"
    assert not mine.run.gates.filter(status="open").exists()
    client.force_login(make.user(operator=project))
    left = client.get(f"/api/v1/runs/{mine.run.pk}/result/").json()["report"]
    assert left["diagnosis"].startswith("the journal cannot be read")
    assert left["not_done"]
    assert left["usage"]["steps"] >= 1
    if damaged == "the last":
        assert left["partial_output"] == "Which?"
        assert left["usage"]["tool_calls"] == 1
    page = client.get(reverse("run", args=[mine.run.pk])).content.decode()
    assert "FailureReport" in page


def test_the_pages_show_it_and_have_the_button(client: Any) -> None:
    project = make.project()
    run = given_up(project).run
    fine = make.run(project, status="failed", end_reason="max_steps")
    client.force_login(make.user(operator=project))
    listed = client.get(reverse("runs"), {"state": "dead"}).content.decode()
    assert str(run.pk) in listed
    assert str(fine.pk) not in listed
    assert 'value="retry"' in client.get(reverse("run", args=[run.pk])).content.decode()
    assert 'value="retry"' not in client.get(reverse("run", args=[fine.pk])).content.decode()
    assert str(run.pk) in client.get(reverse("system")).content.decode()
    address = reverse("run-steer", args=[run.pk])
    assert client.get(address, {"action": "retry"}).status_code == 405
    assert client.post(address, {"action": "retry"}).status_code == 302
    assert journal.claim(run.pk, "somebody") is not None
    client.force_login(make.user(viewer=project))
    assert client.post(address, {"action": "retry"}).status_code == 404


def test_the_api_tries_again() -> None:
    from rest_framework.test import APIClient

    project = make.project()
    run = given_up(project).run
    api = APIClient()
    api.force_authenticate(make.user(operator=project))
    answer = api.post(f"/api/v1/runs/{run.pk}/steer/", {"action": "retry"}, format="json")
    assert (answer.status_code, answer.json()["kind"]) == (202, "resume")
    fine = make.run(project, status="failed", end_reason="max_steps")
    assert api.post(f"/api/v1/runs/{fine.pk}/steer/", {"action": "retry"}, format="json").status_code == 409
