"""Whoever uses a folder after a hostile run, with ordinary tools, runs nothing of what it planted (SPEC I7).

Each thing that is planted would make a file of its own name outside. A new tool of the person's is one line in TOOLS.
The control takes the guard away: then each of them does.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from loops.tools.limits import ON_SIGHT, PROTECTED
from loops.tools.sandbox import capability
from loops.tools.sandbox.capability import CONFINED, FULL, SandboxLevel
from loops.tools.sandbox.workspace_guard import planted_files, protected_files
from tests.unit.tools.harness import Desk, reachable

pytestmark = pytest.mark.spec("I7")

TOOLS = {
    "a shell whose prompt asks git": "PS1='$ ' PROMPT_COMMAND='git status -sb' bash --norc -i < /dev/null",
    "direnv": 'eval "$(direnv export bash)"',
    "git status": "git status",
    "git log": "git log -p -2",
    "git diff": "git diff; git diff HEAD",
    "git checkout": "touch notes.md; git checkout -f -- . ; git checkout -q -b other-$RANDOM",
    "git commit": "git commit -q --allow-empty -m mine",
    "git stash": "git stash list; git branch -a; git show",
    "git rebase": "git rebase --continue; git cherry-pick --continue",
    "git pager": "script -qec 'git log -1' /dev/null < /dev/null",
    "python": "python3 -c 'import sys, json, unittest'",
    "pip": "python3 -m pip list",
    "npm": "npm ls",
    "yarn": "yarn --version",
    "make": "make -n",
    "irb": "echo | irb",
    "R": "echo | R --no-save",
    "vim": "vim -es -u NONE --cmd 'set exrc' +q",
    "hg": "hg status",
    "search": "grep -rqs nothing-like-this .",
    "copy": "tar -cf /dev/null .",
    "edit": "for note in notes.txt sub/notes.txt; do test -e $note && echo mine >> $note; done",
}
"""What a person does in a folder."""
MAYBE = {"direnv", "npm", "yarn", "irb", "R", "vim", "hg"}
"""Left out where they are not installed."""
SLOW = {"npm", "pip", "yarn"}

NEW_GIT = "mkdir -p {at}/objects {at}/refs/heads; echo 'ref: refs/heads/main' > {at}/HEAD; "
ORDER = r"printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {run}\n' > "
PICKED = (
    "git config user.name a; git config user.email a@b; git checkout -q -b other; "
    "for i in 1 2 3; do echo $i > notes.md; git commit -qam $i; done; "
    "git checkout -q -B main main; echo more > notes.md; git commit -qam more; "
    "git checkout -q other; mkdir git-merge-x; printf '#!/bin/sh\n{run}\n' > git-merge-x/y; chmod +x git-merge-x/y; "
)
PLANTED = {
    "fsmonitor": "git config core.fsmonitor '{run}'",
    "hooks-path": "mkdir h; printf '#!/bin/sh\n{run}\n' > h/post-checkout; chmod +x h/*; git config core.hooksPath h",
    "filter": "git config filter.x.smudge '{run}; cat'; git config filter.x.clean '{run}; cat'; "
    "echo '*.md filter=x' > .gitattributes",
    "diff": "echo more >> notes.md; git config diff.external '{run}'",
    "pager": "git config pager.log '{run}; cat'",
    "include": "git config include.path ../settings; " + ORDER + "settings",
    "worktree-settings": "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor '{run}'",
    "moved-hook": "mv .git .old; mkdir -p .git/hooks; cp -r .old/{HEAD,refs,objects,config,index} .git; "
    "printf '#!/bin/sh\n{run}\n' > .git/hooks/post-checkout; chmod +x .git/hooks/*",
    "nested": "git -C vendor/lib config core.fsmonitor '{run}'",
    "nested-hook": "mv vendor/lib vendor/l; mkdir -p vendor/lib; cp -r vendor/l/. vendor/lib; "
    "printf '#!/bin/sh\n{run}\n' > vendor/lib/.git/hooks/post-checkout; chmod +x vendor/lib/.git/hooks/*",
    "new": "git init -q made; git -C made config core.fsmonitor '{run}'",
    "new-hook": "git init -q made; mkdir -p made/.git/hooks; "
    "printf '#!/bin/sh\n{run}\n' > made/.git/hooks/pre-commit; chmod +x made/.git/hooks/*",
    "bare": NEW_GIT.format(at="bare") + ORDER + "bare/config; printf '\tworktree = .\n' >> bare/config",
    "pointed-to": NEW_GIT.format(at="data") + ORDER + "data/config; mkdir p; echo 'gitdir: ../data' > p/.git",
    "common": "mkdir -p w/.git c/objects c/refs; echo 'ref: refs/heads/main' > w/.git/HEAD; "
    "echo ../../c > w/.git/commondir; " + ORDER + "c/config",
    "linked-settings": "git init -q linked; rm linked/.git/config; "
    + ORDER
    + "linked/ok; ln -s ../ok linked/.git/config",
    "odd-name": "mkdir $'odd\\nname'; git init -q $'odd\\nname'; git -C $'odd\\nname' config core.fsmonitor '{run}'",
    "one-line": "git init -q line; printf '[core] fsmonitor = {run}\n' > line/.git/config",
    "continued": "git init -q more; printf '[user]\n\tname = x\\\\\n\n[core]\n\tfsmonitor = \\\\\n{run}\n'"
    " > more/.git/config",
    "store-hook": "git init -q made; mv made/.git made/store; echo 'gitdir: store' > made/.git; "
    "mkdir -p made/store/hooks; printf '#!/bin/sh\n{run}\n' > made/store/hooks/pre-commit; chmod +x made/store/hooks/*",
    "tree": "git init -q tree; cd tree; echo x > tree; git add -A; git commit -qm x; "
    "git config core.worktree {outside}",
    "shut": "git init -q shut; git -C shut config core.fsmonitor '{run}'; chmod 0 shut",
    "deep": "d=.; for i in $(seq 104); do d=$d/d; done; mkdir -p $d; git init -q $d; "
    "git -C $d config core.fsmonitor '{run}'",
    "rebase": "GIT_SEQUENCE_EDITOR=\"printf 'break\\nexec {run}\\n' >\" git rebase -q -i HEAD",
    "strategy": PICKED + "GIT_SEQUENCE_EDITOR=\"sed -i '1i break'\" git rebase -q -i HEAD~1; "
    "git reset -q --hard main; echo x/y > .git/rebase-merge/strategy",
    "linked-strategy": PICKED + "GIT_SEQUENCE_EDITOR=\"sed -i '1i break'\" git rebase -q -i HEAD~1; "
    "git reset -q --hard main; mv .git/rebase-merge data; ln -s ../data .git/rebase-merge; echo x/y > data/strategy",
    "options": PICKED + "git checkout -q main; git cherry-pick other~3..other; "
    "git reset -q --hard; printf '[options]\n\tstrategy = x/y\n' > .git/sequencer/opts",
    "link": "ln -s {outside}/notes notes.txt; true",
    "link-of-links": "ln -s .. up; ln -s ../up/outside/notes2 sub/notes.txt; true",
}
"""What a hostile run leaves, by the name of the file that it would make outside. ``{run}`` makes it."""
PRESENT = tuple(f"{folder}{name}" for name in (*PROTECTED, *ON_SIGHT) for folder in ("", "sub/", "made/deeper/"))[1:]
"""Settings of editors and agents act by being there: nothing of what was missing may stand there afterwards. The
hooks of the person are there, at the root."""
AT_HOME = "export HOME=$(mktemp -d); git config --global safe.directory '*'; "
"""A command may be another user than the person."""


@dataclass(frozen=True)
class Person:
    """Who owns the folder and works in it; ``outside`` is what no run may reach."""

    desk: Desk
    outside: Path
    home: Path

    @property
    def folder(self) -> Path:
        return self.desk.workspace

    def does(self, line: str, where: Path, seconds: float = 180) -> None:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "GIT_CONFIG_COUNT": "1", "TERM": "dumb"}
        environment |= {"GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*", "GIT_EDITOR": "true"}
        environment |= {
            f"GIT_{who}_{what}": "p@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        quiet = subprocess.DEVNULL
        subprocess.run(
            ["bash", "-c", line], cwd=where, env=environment, timeout=seconds, check=False, stdout=quiet, stderr=quiet
        )

    def uses(self, *slow: str) -> None:
        """Everything, and what is ``slow`` as far as it is named; git wherever it could find something new."""
        for name in installed():
            for place in (self.folder, *(places(self.folder) if "git" in name else ())):
                if name in slow or name not in SLOW:
                    self.does(TOOLS[name], place)

    def ran(self) -> set[str]:
        """What was executed, or written to, outside."""
        return {path.name for path in self.outside.iterdir() if path.stat().st_size or "notes" not in path.name}


def installed() -> list[str]:
    return [name for name in TOOLS if name not in MAYBE or shutil.which(name)]


def places(folder: Path) -> list[Path]:
    """Folders, opened up, that are repositories or hold one."""
    found = []
    for base, folders, files in os.walk(folder):
        for name in folders:
            if not Path(base, name).is_symlink():
                Path(base, name).chmod(0o755)
        inner = {*folders, *files}
        if base != str(folder) and (".git" in inner or {"objects", "refs"} <= inner):
            found.append(Path(base))
    return found


def outside_of(person: Person) -> dict[str, tuple[int, ...]]:
    found = {path.name: path.lstat() for path in (person.outside, *person.outside.iterdir())}
    return {name: (at.st_uid, at.st_gid, at.st_mode, at.st_nlink, at.st_ino) for name, at in found.items()}


@pytest.fixture
def person(request: pytest.FixtureRequest, tmp_path: Path) -> Person:
    """A folder that is used in place: a repository with another one in it."""
    wanted = getattr(request, "param", FULL)
    level = capability.probe() if wanted == FULL else SandboxLevel(CONFINED, "landlock")
    assert level.level == wanted, level.warning
    desk = Desk(reachable(tmp_path), level=level, made=False)
    person = Person(desk, tmp_path / "outside", tmp_path / "home")
    for folder in (person.outside, person.home, desk.workspace / "sub", desk.workspace / "vendor/lib"):
        folder.mkdir(parents=True)
    for name in ("notes", "notes2"):
        (person.outside / name).touch()
    (desk.workspace / "Makefile").write_text("all:\n\ttrue\n")
    for place in ("vendor/lib", "."):
        (desk.workspace / place / "notes.md").write_text("mine\n")
        person.does("git init -q -b main && git add -A . && git commit -qm one", desk.workspace / place)
    person.does("chmod -R a+rwX .", desk.workspace)
    return person


def plant(person: Person, *names: str) -> None:
    for name in names:
        run = f"touch {person.outside}/{name}"
        line = PLANTED[name].replace("{run}", run).replace("{outside}", str(person.outside))
        person.desk.shell(AT_HOME + line, timeout_s=300)


@pytest.mark.parametrize("person", [FULL, CONFINED], indirect=True)
def test_nothing_that_was_planted_runs_whatever_a_person_uses(person: Person) -> None:
    before = outside_of(person)
    plant(person, *PLANTED)
    person.uses(*SLOW)
    assert person.ran() == set()
    assert outside_of(person) == before


@pytest.mark.parametrize("name", PLANTED)
def test_what_was_planted_alone_never_runs(person: Person, name: str) -> None:
    plant(person, name)
    person.uses()
    assert person.ran() == set()


@pytest.mark.parametrize("name", PLANTED)
def test_control_without_the_guard_it_runs(person: Person, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protected_files.Guard, "restore", lambda *_: [])
    monkeypatch.setattr(protected_files, "MOST_MOUNTS", 0)
    plant(person, name)
    person.uses()
    assert person.ran(), "the attack is none, or no tool of a person obeys it"


@pytest.mark.parametrize("person", [FULL, CONFINED], indirect=True)
def test_nothing_that_acts_by_being_there_stays(person: Person) -> None:
    lines = [f"mkdir -p $(dirname {name}); echo x > {name} || (mkdir -p {name}; echo x > {name}/x)" for name in PRESENT]
    result = person.desk.shell("\n".join(lines))
    assert [name for name in PRESENT if os.path.lexists(person.folder / name)] == []
    more = re.search(r"taken away: (\d+) more", result.content)
    assert more, "the agent is told how many"
    assert len(result.artifacts) == planted_files.MOST_KEPT
    person.desk.shell("mkdir -p made/deeper; echo x > made/deeper/.envrc")
    result = person.desk.shell("echo x > made/deeper/.envrc")
    assert "taken away: made/deeper/.envrc: people's tools or agents would obey it" in result.content
    assert result.data["taken"] == [{"path": "made/deeper/.envrc", "why": "people's tools or agents would obey it"}]
    assert person.desk.blobs[result.artifacts[0].sha256] == b"x\n", "what it was is kept"


def test_what_is_too_large_to_be_kept_is_said(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planted_files, "MOST_KEPT_BYTES", 10)
    result = person.desk.shell("printf 12345678901 > .envrc; echo x > sub/.envrc")
    assert "taken away: .envrc: people's tools or agents would obey it\n" in result.content + "\n"
    assert [one.size for one in result.artifacts] == [2]


def test_folders_without_end_are_said(person: Person) -> None:
    result = person.desk.shell("d=.; for i in $(seq 104); do d=$d/d; done; mkdir -p $d")
    assert "folders that are nested more than 100 times cannot be looked into" in result.content
    assert sum(1 for _ in person.folder.rglob("d")) == 101


@pytest.mark.parametrize("person", [FULL, CONFINED], indirect=True)
def test_what_stands_at_depth_is_as_it_was(person: Person) -> None:
    """Changed, replaced, removed, moved with its folder: bytes, mode and owner of before."""
    (person.folder / "sub/.claude").mkdir()
    for name in ("sub/AGENTS.md", "sub/.claude/settings.json", "vendor/lib/.vscode"):
        (person.folder / name).write_text("mine\n")
        (person.folder / name).chmod(0o666)
    (person.folder / "sub/CLAUDE.md").symlink_to("AGENTS.md")
    person.does("chmod -R a+rwX .", person.folder)
    before = seen(person.folder)
    for command in (
        "echo x >> sub/AGENTS.md; echo x > sub/.claude/settings.json; rm vendor/lib/.vscode",
        "chmod 777 sub/AGENTS.md; ln -sf /etc/passwd sub/CLAUDE.md",
        "rm -f sub/AGENTS.md; ln -s ../Makefile sub/AGENTS.md",
        "mv sub other; echo x > sub",
        "mv sub other; mkdir sub; echo x > sub/AGENTS.md",
        "rm -rf sub vendor/lib",
    ):
        result = person.desk.shell(command)
        assert seen(person.folder) == before, command
        assert not result.ok or "only a person changes them" in result.content


def seen(folder: Path) -> dict[str, tuple[object, ...]]:
    names = ("sub/AGENTS.md", "sub/.claude/settings.json", "vendor/lib/.vscode", "sub/CLAUDE.md", "sub/.claude")
    found: dict[str, tuple[object, ...]] = {}
    for name in names:
        at = (folder / name).lstat()
        text = (folder / name).read_text() if (folder / name).is_file() else ""
        found[name] = (at.st_mode, at.st_uid, at.st_gid, text)
    return found


@pytest.mark.parametrize("person", [FULL, CONFINED], indirect=True)
@pytest.mark.parametrize("name", ["~old", "two\nlines", "\udcff", "file:x"])
def test_what_no_tool_may_spell_is_as_it_was_too(person: Person, name: str) -> None:
    """A person's own stays whole, and what an agent's command made there gets no hooks from its next one."""
    theirs, made = person.folder / name, person.folder / f"{name} too"
    (theirs / "sub").mkdir(parents=True)
    (theirs / "sub/AGENTS.md").write_text("mine\n")
    person.does("git init -q .", theirs)
    person.does("chmod -R a+rwX .", person.folder)
    settings = (theirs / ".git/config").read_bytes()
    word = "$'" + "".join(f"\\x{byte:02x}" for byte in os.fsencode(name)) + "'"
    assert person.desk.shell(f"{AT_HOME} git init -q ./{word}' too'").ok
    (made / ".git/hooks").mkdir(exist_ok=True)
    (made / ".git/hooks").chmod(0o777)
    result = person.desk.shell(
        f"cd ./{word}' too'; echo x > .git/hooks/pre-commit; cd ../{word}; echo x > sub/AGENTS.md; rm .git/config"
    )
    assert result.ok, "ordinary work goes on in them"
    assert (theirs / "sub/AGENTS.md").read_text() == "mine\n"
    assert (theirs / ".git/config").read_bytes() == settings
    assert not (made / ".git/hooks/pre-commit").exists()
    assert len(result.data["restored"]) == 2
    assert "".join(result.data["restored"]).encode(), "in words that can be stored"


@pytest.mark.parametrize("person", [FULL, CONFINED], indirect=True)
def test_pipes_sockets_and_marks_that_raise_rights_do_not_stay(person: Person) -> None:
    os.mkfifo(person.folder / "mine")
    server = "python3 -c 'import socket as s; s.socket(1).bind(\"s\")'"
    person.desk.shell(f"mkfifo pipe sub/pipe; cp /bin/true raised; chmod 6755 raised; {server}")
    left = {path.name: path.lstat().st_mode for path in person.folder.iterdir()}
    assert {"pipe", "s"} & set(left) == set()
    assert not (person.folder / "sub/pipe").exists()
    assert left["raised"] & 0o7777 == 0o755
    assert "mine" in left, "what a person put there stays"


def test_links_to_the_system_and_within_stay(person: Person) -> None:
    links = {"python": "/usr/bin/python3", "inside": "sub/x", "own": "/workspace/sub", "none": "/dev/null"}
    person.desk.shell("; ".join(f"ln -s {target} {name}" for name, target in links.items()))
    assert {name: str((person.folder / name).readlink()) for name in links} == links


def test_the_work_of_an_agent_with_git_stays(person: Person) -> None:
    """Only what runs programs is taken: repositories, branches, remotes, names and submodules are ordinary work."""
    person.desk.shell(
        AT_HOME
        + "git init -q made && cd made && git config user.name me && echo x > a && git add a && git commit -qm a && "
        "git remote add origin https://example.org/x.git && git checkout -qb b --track main 2>&1; cd .. && "
        "git clone -q made twice && git -c protocol.file.allow=always submodule add -q ./made inner; "
        "git config branch.main.rebase true"
    )
    for place, wanted in (("made", "origin"), ("twice", "remote.origin.fetch"), (".", "submodule.inner")):
        found = (person.folder / place / ".git/config").read_text()
        assert wanted.split(".")[0] in found, wanted
    assert (person.folder / "inner/a").exists()
    result = person.desk.shell(AT_HOME + "git -C inner status --short && git -C made log --oneline && git fsck")
    assert result.ok, result.content
    assert result.data["taken"] == []


def test_a_rebase_and_picks_that_are_not_finished_go_on(person: Person) -> None:
    """With a strategy of git's own."""
    more = PICKED.replace("{run}", "true")
    result = person.desk.shell(
        AT_HOME + more + "git rebase -q -s ort -X patience main; git clone -q . clone; cd clone; "
        "git checkout -q main; git cherry-pick -s -x --strategy=resolve origin/other~3..origin/other; true"
    )
    assert result.data["taken"] == []
    assert (person.folder / ".git/rebase-merge/strategy").read_text() == "ort\n"
    assert "strategy = resolve" in (person.folder / "clone/.git/sequencer/opts").read_text()
    person.does("git checkout --theirs . && git add notes.md && git rebase --continue", person.folder)
    person.does("git rebase --skip; git rebase --skip", person.folder)
    assert not (person.folder / ".git/rebase-merge").exists()


