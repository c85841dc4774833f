"""A result becomes a commit on a branch of the person's own repository, of which nothing runs (SPEC X3)."""

from __future__ import annotations

import io
import itertools
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from loops import jobs
from loops.models import AuditEvent, Delivery, Membership, Run, Workspace
from loops.services import delivery as service
from loops.services.access import NotAllowed
from loops.services.steering import NotPossible
from loops.tools.snapshots import NOTHING
from loops.tools.workspace import Workspace as Opened
from loops.workspaces import commits, delivery, patch
from loops.workspaces.git import repository, rules, writer
from tests import factories as make
from tests.integration.rollback.world import Story, look
from tests.integration.runs.test_apply import commit as finish
from tests.integration.runs.test_apply import nobody_hears
from tests.integration.runs.test_patch import client_of, files, git

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("X3")]
BRANCH = Delivery.Kind.BRANCH


@pytest.fixture
def story(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Story:
    """The person's folder is a repository; jobs are done when they are handed over."""
    monkeypatch.setattr(
        "loops.storage.dispatch.dispatch",
        lambda job, after=0, **given: jobs.deliver(**given) if job == "loops.deliver" else None,
    )
    story = Story(tmp_path, settings, monkeypatch)
    begin(story.origin)
    return story


def begin(folder: Path, *words: str) -> None:
    git(folder, "init", "-q", *words, ".")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")


def order(story: Story, actor: Any = None) -> Delivery:
    actor = actor or story.boss
    digest = service.preview(actor, story.run, BRANCH).plan.digest
    made = service.apply_result(actor=actor, run=story.run, digest=digest, kind=BRANCH)
    made.refresh_from_db()
    return made


def refused(story: Story) -> str:
    """Why there can be no order."""
    with pytest.raises(NotPossible) as error:
        order(story)
    return str(error.value)


def but_for_the_branch(folder: Path) -> dict[str, Any]:
    """Everything in the folder, but for objects and the branches of AgentOps."""
    ours = (".git/objects", ".git/refs/heads/agentops")
    return {name: state for name, state in look(folder).items() if not name.startswith(ours)}


def checked_out(folder: Path, branch: str, into: Path) -> dict[str, Any]:
    git(folder, "worktree", "add", "-q", str(into), branch)
    found = files(into)
    git(folder, "worktree", "remove", "--force", str(into))
    found.pop(".git")
    return found


def test_the_branch_has_what_the_run_left_and_nothing_else_moved(story: Story, tmp_path: Path) -> None:
    finish(story)
    git(story.origin, "status")
    before = but_for_the_branch(story.origin)
    made = order(story)
    assert (made.state, made.why_not) == ("applied", "")
    assert but_for_the_branch(story.origin) == before
    assert git(story.origin, "status", "--porcelain") == ""
    assert git(story.origin, "fsck", "--strict", "--full") == ""
    assert git(story.origin, "rev-parse", made.branch).strip() == made.commit
    assert git(story.origin, "rev-parse", f"{made.branch}^") == git(story.origin, "rev-parse", "HEAD")
    expected = files(story.folder)
    assert checked_out(story.origin, made.branch, tmp_path / "out") == {
        name: state for name, state in expected.items() if not name.startswith(".git")
    }
    events = AuditEvent.objects.filter(kind__in=("run.commit", "run.committed")).order_by("pk")
    assert [event.kind for event in events] == ["run.commit", "run.committed"]
    assert events[1].detail["commit"] == made.commit


def test_its_message_names_the_agent_and_the_run(story: Story) -> None:
    finish(story)
    story.boss.email = "ana@example.org"
    story.boss.save()
    made = order(story)
    shown = git(story.origin, "show", "-s", "--format=%an <%ae>%n%cn <%ce>%n%ct%n%B", made.branch).split("\n")
    assert shown[:3] == [f"A <{patch.no_reply()}>", "ana <ana@example.org>", str(int(made.ordered_at.timestamp()))]
    assert shown[3] == patch.subject(story.run)
    assert any(line == f"AgentOps-Run: {patch.link(story.run)}" for line in shown)
    assert any(line.startswith("AgentOps-Record: ") for line in shown)


def test_the_patch_and_the_commit_say_the_same(story: Story) -> None:
    finish(story)
    made = order(story)
    shown = git(story.origin, "show", "--binary", "-M", "--full-index", "--format=", made.branch)
    mine = git(story.origin, "diff", "--binary", "-M", "--full-index", "HEAD", made.branch)
    assert shown == mine
    git(story.origin, "checkout", "-q", "--detach")
    git(story.origin, "am", "-q", given=patch.of(story.run).message)
    assert git(story.origin, "rev-parse", "HEAD^{tree}") == git(story.origin, "rev-parse", f"{made.branch}^{{tree}}")


# --- nothing of the repository runs ----------------------------------------------------------------------------------


@pytest.mark.spec("I7")
def test_no_program_of_the_repository_runs(story: Story, tmp_path: Path) -> None:
    """With the positive control: ordinary git runs the same ones."""
    finish(story)
    marker, program = tmp_path / "ran", tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $0 >> {marker}\nexec cat\n")
    program.chmod(0o755)
    hooks = story.origin / ".git/hooks"
    for name in ("pre-commit", "post-commit", "reference-transaction", "post-index-change", "commit-msg"):
        (hooks / name).unlink(missing_ok=True)
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {marker}\n")
        (hooks / name).chmod(0o755)
    for key in ("core.fsmonitor", "gpg.program", "core.sshCommand", "core.pager", "core.editor"):
        git(story.origin, "config", key, str(program))
    git(story.origin, "config", "filter.evil.clean", str(program))
    git(story.origin, "config", "commit.gpgSign", "true")
    settings = (story.origin / ".git/config").read_text()
    (story.origin / ".git/config").write_text(f"{settings}[include]\n\tpath = /dev/zero\n")
    (story.origin / ".git/info/attributes").write_text("by_nobody filter=evil\n")
    made = order(story)
    assert (made.state, made.why_not) == ("applied", "")
    assert not marker.exists()
    (story.origin / ".git/config").write_text(settings)
    git(story.origin, "config", "--unset", "commit.gpgSign")
    (story.origin / "by_nobody").write_text("x")
    git(story.origin, "add", "by_nobody")
    git(story.origin, "commit", "-qm", "control")
    ran = marker.read_text()
    assert all(name in ran for name in ("pre-commit", "reference-transaction", str(program)))


@pytest.mark.spec("I7")
def test_what_git_would_pass_through_a_program_is_not_committed(story: Story) -> None:
    (story.origin / ".gitattributes").write_text("[attr]big filter=lfs\n*.bin big\n*.u working-tree-encoding=UTF-16\n")
    git(story.origin, "add", "-A")
    git(story.origin, "commit", "-qm", "attributes")
    finish(story, [("run_command", {"command": "echo x > a.bin; echo y > b.u; echo z > c.txt"})])
    said = refused(story)
    assert "a.bin: git passes it through a program or a conversion (filter=lfs)" in said
    assert "b.u: " in said
    assert "c.txt" not in said
    assert git(story.origin, "branch", "--list", "agentops/*") == ""


@pytest.mark.spec("I7")
@pytest.mark.parametrize("place", [".git", ".git/objects", ".git/refs/heads", ".git/refs/heads/agentops"])
def test_no_link_leads_a_write_out_of_the_folder(story: Story, tmp_path: Path, place: str) -> None:
    finish(story)
    elsewhere, link = tmp_path / "elsewhere", story.origin / place
    if link.exists():
        link.rename(elsewhere)
    else:
        elsewhere.mkdir()
    link.symlink_to(elsewhere)
    was = look(elsewhere)
    try:
        made = order(story)
    except NotPossible:
        made = None
    assert made is None or made.state == "refused"
    assert look(elsewhere) == was


@pytest.mark.spec("I7", "X5")
def test_a_pipe_in_place_of_an_object_holds_nobody_up(story: Story) -> None:
    finish(story)
    name = git(story.origin, "rev-parse", "HEAD").strip()
    place = story.origin / ".git/objects" / name[:2] / name[2:]
    place.unlink()
    os.mkfifo(place)
    assert "not a regular file" in refused(story)
    place.unlink()
    os.mkfifo(story.origin / ".git/objects/pack/pack-x.idx")
    assert "no ordinary file" in refused(story)


def test_what_lies_in_another_repository_is_not_read(story: Story, tmp_path: Path) -> None:
    finish(story)
    shutil.move(story.origin / ".git/objects", tmp_path / "theirs")
    (story.origin / ".git/objects/info").mkdir(parents=True)
    (story.origin / ".git/objects/info/alternates").write_text(f"{tmp_path / 'theirs'}\n")
    assert git(story.origin, "log", "--format=%s") == "first\n", "control: git reads it there"
    assert "is not in the repository itself" in refused(story)


def test_a_damaged_repository_is_refused(story: Story) -> None:
    finish(story)
    name = git(story.origin, "rev-parse", "HEAD").strip()
    place = story.origin / ".git/objects" / name[:2] / name[2:]
    place.chmod(0o644)
    place.write_bytes(b"x")
    assert "is damaged" in refused(story)
    tree = repository.object_name("tree", b"")
    other = git(story.origin, "commit-tree", "-m", "x", tree).strip()
    shutil.copy(story.origin / ".git/objects" / other[:2] / other[2:], place)
    assert "is damaged" in refused(story), "a sound object under another's name"


@pytest.mark.spec("X5")
def test_rules_whose_match_could_take_for_ever_are_not_obeyed(story: Story) -> None:
    """Of attributes each double star multiplies what a match costs; with the positive control of a cheap one."""
    (story.origin / ".git/info/attributes").write_text("**/a/**/c/**/e/**/z filter=f\n**/cheap/** filter=f\n")
    finish(story, [("run_command", {"command": "mkdir -p a/b/c/d/e/f cheap; touch a/b/c/d/e/f/z cheap/z"})])
    plan = service.preview(story.boss, story.run, BRANCH).plan
    assert plan.steps == ("a/b/c/d/e/f/z",)
    assert [path for path, _ in plan.conflicts] == ["cheap/z"]


@pytest.mark.spec("X5", "I5")
def test_what_a_nested_gitignore_takes_back_is_committed(story: Story) -> None:
    """And rules with many stars leave out what git would: nothing of them takes long."""
    (story.origin / ".git/info/exclude").write_text("**/a/**/c/**/e/**/z\n*.log\n")
    command = "mkdir -p a/b/c/d/e/f logs; echo '!keep.log' > logs/.gitignore; touch a/b/c/d/e/f/z logs/keep.log b.log"
    finish(story, [("run_command", {"command": command})])
    plan = service.preview(story.boss, story.run, BRANCH).plan
    assert set(plan.steps) == {"logs/.gitignore", "logs/keep.log"}
    assert git(story.origin, "check-ignore", "--no-index", "a/b/c/d/e/f/z")


@pytest.mark.spec("X5", "I5")
def test_rules_that_take_too_long_stop_a_commit(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would not be known what belongs into it; the patch asks no rules."""
    finish(story, [("write_file", {"path": "new.txt", "content": "x"})])
    monkeypatch.setattr(rules, "LONGEST_S", 0.0)
    with pytest.raises(repository.Unusable, match="Take the patch"):
        commits.plan(patch.portable(story.run), str(story.origin), story.run)


# --- what is in the way ----------------------------------------------------------------------------------------------


def in_the_copy_only(story: Story) -> None:
    git(story.origin, "rm", "-q", "--cached", "e.txt")
    git(story.origin, "commit", "-qm", "no e")


def committed_since(story: Story) -> None:
    (story.origin / "a.txt").write_text("mine\n")
    git(story.origin, "commit", "-qam", "mine")


def a_file_in_place_of_a_folder(story: Story) -> None:
    (story.origin / "deep").write_text("mine\n")
    git(story.origin, "add", "deep")
    git(story.origin, "commit", "-qm", "mine")


@pytest.mark.spec("X5")
@pytest.mark.parametrize(
    ("meanwhile", "path", "why"),
    [
        (in_the_copy_only, "e.txt", commits.UNCOMMITTED),
        (committed_since, "a.txt", commits.UNCOMMITTED),
        (a_file_in_place_of_a_folder, "deep/er/b.txt", "has a file where"),
    ],
)
def test_nothing_is_committed_over_what_the_last_commit_has(
    story: Story, meanwhile: Callable[[Story], None], path: str, why: str
) -> None:
    finish(story)
    meanwhile(story)
    plan = service.preview(story.boss, story.run, BRANCH).plan
    assert {one for one, _ in plan.conflicts} == {path}
    said = refused(story)
    assert f"{path}: " in said
    assert why in said
    assert git(story.origin, "branch", "--list", "agentops/*") == ""
    assert AuditEvent.objects.filter(kind="run.commit_refused").count() == 1


def test_what_was_not_committed_when_the_copy_was_taken_is_not_committed_now(story: Story) -> None:
    (story.origin / "a.txt").write_text("mine, not committed\n")
    finish(story, [("run_command", {"command": "echo more >> a.txt; echo new > new.txt"})])
    assert "a.txt: the last commit has it otherwise" in refused(story)


def test_what_gitignore_leaves_out_is_named_and_left_out(story: Story) -> None:
    (story.origin / ".git/info/exclude").write_text("*.log\n")
    command = "printf 'build/\\n' > .gitignore; mkdir build; touch build/x.o run.log; echo done > new.txt"
    finish(story, [("run_command", {"command": command})])
    plan = service.preview(story.boss, story.run, BRANCH).plan
    assert {file.path for file in plan.files} == {".gitignore", "new.txt"}
    assert [line.split(":")[0] for line in service.preview(story.boss, story.run, BRANCH).left_out] == [
        "build/x.o",
        "run.log",
    ]
    made = order(story)
    listed = git(story.origin, "ls-tree", "-r", "--name-only", made.branch).split()
    assert {"new.txt", ".gitignore"} <= set(listed)
    assert not {"build/x.o", "run.log"} & set(listed)
    assert "build/x.o: .gitignore leaves it out" in git(story.origin, "show", "-s", "--format=%B", made.branch)


@pytest.mark.spec("I7")
@pytest.mark.parametrize("target", ["../secret", "/etc/passwd", "old/../../secret", "old/link/../../x"])
def test_links_that_may_lead_out_are_not_committed(story: Story, target: str) -> None:
    finish(story)
    change = service.patch.FileChange("out", NOTHING, f"link:{target}")
    plan = commits.plan(patch.Portable((change,), (), {}), str(story.origin), story.run)
    assert plan.conflicts == (("out", delivery.LEADS_OUT),)


@pytest.mark.spec("I7")
@pytest.mark.parametrize("path", [".GIT/config", "d/.git/hooks/x", "git~1/x", ".g\u200cit/x", ".git ./x", "a\\.git\\b"])
def test_nothing_of_git_gets_into_a_commit(story: Story, path: str) -> None:
    finish(story)
    change = service.patch.FileChange(path, NOTHING, "link:a.txt")
    plan = commits.plan(patch.Portable((change,), (), {}), str(story.origin), story.run)
    assert [why for _, why in plan.conflicts] == [commits.OF_GIT]
    good = service.patch.FileChange("d/.github/x", NOTHING, "link:a.txt")
    assert commits.plan(patch.Portable((good,), (), {}), str(story.origin), story.run).conflicts == ()


# --- repositories of every kind --------------------------------------------------------------------------------------


def test_what_is_packed_is_found_as_well(story: Story) -> None:
    for number in range(30):
        (story.origin / "a.txt").write_text(f"{number}\n" * 500)
        (story.origin / "old" / f"{number}").write_text("x" * number)
        git(story.origin, "add", "-A")
        git(story.origin, "commit", "-qm", f"{number}")
    git(story.origin, "gc", "-q", "--aggressive", "--prune=now")
    assert not (story.origin / ".git/refs/heads/master").exists()
    finish(story)
    made = order(story)
    assert (made.state, made.why_not) == ("applied", "")
    assert git(story.origin, "fsck", "--strict") == ""
    assert git(story.origin, "rev-list", "--count", made.branch) == "32\n"


def test_a_detached_head_is_the_parent(story: Story) -> None:
    git(story.origin, "checkout", "-q", "--detach")
    git(story.origin, "commit", "-q", "--allow-empty", "-m", "beside")
    finish(story)
    made = order(story)
    assert git(story.origin, "show", "-s", "--format=%s", f"{made.branch}^") == "beside\n"


def test_without_a_commit_it_is_the_first(tmp_path: Path, story: Story) -> None:
    shutil.rmtree(story.origin)
    story.origin.mkdir()
    git(story.origin, "init", "-q", ".")
    finish(story, [("run_command", {"command": "mkdir d; echo x > d/f"})])
    made = order(story)
    assert (made.state, made.why_not) == ("applied", "")
    assert git(story.origin, "rev-list", "--count", made.branch) == "1\n"
    assert git(story.origin, "ls-tree", "-r", "--name-only", made.branch) == "d/f\n"
    assert git(story.origin, "fsck", "--strict", "--full") == ""


def sha256(folder: Path) -> None:
    shutil.rmtree(folder / ".git")
    begin(folder, "--object-format=sha256")


def not_a_repository(folder: Path) -> None:
    shutil.rmtree(folder / ".git")


def in_a_repository(folder: Path) -> None:
    (folder / ".git").rename(folder.parent / ".git")


def a_worktree(folder: Path) -> None:
    main = folder.parent / "main"
    (folder / ".git").rename(main)
    (folder / ".git").write_text(f"gitdir: {main}\n")


def setting(key: str, value: str) -> Callable[[Path], None]:
    def set_it(folder: Path) -> None:
        config = folder / ".git/config"
        config.write_text(config.read_text().replace("repositoryformatversion = 0", "repositoryformatversion = 1"))
        section, _, name = key.partition(".")
        with config.open("a") as file:
            file.write(f"[{section}]\n\t{name} = {value}\n")

    return set_it


@pytest.mark.parametrize(
    ("become", "why"),
    [
        (sha256, "objects by sha256"),
        (setting("extensions.refStorage", "reftable"), "branches as reftable"),
        (setting("extensions.somethingNew", "true"), "the extension somethingnew"),
        (setting("core.repositoryFormatVersion", "2"), "a newer format"),
        (setting("core.bare", "true"), "bare"),
        (not_a_repository, "not the top of a git repository"),
        (in_a_repository, "not the top of a git repository"),
        (a_worktree, "linked worktree or a submodule"),
    ],
)
def test_repositories_that_are_not_written_to_say_why(story: Story, become: Callable[[Path], None], why: str) -> None:
    finish(story, [("write_file", {"path": "new.txt", "content": "x"})])
    become(story.origin)
    was = look(story.origin)
    assert why in refused(story)
    assert look(story.origin) == was


def test_what_a_submodule_holds_is_not_committed(story: Story, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "f").write_text("x\n")
    begin(other)
    git(story.origin, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "sub")
    git(story.origin, "commit", "-qm", "sub")
    finish(story, [("write_file", {"path": "new.txt", "content": "x"})])
    change = service.patch.FileChange("sub/f", NOTHING, "link:g")
    plan = commits.plan(patch.Portable((change,), (), {}), str(story.origin), story.run)
    assert [path for path, _ in plan.conflicts] == ["sub/f"]
    made = order(story)
    assert git(story.origin, "ls-tree", made.branch, "sub").startswith("160000 commit ")


# --- the branch ------------------------------------------------------------------------------------------------------


def test_once_it_is_there_nothing_is_left(story: Story) -> None:
    finish(story)
    order(story)
    assert "Nothing is left to commit" in refused(story)
    assert Delivery.objects.count() == 1


@pytest.mark.parametrize("packed", [False, True])
def test_a_branch_of_the_person_is_never_moved(story: Story, packed: bool) -> None:
    finish(story)
    name = commits.branch_of(story.run)
    git(story.origin, "branch", name)
    if packed:
        git(story.origin, "pack-refs", "--all")
    was = git(story.origin, "rev-parse", name)
    assert "is there already, with something else" in refused(story)
    assert git(story.origin, "rev-parse", name) == was
    git(story.origin, "branch", "-m", name, "kept")
    assert order(story).state == "applied"


def test_a_branch_that_comes_while_it_is_written_stays(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(story)
    whole, name = writer.write_object, commits.branch_of(story.run)

    def write_object(*given: Any) -> None:
        git(story.origin, "branch", "-f", name, "HEAD")
        whole(*given)

    monkeypatch.setattr(writer, "write_object", write_object)
    made = order(story)
    assert made.state == "refused"
    assert made.why_not == writer.TAKEN.format(f"refs/heads/{name}")
    assert git(story.origin, "rev-parse", name) == git(story.origin, "rev-parse", "HEAD")


def test_a_branch_that_head_stands_for_is_not_made(story: Story) -> None:
    finish(story)
    git(story.origin, "checkout", "-q", "--orphan", commits.branch_of(story.run))
    assert "Check out another branch" in refused(story)


def test_a_branch_that_is_called_as_our_folder_is_in_the_way(story: Story) -> None:
    finish(story)
    git(story.origin, "branch", "agentops")
    assert "agentops is a branch of the repository" in refused(story)
    git(story.origin, "branch", "-m", "agentops", f"{commits.branch_of(story.run)}/x")
    made = order(story)
    assert made.state == "refused"
    assert "is a branch of the repository" in made.why_not


def test_the_lock_of_another_git_is_respected(story: Story) -> None:
    finish(story)
    lock = story.origin / f".git/refs/heads/{commits.branch_of(story.run)}.lock"
    lock.parent.mkdir()
    lock.write_text("")
    made = order(story)
    assert made.state == "refused"
    assert "holds the lock" in made.why_not
    assert {path.name for path in lock.parent.iterdir()} == {lock.name}
    lock.unlink()
    assert order(story).state == "applied"


def test_a_commit_of_the_person_after_it_was_shown(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(story)
    digest = service.preview(story.boss, story.run, BRANCH).plan.digest
    git(story.origin, "commit", "-q", "--allow-empty", "-m", "meanwhile")
    with pytest.raises(NotPossible, match="changed since this was shown"):
        service.apply_result(actor=story.boss, run=story.run, digest=digest, kind=BRANCH)
    nobody_hears(monkeypatch)
    late = order(story)
    git(story.origin, "commit", "-q", "--allow-empty", "-m", "again")
    assert service.carry_out(late.pk) == "refused"
    assert git(story.origin, "branch", "--list", "agentops/*") == ""


# --- a worker that dies ----------------------------------------------------------------------------------------------


@pytest.mark.spec("J4")
def test_a_worker_that_is_lost_is_followed_by_another(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the person committed meanwhile: what was begun is about the commit that it was planned after."""
    finish(story)
    nobody_hears(monkeypatch)
    made = order(story)

    class Killed(BaseException):
        pass

    def killed(*_: Any) -> None:
        raise Killed

    monkeypatch.setattr(writer, "make_branch", killed)
    with pytest.raises(Killed):
        service.carry_out(made.pk)
    monkeypatch.undo()
    assert git(story.origin, "branch", "--list", "agentops/*") == ""
    parent = git(story.origin, "rev-parse", "HEAD")
    git(story.origin, "commit", "-q", "--allow-empty", "-m", "meanwhile")
    assert service.carry_out(made.pk) == "applied"
    made.refresh_from_db()
    assert git(story.origin, "rev-parse", f"{made.branch}^") == parent
    assert service.carry_out(made.pk) == ""


CALLS = ("open", "rename", "mkdir", "link", "unlink", "fsync", "fchmod")


@pytest.mark.spec("J4")
def test_killed_before_any_of_its_calls_there_is_the_whole_branch_or_none(story: Story, tmp_path: Path) -> None:
    """Kill -9 before the first call of the system that writes, before the second ... until there is none left."""
    ref, body = "refs/heads/agentops/x", b"some bytes\n"
    blob = repository.object_name("blob", body)
    tree_body = b"100644 f\0" + bytes.fromhex(blob)
    tree = repository.object_name("tree", tree_body)
    text = f"tree {tree}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n".encode()
    name = repository.object_name("commit", text)

    def write(folder: Path) -> None:
        with Opened(str(folder), delivery._LIMITS, order="x") as opened, repository.opened(opened.beneath) as found:
            for kind, one, data in (("blob", blob, body), ("tree", tree, tree_body), ("commit", name, text)):
                writer.write_object(opened.beneath, one, kind, data, "order")
            writer.make_branch(found, ref, name, "order")

    for trial in range(1, 200):
        folder = tmp_path / f"trial{trial}"
        shutil.copytree(story.origin, folder, symlinks=True)
        child = os.fork()
        if not child:
            _die_before(trial)
            try:
                write(folder)
                os._exit(0)
            finally:
                os._exit(2)
        _, ended = os.waitpid(child, 0)
        there = git(folder, "for-each-ref", "--format=%(objectname)", ref).strip()
        assert there in ("", name)
        assert git(folder, "fsck", "--strict", "--no-dangling") == ""
        write(folder)
        assert git(folder, "rev-parse", ref).strip() == name
        assert git(folder, "fsck", "--strict", "--full") == ""
        assert [path.name for path in (folder / ".git/refs/heads/agentops").iterdir()] == ["x"]
        assert not list(folder.rglob("tmp_obj_*"))
        if not os.WIFSIGNALED(ended):
            assert ended == 0
            break
        shutil.rmtree(folder)
    assert trial > 30


def _die_before(number: int) -> None:
    counted = itertools.count(1)

    def counting(call: Any) -> Any:
        def made(*given: Any, **more: Any) -> Any:
            if next(counted) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*given, **more)

        return made

    for name in CALLS:
        setattr(os, name, counting(getattr(os, name)))


# --- who may, and by which door --------------------------------------------------------------------------------------


@pytest.mark.spec("S4")
def test_who_may(story: Story, settings: Any) -> None:
    """As with applying: whoever may change the folder through a run that works in it."""
    finish(story)
    settings.WORKSPACE_ROOTS = []
    operator, reviewer = make.user("olga"), make.user("rita")
    for person, role in ((operator, "operator"), (reviewer, "reviewer")):
        Membership.objects.create(user=person, project=story.project, role=role)
    given = {"allowed_by": story.boss, "allowed_path": str(story.origin)}
    Workspace.objects.update(**given)
    story.run = Run.objects.get(pk=story.run.pk)
    with pytest.raises(NotAllowed, match="commit results"):
        order(story, reviewer)
    with pytest.raises(NotPossible, match="lies outside the workspace roots"):
        order(story, operator)
    Workspace.objects.update(allowed_in_place=True)
    story.run = Run.objects.get(pk=story.run.pk)
    assert order(story, operator).state == "applied"


def test_a_repository_that_we_may_not_write_in_says_what_lets_us(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder may be ours to write in, and what git keeps in it somebody else's."""
    finish(story)
    allowed, place = os.access, story.origin / ".git/objects"
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != place and allowed(path, mode))
    assert f"who may not read {place}: `chown" in refused(story)


@pytest.mark.spec("S4", "T2", "T3")
def test_no_door_is_open_to_others(story: Story) -> None:
    finish(story)
    viewer, stranger = make.user("vera"), make.user("simon")
    Membership.objects.create(user=viewer, project=story.project, role="viewer")
    name = f"/runs/{story.run.pk}/commit/"
    digest = service.preview(story.boss, story.run, BRANCH).plan.digest
    expected = {viewer: (404, 403, 200), stranger: (404, 404, 404)}
    for person, (page, api, text) in expected.items():
        client = client_of(person)
        assert client.get(name).status_code == client.post(name, {"digest": digest}).status_code == page
        body = json.dumps({"digest": digest})
        assert client.post(f"/api/v1{name}", body, content_type="application/json").status_code == api
        assert client.get(f"/api/v1{name}").status_code == api
        assert client.get(f"/api/v1/runs/{story.run.pk}/pull-request/").status_code == text
        with pytest.raises(CommandError):
            call_command("agentops", "--as", person.username, "commit", str(story.run.pk), "--yes")
    assert not Delivery.objects.exists()
    assert git(story.origin, "branch", "--list", "agentops/*") == ""


@pytest.mark.spec("T2", "T3")
def test_page_api_and_terminal_show_the_same_and_order_the_same(story: Story) -> None:
    finish(story)
    client, name = client_of(story.boss), f"/runs/{story.run.pk}/commit/"
    page = client.get(name).content.decode()
    plan = service.preview(story.boss, story.run, BRANCH).plan
    assert all(file.path in page for file in plan.files)
    assert f'value="{plan.digest}"' in page
    shown = client.get(f"/api/v1{name}").json()
    assert isinstance(plan, commits.Plan)
    assert (shown["digest"], shown["branch"], shown["parent"]) == (plan.digest, plan.branch, plan.parent)
    said = io.StringIO()
    with pytest.raises(CommandError, match="Nothing was written"):
        call_command("agentops", "commit", str(story.run.pk), stdout=said)
    assert "deleted  d.txt" in said.getvalue()
    wrong = client.post(f"/api/v1{name}", json.dumps({"digest": "0" * 64}), content_type="application/json")
    assert wrong.status_code == 409
    assert git(story.origin, "branch", "--list", "agentops/*") == ""
    call_command("agentops", "commit", str(story.run.pk), "--yes", stdout=said)
    assert f"Committed to {plan.branch} of {story.origin}: " in said.getvalue()
    told = client.get(f"/api/v1{name}").json()["latest"]
    commit = git(story.origin, "rev-parse", plan.branch).strip()
    assert (told["state"], told["kind"], told["branch"], told["commit"]) == ("applied", "branch", plan.branch, commit)
    assert client.get(f"/api/v1/runs/{story.run.pk}/apply/").json()["latest"] is None
    files_page = client.get(f"/runs/{story.run.pk}/files/").content.decode()
    assert "Committed to the branch" in files_page
    assert "none of these changes" not in files_page


def test_a_result_can_be_applied_and_committed_one_after_the_other(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(story)
    with monkeypatch.context() as patched:
        nobody_hears(patched)
        first = order(story)
        digest = service.preview(story.boss, story.run).plan.digest
        with pytest.raises(NotPossible, match="being committed already"):
            service.apply_result(actor=story.boss, run=story.run, digest=digest)
        page = client_of(story.boss).get(f"/runs/{story.run.pk}/apply/").content.decode()
        assert "Cancel this request" in page
    assert service.carry_out(first.pk) == "applied"
    first.refresh_from_db()
    second = service.apply_result(actor=story.boss, run=story.run, digest=digest)
    second.refresh_from_db()
    assert (second.state, second.kind) == ("applied", "folder")
    shown = client_of(story.boss).get(f"/runs/{story.run.pk}/files/").content.decode()
    assert "Applied to" in shown
    assert "Committed to the branch" in shown
    git(story.origin, "add", "-A")
    assert git(story.origin, "diff", "--cached", "--stat", first.branch) == ""


def test_a_run_says_that_its_result_is_still_in_its_own_copy(story: Story) -> None:
    finish(story)
    client, name = client_of(story.boss), f"/runs/{story.run.pk}/"
    assert "The result is still in the run&#x27;s own copy" in client.get(name).content.decode().replace("'", "&#x27;")
    assert "until they are applied or committed there" in client.get(f"{name}files/").content.decode()
    order(story)
    assert "own copy" not in client.get(name).content.decode()


def test_rules_are_read_in_a_folder_of_our_own(story: Story) -> None:
    """A pattern of every kind, against git itself."""
    texts = {
        ".gitignore": "*.o\n!keep.o\nbuild/\n/top\n",
        "sub/.gitignore": "/x\n*.tmp\n",
        "old/.gitattributes": "*.dat filter=f\n",
    }
    for path, text in texts.items():
        (story.origin / path).parent.mkdir(exist_ok=True)
        (story.origin / path).write_text(text)
    names = ["a.o", "keep.o", "build/x", "d/build/y", "top", "sub/top", "sub/x", "sub/d/x", "sub/a.tmp", "a.tmp"]
    with (
        Opened(str(story.origin), delivery._LIMITS, order="look") as opened,
        repository.opened(opened.beneath) as found,
        rules.of(found, [*names, "old/a.dat"], {}) as its_rules,
    ):
        ours = {name for name in names if its_rules.ignores(name)}
        assert its_rules.converts("old/a.dat") == "filter=f"
        assert its_rules.converts("a.dat") == ""
    theirs = subprocess.run(
        ["git", "check-ignore", "--no-index", *names], cwd=story.origin, capture_output=True, text=True, check=True
    )
    assert ours == set(theirs.stdout.split())
    assert ours
