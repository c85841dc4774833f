"""Forks of runs on the real parts: journal, sandbox, tools, folders; only the model is scripted (SPEC K3)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from gates.models import Gate
from loops.engine import facts as f
from loops.models import Fact, Run, ToolCallRecord, Workspace
from loops.runs import forks
from loops.runs.drive import drive
from loops.services.forks import fork_run
from loops.storage import chain, reader
from loops.storage.rebuild import rebuild
from tests.decisions import decide
from tests.integration.runs.test_scripted_run import submit

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("K3")]


@pytest.fixture
def boss() -> Any:
    return get_user_model().objects.create_superuser("ana", password="x")


@pytest.fixture
def source(tmp_path: Path, settings: Any) -> Path:
    """A folder to work on copies of, with things that no snapshot records."""
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    folder = tmp_path / "source"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "tool.sh").write_text("echo hi")
    (folder / "sub" / "tool.sh").chmod(0o755)
    return folder


def written(boss: Any, source: Path) -> Run:
    """A run that wrote hello.txt into its copy of ``source`` in its first step, and ended with the second."""
    run = submit(boss, "writes_a_file", final_review="never")
    run.task.workspace = Workspace.objects.create(project=run.project, name="w", path=str(source))
    run.task.save()
    assert drive(run.pk, "test") == "ended"
    run.refresh_from_db()
    return run


def fork(boss: Any, run: Run, **wish: Any) -> Run:
    run.refresh_from_db()
    made = fork_run(actor=boss, run=run, **wish).run
    why = drive(made.pk, "test")
    made.refresh_from_db()
    assert (why, made.status) == ("ended", "completed")
    assert chain.verify(made.pk).problems == []
    assert rebuild(made.pk).differences == []
    return made


def note(run: Run) -> f.Forked:
    seq = Fact.objects.filter(run=run, kind="Forked").latest("seq").seq
    found = reader.history(run.pk, after=seq - 1, until=seq)[0]
    assert isinstance(found, f.Forked)
    return found


def test_the_folder_is_as_it_was_at_that_step_although_the_other_run_went_on(boss: Any, source: Path) -> None:
    parent = written(boss, source)
    Path(parent.workspace_path, "hello.txt").write_text("changed since\n")
    after, before = fork(boss, parent, step=1), fork_run(actor=boss, run=parent, step=0).run
    assert Path(after.workspace_path, "hello.txt").read_text() == "changed since\n", "nothing of the run changed it"
    assert note(after).workspace == ""

    Path(parent.workspace_path, "hello.txt").write_text("Hello from the loop.\n")
    begin(before)
    assert sorted(path.name for path in Path(before.workspace_path).iterdir()) == ["sub"]
    assert Path(before.workspace_path, "sub", "tool.sh").stat().st_mode & 0o111
    assert note(before).workspace == ""
    assert drive(before.pk, "test") == "ended"
    assert Path(before.workspace_path, "hello.txt").read_text() == "Hello from the loop.\n"
    assert ToolCallRecord.objects.get(run=before, tool="write_file").ok


def test_what_nobody_records_is_as_it_is_now_and_said(boss: Any, source: Path) -> None:
    (source / ".git").mkdir()
    (source / ".git" / "HEAD").write_text("ref: main")
    parent = written(boss, source)
    made = fork_run(actor=boss, run=parent, step=0).run
    begin(made)
    assert Path(made.workspace_path, ".git", "HEAD").read_text() == "ref: main"
    assert not Path(made.workspace_path, "hello.txt").exists()
    assert note(made).workspace == forks.UNKEPT.format(".git")


def test_a_fork_before_its_parents_fork_finds_the_folder_in_the_run_before(boss: Any, source: Path) -> None:
    parent = written(boss, source)
    child = fork(boss, parent, step=1, message="Go on")
    grandchild = fork_run(actor=boss, run=child, step=0).run
    begin(grandchild)
    assert not Path(grandchild.workspace_path, "hello.txt").exists()
    assert note(grandchild).workspace == ""
    again = fork_run(actor=boss, run=child, step=1).run
    begin(again)
    assert Path(again.workspace_path, "hello.txt").read_text() == "Hello from the loop.\n"


def test_a_shared_folder_is_left_to_those_who_share_it(boss: Any, source: Path) -> None:
    run = submit(boss, "writes_a_file", final_review="never")
    place = Workspace.objects.create(project=run.project, name="w", path=str(source), copy_for_each_run=False)
    run.task.workspace = place
    run.task.save()
    drive(run.pk, "test")
    made = fork(boss, run, step=0)
    assert Path(made.workspace_path) != source
    assert note(made).workspace == forks.IN_PLACE
    assert (source / "hello.txt").exists()


@pytest.mark.spec("Q5")
def test_an_approval_of_the_other_run_lets_nothing_through_the_real_tools(boss: Any, tmp_path: Path) -> None:
    run = submit(boss, "repair_a_bug", criteria=[])
    from django.conf import settings as here

    path = str(shutil.copytree(Path(here.BASE_DIR) / "loops/demo/repository", tmp_path / "repository"))
    run.task.workspace = Workspace.objects.create(project=run.project, name="w", path=path)
    run.task.save()
    assert drive(run.pk, "test") == "gate:tool_approval"
    theirs = Gate.objects.get(run=run)
    decide(actor=boss, gate_id=theirs.pk, verdict="approve", digest=theirs.digest)
    run.refresh_from_db()
    made = fork_run(actor=boss, run=run).run
    assert drive(made.pk, "test") == "gate:tool_approval"
    ours = Gate.objects.get(run=made)
    assert ours.digest != theirs.digest
    assert ToolCallRecord.objects.get(run=made, gate_id=ours.pk).started_at is None


def begin(run: Run) -> None:
    """Only the beginning, as its worker makes it."""
    from loops.runs.composition import publisher
    from loops.storage import journal

    held = journal.claim(run.pk, "test")
    assert held is not None
    found = forks.fork_of(run)
    assert found is not None
    store = journal.PgJournal(held, run.project_id, publisher())
    assert forks.take_over(run, found, store)[2] == ""
    store.release(runnable=True)
    run.refresh_from_db()
