"""A whole run on the real parts: Postgres, journal, sandbox, gates; only the model is scripted."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model

from gates.models import Gate
from loops.engine.state.lifecycle import Phase
from loops.models import Agent, ProvenanceRecord, Run, Step, ToolCallRecord, Workspace
from loops.runs.drive import drive
from loops.services.models import ensure_script
from loops.services.tasks import submit_task
from loops.storage import chain, journal
from tests.decisions import decide
from tests.factories import create_project

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def boss() -> Any:
    return get_user_model().objects.create_superuser("ana", password="x")


def submit(boss: Any, script: str, **task: Any) -> Run:
    """``commands``: what the project says of them."""
    project = create_project(actor=boss, name="P", slug="p")
    project.access_rules.filter(operation="execute").update(access=task.pop("commands", "ask"))
    agent = Agent.objects.create(project=project, name=script, actor_model=ensure_script(script, pace=0))
    goal = task.pop("goal", "Do it")
    return submit_task(
        actor=boss, project=project, agent=agent, workspace=task.pop("workspace", None), goal=goal, **task
    ).run


@pytest.mark.spec("A5", "J1", "N1", "W1")
def test_a_run_commits_with_its_provenance(boss: Any) -> None:
    run = submit(
        boss, "writes_a_file", criteria=[{"text": "there is a file", "command": "test -s hello.txt"}], commands="allow",
        final_review="never",
    )  # fmt: skip
    why = drive(run.pk, "test")
    run.refresh_from_db()
    assert why == "ended"
    assert run.status == "completed"
    assert ProvenanceRecord.objects.get(run=run)
    report = chain.verify(run.pk)
    assert report.ok, report.problems
    assert Step.objects.filter(execution=run).count() == run.total_steps
    loaded = journal.load(run.pk)
    assert loaded is not None
    assert loaded.state.phase is Phase.COMMIT


@pytest.mark.spec("Q1", "Q4", "Q5", "I3", "L2")
def test_the_demo_repairs_a_bug_with_an_approval(boss: Any, tmp_path: Any) -> None:
    shutil.copytree(Path(settings.BASE_DIR) / "loops/demo/repository", tmp_path / "r")
    run = submit(boss, "repair_a_bug", criteria=[{"text": "tests pass", "command": "python3 -m unittest"}])
    workspace = Workspace.objects.create(project=run.project, name="w", path=str(tmp_path / "r"))
    run.task.workspace = workspace
    run.task.save()
    decisions = 0
    while drive(run.pk, "test") != "ended":
        gate = Gate.objects.get(run=run, status="open")
        decide(actor=boss, gate_id=gate.pk, verdict="approve", digest=gate.digest)
        decisions += 1
        assert decisions < 10
    run.refresh_from_db()
    assert run.status == "completed"
    assert decisions >= 1
    tests = ToolCallRecord.objects.filter(run=run, tool="run_tests").order_by("step_number")
    assert [call.ok for call in tests] == [False, True], "it tried, saw the tests fail, and tried something else"
    assert list(
        Step.objects.filter(execution=run).values_list("step_number", flat=True).order_by("step_number")
    ) == list(range(1, run.total_steps + 1))


@pytest.mark.spec("Q5")
def test_what_changed_while_it_waited_is_asked_about_again_by_name(boss: Any, tmp_path: Any) -> None:
    shutil.copytree(Path(settings.BASE_DIR) / "loops/demo/repository", tmp_path / "r")
    run = submit(boss, "repair_a_bug", criteria=[{"text": "tests pass", "command": "python3 -m unittest"}])
    workspace = Workspace.objects.create(project=run.project, name="w", path=str(tmp_path / "r"))
    run.task.workspace = workspace
    run.task.save()
    drive(run.pk, "test")
    first = Gate.objects.get(run=run, status="open")
    assert first.view["covers"]["files"] > 5
    run.refresh_from_db()
    (Path(run.workspace_path) / "tests/test_invoice.py").write_text("print('somebody else')\n")
    decide(actor=boss, gate_id=first.pk, verdict="approve", digest=first.digest)
    assert drive(run.pk, "test") != "ended"
    first.refresh_from_db()
    assert first.consumed_at is None, "nothing ran"
    assert not ToolCallRecord.objects.filter(run=run, tool="run_tests", ok__isnull=False).exists()
    again = Gate.objects.get(run=run, status="open")
    asked = "asked again: what is about to run differs from what was approved: tests/test_invoice.py"
    assert again.reasons[0] == asked
    assert again.call_id == first.call_id