@pytest.mark.parametrize("person", [FULL, CONFINED], indirect=True)
def test_a_file_with_another_name_outside_is_not_reached_through_it(person: Person) -> None:
    """At use: it is looked for before every command, so that a link made later counts as well."""
    assert person.desk.shell("touch first").ok
    os.link(person.outside / "notes", person.folder / "sub/also")
    (person.outside / "notes").chmod(0o666)
    before = outside_of(person)
    result = person.desk.shell(
        "echo x > sub/also; chmod 777 sub/also; touch -d 2001-01-01 sub/also; mv sub/also b; rm b"
    )
    assert outside_of(person) == before
    assert (person.outside / "notes").read_text() == ""
    assert not result.ok
    if person.desk.service._sandbox.level == CONFINED:
        assert "'sub/also' has another name outside of the workspace" in result.error
        assert "let the workspace be copied for each run" in result.error


def test_two_names_inside_are_the_work_of_an_agent(person: Person) -> None:
    (person.folder / "one").write_text("x")
    os.link(person.folder / "one", person.folder / "two")
    (person.folder / "one").chmod(0o666)
    assert person.desk.shell("echo y > two && ln one three").ok
    assert (person.folder / "one").read_text() == "y\n"


def test_very_many_names_outside_are_read_only_by_the_folder_or_refuse(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protected_files, "MOST_LINKED", 3)
    for place in ("node_modules/x", "sub"):
        (person.folder / place).mkdir(parents=True, exist_ok=True)
    for number in range(5):
        (person.outside / f"p{number}").touch()
        (person.outside / f"p{number}").chmod(0o666)
        os.link(person.outside / f"p{number}", person.folder / f"node_modules/x/{number}")
    person.desk.shell("for i in 0 1 2 3 4; do echo x > node_modules/x/$i; done; touch done")
    assert [(person.outside / f"p{number}").read_text() for number in range(5)] == [""] * 5
    assert (person.folder / "done").exists()
    for number in range(5):
        (person.folder / f"node_modules/x/{number}").rename(person.folder / f"sub/{number}")
    assert "and of 4 more) has another name outside" in person.desk.shell("touch never").error
    assert not (person.folder / "never").exists()


