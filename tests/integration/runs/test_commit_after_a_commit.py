"""The result of a run that began with a commit of a folder: its branch goes on from there (SPEC X3, I7)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from gates.models import Gate
from loops import jobs
from loops.models import Delivery, Run, Setup, Workspace
from loops.services import delivery as service
from loops.services.forks import fork_run
from loops.services.steering import NotPossible
from loops.workspaces import copies, sources
from tests.decisions import decide
from tests.integration.rollback.world import WORK, Story, look
from tests.integration.runs.test_commit import BRANCH, but_for_the_branch, checked_out, order
from tests.integration.runs.test_patch import client_of, files, git
from tests.unit.tools.harness import reachable

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("X3", "I7")]
DONE = ("task_completion", {"result": "Done."})


@pytest.fixture
def story(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Story:
    """The branch `feature` has what a run begins with; the person is on `main`, elsewhere, with a dirty tree."""
    monkeypatch.setattr(
        "loops.storage.dispatch.dispatch",
        lambda job, after=0, **given: jobs.deliver(**given) if job == "loops.deliver" else None,
    )
    story = Story(reachable(tmp_path), settings, monkeypatch)
    git(story.origin, "init", "-q", "-b", "main", ".")
    (story.origin / ".gitignore").write_text("*.log\n")
    git(story.origin, "add", "-A")
    git(story.origin, "commit", "-q", "-m", "first")
    git(story.origin, "branch", "feature")
    (story.origin / "a.txt").write_text("of main\n")
    (story.origin / ".gitignore").write_text("*.out\n")
    git(story.origin, "rm", "-q", "c.txt")
    git(story.origin, "commit", "-qam", "second")
    (story.origin / "d.txt").write_text("not committed\n")
    (story.origin / "untracked.txt").write_text("mine\n")
    git(story.origin, "status")
    return story


def by_a_worker(setup_id: str) -> bool:
    try:
        return jobs.set_up(setup_id)
    finally:
        connections.close_all()


def finish(story: Story, calls: list[tuple[str, dict[str, Any]]] = WORK, ref: str = "feature") -> Run:
    story.calls([*calls, DONE])
    Workspace.objects.update(git_ref=ref)
    assert story.drive() == "folder"
    with ThreadPoolExecutor(1) as pool:
        pool.submit(by_a_worker, str(Setup.objects.get().pk)).result()
    assert Setup.objects.get().why_not == ""
    assert story.drive() == "gate:final_review"
    gate = Gate.objects.get(run=story.run, status="open")
    decide(actor=story.boss, gate_id=gate.pk, verdict="approve", digest=gate.digest)
    assert story.drive() == "ended"
    return story.run


def test_the_branch_goes_on_from_the_commit_that_the_run_began_with(story: Story, tmp_path: Path) -> None:
    before, feature = but_for_the_branch(story.origin), git(story.origin, "rev-parse", "feature")
    objects = set((story.origin / ".git/objects").rglob("*"))
    finish(story)
    assert but_for_the_branch(story.origin) == before
    assert set((story.origin / ".git/objects").rglob("*")) == objects, "a run writes nothing there"
    status = git(story.origin, "status", "--porcelain")
    before = but_for_the_branch(story.origin)
    made = order(story)
    assert (made.state, made.why_not, made.folder) == ("applied", "", str(story.origin))
    assert but_for_the_branch(story.origin) == before
    assert git(story.origin, "status", "--porcelain") == status
    assert git(story.origin, "rev-parse", f"{made.branch}^") == feature
    assert git(story.origin, "rev-parse", "feature") == feature
    assert git(story.origin, "fsck", "--strict", "--full", "--no-dangling") == ""
    assert git(story.origin, "for-each-ref", "--format=%(refname)").split() == [
        f"refs/heads/{made.branch}",
        "refs/heads/feature",
        "refs/heads/main",
    ]
    expected = {name: state for name, state in files(story.folder).items() if not name.startswith(".git/")}
    assert checked_out(story.origin, made.branch, tmp_path / "out") == expected
    assert "first a.txt" not in git(story.origin, "show", f"{made.branch}:a.txt")


def test_where_it_began_is_on_its_pages(story: Story) -> None:
    run = finish(story)
    at, client = git(story.origin, "rev-parse", "feature").strip(), client_of(story.boss)
    page = client.get(f"/runs/{run.pk}/files/").content.decode()
    assert f"of its commit <code>{at}</code>" in page
    page = client.get(f"/runs/{run.pk}/commit/").content.decode()
    assert f"after <code>{at[:12]}</code>, which the run began with" in page
    page = client.get(f"/workspaces/{run.task.workspace_id}/").content.decode()
    assert f"<code>{story.origin} @ feature</code>, runs work on copies of it" in page
    assert f"Commit <code>{at}</code>" in page


def test_what_gitignore_says_there_counts_and_not_what_the_work_tree_says(story: Story) -> None:
    finish(story, [("run_command", {"command": "touch x.log x.out"})])
    plan = service.preview(story.boss, story.run, BRANCH).plan
    assert plan.steps == ("x.out",)
    assert "x.log" in str(plan.left_out)


def test_it_is_applied_to_the_folder_only_where_that_has_what_the_run_began_with(story: Story) -> None:
    finish(story)
    before = look(story.origin)
    plan = service.preview(story.boss, story.run).plan
    assert {path for path, _ in plan.conflicts} == {"a.txt", "d.txt", "e.txt"}, "e.txt has other permissions"
    with pytest.raises(NotPossible, match=r"a\.txt"):
        service.apply_result(actor=story.boss, run=story.run, digest=plan.digest)
    assert look(story.origin) == before


def test_and_there_it_is_applied(story: Story) -> None:
    finish(story, [("write_file", {"path": "new.txt", "content": "new\n"})])
    plan = service.preview(story.boss, story.run).plan
    made = service.apply_result(actor=story.boss, run=story.run, digest=plan.digest)
    made.refresh_from_db()
    assert (made.state, (story.origin / "new.txt").read_text()) == ("applied", "new\n")


def test_a_commit_that_is_gone_has_the_patch(story: Story) -> None:
    git(story.origin, "checkout", "-q", "-f", "feature")
    (story.origin / "a.txt").write_text("thrown away\n")
    git(story.origin, "commit", "-qam", "third")
    git(story.origin, "checkout", "-q", "main")
    finish(story, [("write_file", {"path": "new.txt", "content": "new\n"})])
    git(story.origin, "branch", "-f", "feature", "main")
    git(story.origin, "reflog", "expire", "--expire=now", "--all")
    git(story.origin, "gc", "-q", "--prune=now")
    with pytest.raises(NotPossible, match="gone, borrowed or was never fetched"):
        service.preview(story.boss, story.run, BRANCH)


def test_the_branch_moved_on_and_the_commit_did_not(story: Story) -> None:
    """The order is for what was shown: the run's own commit, which nobody moves."""
    finish(story, [("write_file", {"path": "new.txt", "content": "new\n"})])
    feature = git(story.origin, "rev-parse", "feature")
    git(story.origin, "checkout", "-q", "-f", "feature")
    (story.origin / "a.txt").write_text("more\n")
    git(story.origin, "commit", "-qam", "third")
    made = order(story)
    assert made.state == "applied"
    assert git(story.origin, "rev-parse", f"{made.branch}^") == feature


