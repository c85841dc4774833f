"""Git in a folder of a person's is, after a command, what it was before; and no command loses its result to that (SPEC
I7).

``person`` has a repository with another one in it. What is done by a command is tried at both levels of the sandbox.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loops.tools import command_inputs
from loops.tools.limits import Limits
from loops.tools.sandbox.capability import CONFINED, FULL
from loops.tools.sandbox.safe_paths import PathRefused, SafeDirectory
from loops.tools.sandbox.workspace_guard import kept_files, protected_files, survey
from loops.tools.workspace import Workspace
from tests.security import test_afterwards
from tests.security.test_afterwards import Person
from tests.unit.tools.harness import reachable

pytestmark = pytest.mark.spec("I7")
person = test_afterwards.person
both_levels = pytest.mark.parametrize("person", [FULL, CONFINED], indirect=True)
ORDINARY = 65_534
"""Some user who is not root."""


@contextmanager
def as_ordinary_user(folder: Path) -> Iterator[None]:
    """Modes of folders hold nobody who is root."""
    if os.geteuid() != 0:
        yield
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, ORDINARY, ORDINARY, follow_symlinks=False)
    os.seteuid(ORDINARY)
    try:
        yield
    finally:
        os.seteuid(0)


# --- the result of the command ----------------------------------------------------------------------------------------


@both_levels
@pytest.mark.parametrize("instead", ["ln -s .git .git", "ln -s sub .git", "echo x > .git", "mkfifo .git", "true"])
def test_a_command_keeps_its_result_whatever_it_puts_in_the_place_of_git(person: Person, instead: str) -> None:
    result = person.desk.shell(f"mv .git old; {instead}; echo done")
    assert (result.ok, result.exit_code) == (True, 0)
    assert result.content.endswith("[stdout]\ndone\n")


@both_levels
@pytest.mark.parametrize(
    "error",
    [OSError(errno.EROFS, "Read-only file system"), PathRefused("Read-only file system"), ValueError("Read-only")],
    ids=lambda error: type(error).__name__,
)
def test_what_cannot_be_put_back_is_said_and_the_result_is_kept(
    person: Person, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the first of what is said, however much else the command has left, and the rest is put back."""
    put_back, guard = kept_files.put_back, protected_files.guard

    def fails(root: SafeDirectory, path: str, files: kept_files.Files) -> None:
        if path == "AGENTS.md":
            raise error
        put_back(root, path, files)

    monkeypatch.setattr(kept_files, "put_back", fails)
    monkeypatch.setattr("loops.tools.sandbox.runner.guard", lambda root, names, *_: guard(root, names, mounts=False))
    for name in ("AGENTS.md", "sub/AGENTS.md"):
        (person.folder / name).write_text("mine\n")
        (person.folder / name).chmod(0o666)
    decoys = "for i in $(seq 30); do mkdir d$i; echo x > d$i/.envrc; done"
    result = person.desk.shell(f"echo x > AGENTS.md; echo x > sub/AGENTS.md; {decoys}; echo done")
    assert (result.ok, result.exit_code) == (True, 0)
    assert result.content.endswith("[stdout]\ndone\n")
    assert "not as it was: AGENTS.md: it could not be put back (Read-only" in result.content
    assert person.desk.blobs[result.artifacts[0].sha256] == b"mine\n", "what was there is kept"
    assert "only a person changes them: sub/AGENTS.md\n" in result.content, "what was not put back is not among them"
    assert (person.folder / "sub/AGENTS.md").read_text() == "mine\n"
    told = [event for event in person.desk.events if event.get("taken")]
    assert told[0]["taken"][0]["path"] == "AGENTS.md", "the audit log has it"


