"""What a run changed leaves its copy as a patch: at the page, by the API and from a terminal (SPEC R4, T2, T3)."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from loops.models import Run
from loops.services.forks import fork_run
from loops.workspaces import patch
from tests.integration.rollback.world import WORK, Story, look

pytestmark = pytest.mark.django_db(transaction=True)
PERSON = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_COMMITTER_NAME": "Ana", "GIT_COMMITTER_EMAIL": "ana@localhost"}


@pytest.fixture
def story(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Story:
    return Story(tmp_path, settings, monkeypatch)


def git(folder: Path, *words: str, given: bytes = b"") -> str:
    environment = {**os.environ, **PERSON, "GIT_AUTHOR_NAME": "Ana", "GIT_AUTHOR_EMAIL": "ana@localhost"}
    done = subprocess.run(["git", *words], cwd=folder, env=environment, input=given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def repository(story: Story, tmp_path: Path) -> Path:
    """The person's own, as it was when the run began."""
    mine = tmp_path / "mine"
    shutil.copytree(story.origin, mine, symlinks=True)
    git(mine, "init", "-q")
    git(mine, "add", "-A")
    git(mine, "commit", "-qm", "first")
    return mine


def files(folder: Path) -> dict[str, Any]:
    """What git keeps of it: no folders, and of permissions whether it is a program."""
    return {
        name: state if isinstance(state, str) else (state[0], bool(state[1] & 0o100))
        for name, state in look(folder).items()
        if state != "folder" and not name.startswith(".git/")
    }


def client_of(person: Any) -> Client:
    client = Client()
    client.force_login(person)
    return client


@pytest.mark.spec("R4")
def test_git_makes_a_commit_of_it(story: Story, tmp_path: Path) -> None:
    mine = repository(story, tmp_path)
    story.begin()
    made = patch.of(story.run)
    assert not made.left_out
    git(mine, "am", given=made.message)
    assert files(mine) == files(story.folder)
    assert look(story.origin) == story.was
    author, message = git(mine, "log", "-1", "--format=%an <%ae>%n%B").split("\n", 1)
    assert author == "A <agentops@127.0.0.1>"
    assert f"AgentOps-Run: http://127.0.0.1:8000/runs/{story.run.pk}/" in message
    assert git(mine, "status", "--porcelain") == ""


@pytest.mark.spec("R4")
def test_it_is_made_where_the_folder_is_gone_and_holds_nothing_that_others_did_there(
    story: Story, tmp_path: Path
) -> None:
    mine = repository(story, tmp_path)
    story.begin()
    (story.folder / "somebody else's").write_text("not the run's")
    first = patch.of(story.run)
    shutil.rmtree(story.folder)
    assert patch.of(story.run).diff == first.diff
    assert b"somebody else" not in first.diff
    git(mine, "apply", given=first.message)
    assert (mine / "moved/c.txt").read_text() == "the first c.txt\n"


@pytest.mark.spec("K3", "R4")
def test_that_of_a_fork_holds_what_it_took_over(story: Story, tmp_path: Path) -> None:
    mine = repository(story, tmp_path)
    story.begin()
    parent = story.run
    story.run = fork_run(actor=story.boss, run=parent, step=2, message="", model="", limits={}).run
    story.drive()
    made = patch.of(story.run)
    git(mine, "apply", given=made.message)
    assert (mine / "a.txt").read_text() == (story.folder / "a.txt").read_text()
    assert files(mine) == files(story.folder)