def test_a_clone_of_a_folder_says_how_to_make_one_that_commands_run_in(person: Person) -> None:
    """Git links the objects of both, and each command could write them there."""
    there, inside = person.outside / "there", person.folder / "inside"
    objects = " ".join(str(number) for number in range(protected_files.MOST_LINKED + 1))
    person.does(f"git init -q {there} && cd {there} && touch a && git add a && git commit -qm a", person.folder)
    person.does(f"for i in {objects}; do echo $i | git hash-object -w --stdin; done", there)
    person.does(f"git clone -q {there} {inside}", person.folder)
    assert "git clone --no-hardlinks" in person.desk.shell("true").error
    person.does(f"rm -rf {inside} && git clone -q --no-hardlinks {there} {inside}", person.folder)
    assert person.desk.shell("true").ok


def test_protected_names_without_end_are_refused(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protected_files, "MOST_PROTECTED", 3)
    for number in range(5):
        (person.folder / f"sub/{number}").mkdir()
        (person.folder / f"sub/{number}/AGENTS.md").touch()
    assert "more than 3 files with protected names" in person.desk.shell("true").error


def test_beyond_the_mounts_they_are_put_back(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protected_files, "MOST_MOUNTS", 2)
    for name in ("sub/AGENTS.md", "vendor/AGENTS.md"):
        (person.folder / name).write_text("mine\n")
        (person.folder / name).chmod(0o666)
    result = person.desk.shell("echo x > sub/AGENTS.md; echo x > vendor/AGENTS.md; true")
    assert "only a person changes them: vendor/AGENTS.md" in result.content
    assert {(person.folder / name).read_text() for name in ("sub/AGENTS.md", "vendor/AGENTS.md")} == {"mine\n"}


def test_what_somebody_planted_is_told_to_the_audit(person: Person) -> None:
    plant(person, "new")
    told = [event for event in person.desk.events if event.get("taken")]
    assert told[0]["taken"][0]["path"] == "made/.git/config"
    assert "core.fsmonitor" in told[0]["taken"][0]["why"]