def test_a_folder_that_was_shut_does_not_keep_it_from_being_put_back(tmp_path: Path) -> None:
    folder = reachable(tmp_path) / "ws"
    for name in ("sub", "deep/er"):
        (folder / name).mkdir(parents=True)
        (folder / name / "AGENTS.md").write_text("mine\n")
    with as_ordinary_user(folder), SafeDirectory(str(folder)) as root:
        guarded = protected_files.guard(root, Limits().protected, mounts=False)
        (folder / "sub/AGENTS.md").unlink()
        (folder / "sub").chmod(0o500)
        (folder / "deep/er/AGENTS.md").write_text("x")
        (folder / "deep/er").chmod(0)
        (folder / "deep").chmod(0)
        folder.chmod(0o500)
        assert sorted(guarded.restore(root)) == ["deep/er/AGENTS.md", "sub/AGENTS.md"]
        assert [one for one in guarded.taken if one.stays] == []
        folder.chmod(0o700)
    for name in ("sub", "deep/er"):
        assert (folder / name / "AGENTS.md").read_text() == "mine\n"


@pytest.mark.parametrize("mode", [0, 0o300, 0o400])
def test_where_a_folder_of_ours_is_shut_no_command_runs(tmp_path: Path, mode: int) -> None:
    """It could open the folder, plant something and shut it again."""
    folder = reachable(tmp_path) / "ws"
    (folder / "sub/shut").mkdir(parents=True)
    with as_ordinary_user(folder), SafeDirectory(str(folder)) as root, Workspace(str(folder), Limits()) as workspace:
        (folder / "sub/shut").chmod(mode)
        with pytest.raises(PathRefused, match=r"'sub/shut' is shut.*chmod u\+rx"):
            protected_files.guard(root, Limits().protected, mounts=False)
        assert command_inputs.look(workspace).uncovered[0] == "folders that cannot be looked into: sub/shut"
        assert command_inputs.whole(workspace) == "", "no run goes by what was seen there before"
        (folder / "sub/shut").chmod(0o500)
        assert protected_files.guard(root, Limits().protected, mounts=False).looked.ours == []
        assert command_inputs.whole(workspace)
        (folder / "sub/shut").chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a folder of somebody else's")
def test_a_shut_folder_of_somebody_else_is_passed_by(tmp_path: Path) -> None:
    """As that of a database: no command gets in."""
    folder = reachable(tmp_path) / "ws"
    (folder / "data").mkdir(parents=True)
    with as_ordinary_user(folder):
        os.seteuid(0)
        os.chown(folder / "data", ORDINARY - 1, ORDINARY - 1)
        (folder / "data").chmod(0o700)
        os.seteuid(ORDINARY)
        with SafeDirectory(str(folder)) as root, Workspace(str(folder), Limits()) as workspace:
            guarded = protected_files.guard(root, Limits().protected, mounts=False)
            assert (guarded.looked.shut, guarded.restore(root), guarded.taken) == ({"data"}, [], [])
            assert command_inputs.whole(workspace)


@pytest.mark.spec("Q5")
def test_folders_without_end_are_said_not_to_be_covered(tmp_path: Path) -> None:
    deep = "/".join("d" * 102)
    (tmp_path / deep).mkdir(parents=True)
    with Workspace(str(tmp_path), Limits()) as workspace:
        assert command_inputs.look(workspace).uncovered[0] == f"folders that cannot be looked into: {deep[:201]}"
        (tmp_path / deep).rmdir()
        (tmp_path / deep[:201]).rmdir()
        assert command_inputs.look(workspace).uncovered == (command_inputs.NOT_LOOKED_AT,)


def test_a_repository_in_a_folder_that_was_shut_is_found(tmp_path: Path) -> None:
    folder = reachable(tmp_path) / "ws"
    (folder / ".git/objects").mkdir(parents=True)
    (folder / "sub/deeper").mkdir(parents=True)
    with as_ordinary_user(folder), SafeDirectory(str(folder)) as root:
        guarded = protected_files.guard(root, Limits().protected, mounts=False)
        (folder / ".git").rename(folder / "sub/deeper/.git")
        (folder / "sub/deeper").chmod(0)
        (folder / "sub").chmod(0)
        folder.chmod(0o500)
        assert guarded.restore(root) == [".git"]
        assert (folder / ".git/objects").is_dir()
        folder.chmod(0o700)


