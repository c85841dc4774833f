"""A run whose folder is not on this machine waits for it: it says so, spends nothing, and blames nobody (SPEC J4)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from gates.models import Gate
from loops.models import Agent, Fact, ModelCall, Run, ToolCallRecord, Workspace
from loops.runs import recovery
from loops.runs.drive import drive
from loops.services.models import ensure_script
from loops.services.steering import stop_run
from loops.services.tasks import submit_task
from loops.storage import journal, reader
from loops.web.run_summary import outlook
from tests.decisions import decide
from tests.factories import create_project

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("J4")]


@pytest.fixture
def boss() -> Any:
    return get_user_model().objects.create_superuser("ana", password="x")


@pytest.fixture
def submitted(boss: Any, tmp_path: Path, settings: Any) -> Run:
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    project = create_project(actor=boss, name="P", slug="p")
    agent = Agent.objects.create(project=project, name="A", actor_model=ensure_script("asks_a_question", pace=0))
    return submit_task(actor=boss, project=project, agent=agent, workspace=None, goal="Do it", final_review="never").run


@pytest.fixture
def answered(boss: Any, submitted: Run) -> Run:
    """It has begun, asked its question, and got the answer: the next worker is to go on."""
    drive(submitted.pk, "one")
    gate = Gate.objects.get(run=submitted, status="open")
    decide(actor=boss, gate_id=gate.pk, verdict="respond", digest=gate.digest, payload={"answer": "Yes"})
    submitted.refresh_from_db()
    return submitted


def away(run: Run) -> Path:
    """Its folder is on another machine."""
    folder = Path(run.workspace_path)
    folder.rename(folder.with_name("elsewhere"))
    return folder


def back(folder: Path) -> None:
    folder.with_name("elsewhere").rename(folder)


def wake(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(wake_at=timezone.now() - timedelta(seconds=1), lease_until=None)


def test_it_is_given_back_and_says_so(answered: Run) -> None:
    folder = away(answered)
    asked, calls = ModelCall.objects.count(), ToolCallRecord.objects.count()
    before = timezone.now()
    assert drive(answered.pk, "two") == "folder"
    answered.refresh_from_db()
    assert answered.owner == ""
    assert answered.status == "waiting_for_resource"
    assert answered.waiting_on.startswith("its workspace: ")
    said = outlook(answered, None, []).doing
    assert said.startswith("Waiting for its workspace: ")
    assert str(folder)[-60:] in said
    assert "is not on worker" in said
    assert before + timedelta(seconds=3) < answered.wake_at < timezone.now() + timedelta(seconds=61)
    assert (ModelCall.objects.count(), ToolCallRecord.objects.count()) == (asked, calls), "nobody was told or blamed"


def test_it_is_looked_for_more_and_more_seldom_and_written_once(answered: Run) -> None:
    away(answered)
    for _ in range(3):
        assert drive(answered.pk, "two") == "folder"
        wake(answered)
    assert Fact.objects.filter(run=answered, kind="WorkspaceAwaited").count() == 1
    state = journal.load(answered.pk).state
    long_ago = Fact.objects.get(run=answered, kind="WorkspaceAwaited")
    assert state.folder_since // 1000 == int(long_ago.at.timestamp() * 1e6) // 1000


def test_it_goes_on_by_itself_where_the_folder_is_and_waiting_was_no_work(answered: Run) -> None:
    folder = away(answered)
    drive(answered.pk, "two")
    before = journal.load(answered.pk).state.active_us
    back(folder)
    wake(answered)
    assert drive(answered.pk, "three") == "ended"
    answered.refresh_from_db()
    assert answered.status == "completed"
    times = [(fact["kind"], fact["fact"]["at"]) for fact in reader.raw(answered.pk, 0, 10_000)]
    waited = next(at for kind, at in times if kind == "WorkspaceAwaited")
    found = next(at for kind, at in times if kind == "WorkspaceFound")
    after = journal.load(answered.pk).state.active_us
    assert answered.active_us == after
    assert waited < found, "control: it did wait"
    ended = next(at for kind, at in times if kind == "RunEnded")
    assert after - before <= ended - found


def test_a_person_may_stop_it_meanwhile(boss: Any, answered: Run) -> None:
    away(answered)
    drive(answered.pk, "two")
    stop_run(actor=boss, run=Run.objects.get(pk=answered.pk))
    wake(answered)
    drive(answered.pk, "three")
    answered.refresh_from_db()
    assert answered.status == "interrupted"


def test_a_run_whose_workspace_is_on_another_machine_begins_there(
    submitted: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "FOLDER_S", (60.0, 600.0))
    home = tmp_path / "repository"
    there = Workspace.objects.create(project=submitted.project, name="W", path=str(home))
    submitted.task.workspace = there
    submitted.task.save()
    assert drive(submitted.pk, "one") == "folder"
    submitted.refresh_from_db()
    assert (submitted.status, submitted.owner) == ("waiting_for_resource", "")
    assert outlook(submitted, None, []).doing.startswith("Waiting for its workspace: ")
    assert str(home)[-60:] in submitted.waiting_on
    assert not Fact.objects.filter(run=submitted).exists()
    assert drive(submitted.pk, "two") == "taken", "not before some time has passed"
    home.mkdir()
    wake(submitted)
    assert drive(submitted.pk, "two").startswith("gate:")