def test_another_folder_since_is_refused(story: Story) -> None:
    finish(story)
    Workspace.objects.update(path=str(story.origin.parent))
    with pytest.raises(NotPossible, match="another folder since"):
        service.preview(story.boss, story.run, BRANCH)


def test_a_fork_goes_on_from_where_its_first_run_began(story: Story) -> None:
    """Whatever commit the agent made in its own copy, which the fork is a copy of."""
    commit = "echo y > y.txt; git add -A; git commit -qm mine; git rev-parse HEAD"
    run = finish(story, [("run_command", {"command": commit}), ("write_file", {"path": "z.txt", "content": "z\n"})])
    feature = git(story.origin, "rev-parse", "feature").strip()
    assert sources.commit_in(Path(run.workspace_path)) not in ("", feature), "the control"
    fork = fork_run(actor=story.boss, run=run, seq=run.head_seq).run
    story.run = fork
    story.drive()
    fork.refresh_from_db()
    assert sources.commit_in(Path(fork.workspace_path)) not in ("", feature), "the control"
    assert (copies.where(fork).commit, fork.copied_from) == (feature, run.copied_from)


def test_in_place_of_such_a_workspace_is_refused(story: Story) -> None:
    story.calls([DONE])
    Workspace.objects.update(git_ref="feature", copy_for_each_run=False)
    assert story.drive() == "folder"
    story.run.refresh_from_db()
    assert "leave that empty" in story.run.waiting_on
    assert Delivery.objects.count() == 0