def test_a_part_that_cannot_be_looked_at_does_not_keep_the_rest_from_being_cleaned(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = os.scandir

    def scandir(place: int | str) -> Iterator[os.DirEntry[str]]:
        if isinstance(place, int) and Path(f"/proc/self/fd/{place}").readlink().name == "bad":
            raise OSError(errno.EIO, "Input/output error")
        return listed(place)  # type: ignore[return-value]

    monkeypatch.setattr(os, "scandir", scandir)
    result = person.desk.shell("mkdir bad z; echo x > z/.envrc; echo done")
    assert result.content.endswith("[stdout]\ndone\n")
    assert "not as it was: bad: it could not be looked into" in result.content
    assert not (person.folder / "z/.envrc").exists()


# --- the folder .git itself -------------------------------------------------------------------------------------------


def kept(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Mode, owner, group and bytes of all that lies in the folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        at = path.lstat()
        found[str(path.relative_to(folder))] = (
            at.st_mode,
            at.st_uid,
            at.st_gid,
            path.read_bytes() if path.is_file() else b"",
        )
    return found


@both_levels
@pytest.mark.parametrize("hooks", ["as git makes them", "none"])
@pytest.mark.parametrize(
    "line",
    [
        "mv .git old",
        "mv .git old; echo x > .git",
        "mv .git old; ln -s .git .git",
        "mv .git old; ln -s sub .git",
        "mv .git old; mkfifo .git",
        "mv .git old; git init -q",
        "mkdir -p a/b; mv .git a/b/c",
        "mv .git old; mkdir .git; mv old .git/old",
        "mv .git .envrc; echo 'gitdir: sub' > .git",
        "mv .git old; cp -r old .git; echo x > .git/HEAD",
    ],
)
def test_a_repository_that_was_moved_away_is_back_whole(person: Person, line: str, hooks: str) -> None:
    if hooks == "none":
        person.does("rm -rf .git/hooks", person.folder)
    person.does("git config core.pager 'less -R'; git config alias.st status", person.folder)
    person.does("chmod -R a+rwX .git", person.folder)
    before = kept(person.folder / ".git")
    result = person.desk.shell(f"{line}; echo done")
    assert result.content.endswith("[stdout]\ndone\n") or "[stdout]\ndone\n\n[stderr]" in result.content
    assert kept(person.folder / ".git") == before
    assert "put back, because only a person changes them: .git" in result.content
    assert any(event.get("restored") for event in person.desk.events), "the audit log has it"


@both_levels
@pytest.mark.parametrize(
    "line",
    [
        "rm -rf .git; echo x > .git",
        "rm -rf .git; ln -s .git .git",
        "rm -rf .git; mkdir e; echo x > e/config; ln -s e .git",
        "rm -rf .git; git init -q",
        "rm -rf .git",
    ],
)
def test_a_repository_that_was_deleted_is_said_and_its_settings_are_back(person: Person, line: str) -> None:
    """What was committed is gone, like any other file that a command deletes."""
    person.does("rm -rf .git/hooks; git config core.pager 'less -R'; chmod -R a+rwX .git", person.folder)
    config = person.folder / ".git/config"
    before = config.read_bytes()
    result = person.desk.shell(f"{line}; echo done")
    assert "[stdout]\ndone\n" in result.content
    assert "not as it was: .git: what was committed here is gone" in result.content
    assert config.read_bytes() == before
    person.does("git log > log; git init -q; git status --short > status", person.folder)
    assert "notes.md" in (person.folder / "status").read_text(), "and a person can begin anew"
    assert person.desk.shell("mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; true").ok
    assert not (person.folder / ".git/hooks/pre-commit").exists(), "the guard of protected names goes on"


@both_levels
def test_a_folder_with_the_number_of_what_is_gone_is_not_taken_for_it(person: Person) -> None:
    """A file system gives the number of a deleted folder to the next one."""
    person.does("rm -rf .git/hooks; chmod -R a+rwX .git", person.folder)
    person.desk.shell("rm -rf .git; for i in $(seq 300); do mkdir work$i; echo x > work$i/config; done")
    assert all((person.folder / f"work{number}/config").exists() for number in range(1, 301))


def test_no_other_folder_gets_the_number_of_the_repository_while_a_command_runs(person: Person) -> None:
    """One would be taken for it, and what is gone would not be said: so they are held until all is as it was."""

    def held() -> list[str]:
        links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        paths = [str(link.readlink()) for link in links]
        gone = [path for path in paths if path.startswith(f"{person.folder}/") and path.endswith(" (deleted)")]
        return sorted(path.removeprefix(f"{person.folder}/") for path in gone)

    with SafeDirectory(str(person.folder)) as root:
        looked = survey.survey(root.fd, survey.Names.of(()))
        shutil.rmtree(person.folder / ".git")
        assert held() == [".git (deleted)", ".git/objects (deleted)"]
        del looked
        assert held() == [], "and then let go"


@both_levels
def test_commits_alone_that_were_deleted_are_said(person: Person) -> None:
    result = person.desk.shell("rm -rf .git/objects; echo done")
    assert "not as it was: .git: what was committed here is gone" in result.content


@both_levels
@pytest.mark.parametrize(
    "line", ["rm .git; mkdir .git", "echo 'gitdir: ../sub' > .git", "rm -f .git", "rm .git; git init -q"]
)
def test_a_file_that_leads_git_to_a_repository_is_as_it_was(person: Person, line: str) -> None:
    """As in a linked work tree, or a submodule that is used as a workspace."""
    outside = person.folder.parent / "store"
    (person.folder / ".git").rename(outside)
    pointer = person.folder / ".git"
    pointer.write_text(f"gitdir: {outside}\n")
    pointer.chmod(0o666)
    person.desk.shell(f"{line}; echo done")
    assert pointer.read_text() == f"gitdir: {outside}\n"


@both_levels
@pytest.mark.parametrize(
    "line", ["rm .git; mkdir .git", "rm .git; echo x > .git", "ln -sfn sub .git", "rm .git; git init -q"]
)
def test_a_link_to_a_repository_is_as_it_was(person: Person, line: str) -> None:
    person.does("mv .git kept; ln -s kept .git; chmod -R a+rwX .", person.folder)
    assert person.desk.shell(f"{line}; echo done").ok
    assert (person.folder / ".git").readlink() == Path("kept")
    assert (person.folder / "kept/HEAD").exists()


@both_levels
@pytest.mark.parametrize(
    ("place", "data"),
    [
        (".git", "x"),
        ("new/.git", "x"),
        ("new/.git", "gitdir: {outside}"),
        ("new/.git", "gitdir: ../../outside"),
        ("sub/.git", "gitdir: /nowhere/at/all"),
        ("w/.git/commondir", "{outside}"),
    ],
)
def test_no_new_file_leads_git_out(person: Person, place: str, data: str) -> None:
    if place == ".git":
        person.does("rm -rf .git", person.folder)
    text = data.replace("{outside}", str(person.outside))
    above = Path(place).parent
    result = person.desk.shell(
        f"mkdir -p {above}; test -d w/.git && echo x > w/.git/HEAD; echo '{text}' > {place}; echo done"
    )
    assert result.content.endswith("[stdout]\ndone\n")
    assert f"taken away: {place}: git would be led" in result.content
    assert not (person.folder / place).exists()


@both_levels
def test_what_leads_git_within_the_workspace_stays(person: Person) -> None:
    commit = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one"
    line = f"git init -q --separate-git-dir=store made && cd made && {commit}"
    result = person.desk.shell(
        f"{test_afterwards.AT_HOME}{line} && git worktree add -q ../tree 2>&1 && cat ../tree/.git"
    )
    assert result.ok, result.content
    for place in ("made", "tree"):
        assert (person.folder / place / ".git").read_text().startswith("gitdir: ")
    assert result.data["taken"] == result.data["restored"] == []


# --- settings that are gone -------------------------------------------------------------------------------------------


@both_levels
@pytest.mark.parametrize("place", [".git/config", "vendor/lib/.git/config", ".git/config.worktree"])
@pytest.mark.parametrize(
    "line", ["rm {at}", "rm {at}; mkdir -p {at}/x", "mv {at} sub/was", "rm {at}; mkfifo {at}", "rm {at}; git init -q"]
)
def test_settings_that_a_command_removed_are_back(person: Person, place: str, line: str) -> None:
    config = person.folder / place
    config.parent.joinpath("config.worktree").write_text("[core]\n\tbare = false\n")
    person.does("git config core.hooksPath /dev/null; git config alias.st status", config.parent)
    config.chmod(0o640)
    person.does("chmod a+rwX .git vendor/lib/.git", person.folder)
    before, at = config.read_bytes(), config.lstat()
    result = person.desk.shell(f"{line.replace('{at}', place)}; echo done")
    assert "[stdout]\ndone\n" in result.content
    now = config.lstat()
    assert config.read_bytes() == before
    assert (now.st_uid, now.st_gid, now.st_mode) == (at.st_uid, at.st_gid, at.st_mode)
    assert place in result.content


@both_levels
@pytest.mark.parametrize(
    ("size", "said"),
    [(1, "put back, because only a person changes them: .git/config"), (2 << 20, "too large to be kept")],
)
def test_settings_that_are_a_link_or_large_are_not_taken_for_empty_ones(person: Person, size: int, said: str) -> None:
    config = person.folder / ".git/config"
    if size == 1:
        config.rename(person.folder / "settings")
        config.symlink_to("../settings")
    else:
        config.write_text(config.read_text() + "# x\n" * (size // 4))
    person.does("chmod a+rwX .git", person.folder)
    result = person.desk.shell("rm .git/config; echo done")
    assert said in result.content
    assert config.is_symlink() == (size == 1)


def test_a_repository_that_goes_as_a_whole_takes_its_settings_along(person: Person) -> None:
    """Below the root: what an agent made it may throw away, and what it throws away of a person's is a folder."""
    person.desk.shell("git init -q made")
    result = person.desk.shell("rm -rf made vendor/lib/.git")
    assert not (person.folder / "made").exists()
    assert not (person.folder / "vendor/lib/.git/config").exists()
    assert result.data["restored"] == []


# --- ordinary work ----------------------------------------------------------------------------------------------------

WORK = (
    "git init -q new && cd new && echo x > a && git add a && git commit -qm one && git checkout -q -b b && git gc -q",
    "git checkout -q -b work && echo y > notes.md && git commit -qam two && git checkout -q main && git merge -q work",
    "git config user.name me && git config --unset user.name && git branch -d work && git tag v1 && git stash list",
    "printf '*.md text eol=lf\\n*.png binary\\n' > .gitattributes && git add . && git commit -qm attributes",
    "mkdir -p app && echo x > app/config && echo x > app/HEAD && echo x > config && rm app/HEAD && mv app moved",
    "git worktree add -q tree && git worktree remove --force tree && git repack -qad && rm -rf new",
)


@both_levels
def test_ordinary_work_is_let_be(person: Person) -> None:
    for line in WORK:
        result = person.desk.shell(f"{test_afterwards.AT_HOME}{line}")
        assert result.ok, (line, result.content)
        assert result.data["taken"] == result.data["restored"] == [], line


def test_the_look_before_and_after_reads_no_contents_but_of_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1_000):
        folder = tmp_path / f"d{number % 50}"
        folder.mkdir(exist_ok=True)
        (folder / f"config{number}").write_text("x")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text("[core]\n\tfsmonitor = ./d0/config0\n")
    opened = []
    for owner, name in ((survey.Found, "read"), (SafeDirectory, "read")):
        read = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given, read=read: opened.append(given) or read(*given))
    with SafeDirectory(str(tmp_path)) as root:
        assert protected_files.guard(root, Limits().protected, mounts=False).restore(root) == []
    assert len(opened) == 4, "the settings and what they name, before and after"
