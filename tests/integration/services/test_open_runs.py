"""So many open runs of one person in one project, and no more by any door (SPEC A6, ADR 0045)."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from loops.models import AuditEvent, MailboxItem, Policy, Run
from loops.services import steering
from loops.services.forks import fork_run
from loops.services.steering import NotPossible
from loops.services.tasks import InvalidTask
from tests import fakes
from tests.integration.services.test_policy_floor import FORKING, SUBMITTING
from tests.integration.services.world import World, closing_connections
from tests.integration.storage import forks
from tests.integration.storage.forks import Ledger

pytestmark = [pytest.mark.spec("A6", "S1")]
SAID = "2 runs are open in Invoices, and its policy allows 2 for one person: stop some or wait until some have ended"


@pytest.fixture
def parent(world: World, settings: Any, tmp_path: Path) -> Run:
    """A committed run to fork; beside it the person may have two."""
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"
    mine = forks.parent_in(tmp_path / "parent", world.submit().run)
    assert mine.drive([fakes.says("1", ("act", {})), fakes.done()], Ledger().tools()) == "ended"
    Policy.objects.filter(project=world.project).update(open_runs_per_person=2)
    mine.run.refresh_from_db()
    return mine.run


@pytest.mark.parametrize("door", SUBMITTING | FORKING)
def test_one_too_many_is_refused_with_how_to_make_room(world: World, parent: Run, door: str) -> None:
    ask = (SUBMITTING | FORKING)[door]
    first, second = (world.submit().run for _ in range(2))
    Run.objects.filter(pk=second.pk).update(status="waiting")
    assert SAID in ask(world, world.operator, parent, {}, "")
    event = AuditEvent.objects.get(kind="run.too_many_open")
    assert (event.actor, event.project, event.detail) == (world.operator, world.project, {"open": 2, "most": 2})
    assert ask(world, world.admin, parent, {}, "") == ""  # everybody has a share of their own
    Run.objects.filter(pk=first.pk).update(status="completed")
    assert ask(world, world.operator, parent, {}, "") == ""
    assert SAID in ask(world, world.operator, parent, {}, "")


def test_admins_and_superusers_are_bound_as_well_until_they_raise_it(world: World, parent: Run) -> None:
    for person in (world.admin, world.root):
        for _ in range(2):
            world.submit(actor=person)
        with pytest.raises(InvalidTask, match="raise it under Admin, Policies"):
            world.submit(actor=person)
    Policy.objects.filter(project=world.project).update(open_runs_per_person=3)
    world.submit(actor=world.admin)


def test_a_run_belongs_to_who_forked_it(world: World, parent: Run) -> None:
    for _ in range(2):
        fork_run(actor=world.admin, run=parent, step=1)
    world.submit()
    with pytest.raises(InvalidTask):
        world.submit(actor=world.admin)


def test_the_same_submission_is_given_back_however_many_are_open(world: World, parent: Run) -> None:
    first = world.submit(idempotency_key="k")
    world.submit()
    assert world.submit(idempotency_key="k").run == first.run


@pytest.mark.parametrize("door", ["page", "bulk", "API", "message"])
def test_what_has_ended_comes_back_only_where_there_is_room(world: World, parent: Run, door: str) -> None:
    stopped = world.run("interrupted")
    for _ in range(2):
        world.submit()
    client = Client()
    client.force_login(world.operator)
    if door == "page":
        answer = client.post(reverse("run-steer", args=[stopped.pk]), {"action": "resume"}, follow=True)
    elif door == "bulk":
        answer = client.post(reverse("runs-bulk"), {"action": "resume", "run": [stopped.pk]}, follow=True)
    elif door == "message":
        answer = client.post(reverse("run-message", args=[stopped.pk]), {"text": "/resume"}, follow=True)
    else:
        body = json.dumps({"action": "resume"})
        answer = client.post(f"/api/v1/runs/{stopped.pk}/steer/", body, content_type="application/json")
        assert answer.status_code == 409
    assert "2 runs are open in Invoices" in answer.content.decode()
    assert not MailboxItem.objects.filter(run=stopped).exists()
    assert AuditEvent.objects.get(kind="run.too_many_open").run_id == stopped.pk


def test_one_that_is_asked_to_go_on_counts_before_a_worker_has_heard_of_it(world: World, parent: Run) -> None:
    stopped, other = world.run("interrupted"), world.run("failed")
    Run.objects.filter(pk=other.pk).update(end_reason="internal_error")
    other.refresh_from_db()
    world.submit()
    steering.resume_run(actor=world.operator, run=stopped)
    steering.resume_run(actor=world.operator, run=stopped)  # the same one takes one place
    with pytest.raises(NotPossible, match="2 runs are open"):
        steering.retry_run(actor=world.operator, run=other)
    with pytest.raises(InvalidTask):
        world.submit()


@pytest.mark.django_db(transaction=True)
def test_many_at_once_get_as_many_as_there_are_places(committed_world: World) -> None:
    world = committed_world
    Policy.objects.filter(project=world.project).update(open_runs_per_person=3)

    @closing_connections
    def submit(number: int) -> str:
        try:
            return str(world.submit(goal=f"Mend {number}").run.pk)
        except InvalidTask:
            return ""

    with ThreadPoolExecutor(8) as crowd:
        made = [run for run in crowd.map(submit, range(16)) if run]
    assert len(made) == Run.objects.count() == 3
    assert AuditEvent.objects.filter(kind="run.too_many_open").count() == 13