@pytest.mark.spec("R4", "T2", "T3")
def test_page_api_and_terminal_give_the_same(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    story.begin()
    client = client_of(story.boss)
    page = client.get(f"/runs/{story.run.pk}/files/").content.decode()
    assert str(story.origin) in page
    assert reverse("run-patch", args=[story.run.pk]) in page
    answer = client.get(reverse("run-patch", args=[story.run.pk]))
    assert answer["Content-Disposition"] == f'attachment; filename="run-{str(story.run.pk)[:8]}.patch"'
    assert answer["X-Content-Type-Options"] == "nosniff"
    mail = answer.content
    told = client.get(f"/api/v1/runs/{story.run.pk}/patch/")
    printed = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", printed)
    call_command("agentops", "patch", str(story.run.pk))
    monkeypatch.undo()
    bodies = {one.partition(b"\n---\n")[2] for one in (mail, told.content, printed.buffer.getvalue())}
    assert bodies == {patch.of(story.run).diff}
    shown = io.StringIO()
    call_command("agentops", "diff", str(story.run.pk), stdout=shown)
    assert shown.getvalue() == patch.of(story.run).diff.decode()


@pytest.mark.spec("T3")
def test_a_terminal_gets_no_raw_bytes(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = "\x1b]52;c;cm0gLXJm\x07 hidden\n"
    story.begin([("write_file", {"path": "a.txt", "content": hostile})])
    shown = io.StringIO()
    call_command("agentops", "diff", str(story.run.pk), stdout=shown)
    assert "\x1b" not in shown.getvalue()
    assert "hidden" in shown.getvalue()
    assert hostile.encode() in patch.of(story.run).diff
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with pytest.raises(CommandError, match="git am"):
        call_command("agentops", "patch", str(story.run.pk))


@pytest.mark.spec("R4", "X5")
def test_what_cannot_be_in_it_is_named_above_the_first_change(story: Story, tmp_path: Path) -> None:
    mine = repository(story, tmp_path)
    make = "head -c 5000000 /dev/zero > large.bin; echo small > small.txt"
    story.begin([("run_command", {"command": make})])
    made = patch.of(story.run)
    assert len(made.left_out) == 1
    head = made.message.partition(b"diff --git")[0].decode()
    assert "  large.bin: A file of 5,000,000 bytes" in head
    git(mine, "am", given=made.message)
    assert (mine / "small.txt").read_text() == "small\n"
    assert "Not in this patch:" in git(mine, "log", "-1", "--format=%B")


@pytest.mark.spec("R4", "X5")
def test_none_is_said_and_nothing_breaks(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    story.begin([("list_files", {})])
    client = client_of(story.boss)
    assert "Download patch" not in client.get(f"/runs/{story.run.pk}/files/").content.decode()
    asked = client.get(reverse("run-patch", args=[story.run.pk]), follow=True)
    assert asked.redirect_chain == [(f"/runs/{story.run.pk}/files/", 302)]
    assert patch.NOTHING_CHANGED in asked.content.decode()
    told = client.get(f"/api/v1/runs/{story.run.pk}/patch/")
    assert (told.status_code, told.json()["detail"]) == (404, patch.NOTHING_CHANGED)
    with pytest.raises(CommandError, match=patch.NOTHING_CHANGED):
        call_command("agentops", "diff", str(story.run.pk))


@pytest.mark.spec("R4", "X5")
def test_too_much_for_one_is_refused_with_the_figures(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    story.begin(WORK[:1])
    monkeypatch.setattr(patch, "MOST_BYTES", 10)
    with pytest.raises(patch.NoPatch, match=r"hold 22 bytes before and after, more than the 10 of a patch"):
        patch.of(story.run)


@pytest.mark.spec("R4", "Q4")
def test_no_title_and_no_agent_gets_into_the_changes(story: Story, tmp_path: Path) -> None:
    """Whoever names a task or an agent does not write the patch."""
    mine = repository(story, tmp_path)
    story.begin(WORK[:1])
    title = "x\n---\ndiff --git a/d.txt b/d.txt\ndeleted file mode 100644\n\nFrom: b\x1b[31m"
    Run.objects.get(pk=story.run.pk).task.__class__.objects.filter(pk=story.run.task_id).update(title=title[:200])
    story.run.agent.__class__.objects.filter(pk=story.run.agent_id).update(name='B" <root@evil>\nSubject: y')
    made = patch.of(Run.objects.get(pk=story.run.pk))
    git(mine, "am", given=made.message)
    assert (mine / "d.txt").exists()
    assert git(mine, "log", "-1", "--format=%ae").strip() == "agentops@127.0.0.1"
    assert git(mine, "log", "-1", "--format=%s").startswith("x --- diff --git a/d.txt")
    assert b"\x1b" not in made.header
