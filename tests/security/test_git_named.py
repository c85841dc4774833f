"""What the settings of a person's git name is run by it, and no agent changes it (SPEC I7).

Each case is a setting of the person's and a file that it names; the file is tried by commands at both levels of the
sandbox and by file tools. Without the guard the person's git runs what the agent wrote.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from loops.engine.values import Access
from loops.tools.sandbox.capability import CONFINED, FULL
from loops.tools.sandbox.safe_paths import PathRefused, SafeDirectory
from loops.tools.sandbox.workspace_guard import git_named
from tests.security import test_afterwards
from tests.security.test_afterwards import Person
from tests.unit.tools.harness import Desk

pytestmark = pytest.mark.spec("I7")
person = test_afterwards.person
both_levels = pytest.mark.parametrize("person", [FULL, CONFINED], indirect=True)

GIT = (
    "touch notes.md; git status; git log -1; git diff; git checkout -q -b other-$RANDOM; git commit -qm x --allow-empty"
)
FILTERED = "echo '*.md filter=x' > .gitattributes; echo more > notes.md"
NAMED = {
    "hooks": ("git config core.hooksPath tools/hooks", "tools/hooks/post-checkout"),
    "hooks at the top": ('git config core.hooksPath "$PWD"', "post-checkout"),
    "monitor": ("git config core.fsmonitor ./tools/watch.sh", "tools/watch.sh"),
    "monitor by its interpreter": ("git config core.fsmonitor 'sh watch.sh'", "watch.sh"),
    "by an absolute path": ('git config core.fsmonitor "$PWD/tools/watch.sh"', "tools/watch.sh"),
    "in quotes": ("git config core.fsmonitor \"'./my tools/watch.sh' -v\"", "my tools/watch.sh"),
    "filter": (
        "git config filter.x.clean 'sh tools/clean.sh %f'; echo '*.md filter=x' > .gitattributes; "
        "git add -A; git commit -qm x",
        "tools/clean.sh",
    ),
    "filter by its module": (
        f"git config filter.x.clean 'python3 -m tidy'; {FILTERED}",
        "tidy.py",
    ),
    "filter by a module in a package": (
        f"git config filter.x.clean 'python3 -m tools.tidy'; {FILTERED}",
        "tools/tidy.py",
    ),
    "filter in a line for a shell": (
        f"git config filter.x.clean \"sh -c 'cd tools && ./x.sh'\"; {FILTERED}",
        "tools/x.sh",
    ),
    "filter at the end of a pipe": (
        f"git config filter.x.clean 'tools/x.sh|cat'; {FILTERED}",
        "tools/x.sh",
    ),
    "text of files": (
        "git config diff.x.textconv tools/text.sh; echo '*.md diff=x' > .gitattributes; echo more > notes.md",
        "tools/text.sh",
    ),
    "included": ("git config include.path ../settings.inc", "settings.inc"),
    "included beside": ("git config include.path extra", ".git/extra"),
    "included by what is included": (
        "printf '[include]\\n\\tpath = deeper.inc\\n' > settings.inc; git config include.path ../settings.inc",
        "deeper.inc",
    ),
    "named by what is included": (
        "printf '[core]\\n\\tfsmonitor = \"./tools/watch.sh\"\\n' > settings.inc; "
        "git config include.path ../settings.inc",
        "tools/watch.sh",
    ),
    "through a link": (
        "mkdir -p real; ln -s real tools; git config core.fsmonitor ./tools/watch.sh",
        "real/watch.sh",
    ),
    "settings that are a link": ("mv .git/config settings; ln -s ../settings .git/config", "settings"),
    "work tree": (
        "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor ./tools/watch.sh",
        "tools/watch.sh",
    ),
    "a folder of git elsewhere": (
        "git init -q --separate-git-dir=store made; touch made/notes.md; "
        "git -C made config core.fsmonitor ./tools/watch.sh",
        "made/tools/watch.sh",
    ),
    "a linked work tree": (
        "git worktree add -q made; git config core.hooksPath tools/hooks; touch made/notes.md",
        "made/tools/hooks/post-checkout",
    ),
    "a submodule": (
        "git -c protocol.file.allow=always submodule add -q ./vendor/lib made; "
        "git -C made config core.fsmonitor ./tools/watch.sh",
        "made/tools/watch.sh",
    ),
    "one below": ("git -C vendor/lib config core.fsmonitor ./tools/watch.sh", "vendor/lib/tools/watch.sh"),
}
"""What a person set, and the file that git goes by then."""
WHERE_IT_IS = {"monitor by its interpreter", "settings that are a link"}
"""A word without a slash is a name where there is such a file, and a link leads where it leads."""
CASES = [(name, there) for name in NAMED for there in (True, False) if there or name not in WHERE_IT_IS]
RUN_BY_PYTHON = "open('{outside}/ran', 'w')\n"
RUN = "#!/bin/sh\ntouch {outside}/ran\n"
ORDER = "[core]\n\tfsmonitor = touch {outside}/ran\n"


def content(person: Person, path: str) -> str:
    settings = path.endswith((".inc", "extra", "settings"))
    return (ORDER if settings else RUN_BY_PYTHON if path.endswith(".py") else RUN).replace(
        "{outside}", str(person.outside)
    )


def set_up(person: Person, name: str, *, there: bool) -> Path:
    """``there``: the file exists."""
    line, path = NAMED[name]
    person.does(line, person.folder)
    named = person.folder / path
    if there and not named.exists():
        named.parent.mkdir(parents=True, exist_ok=True)
        named.write_text("" if path.endswith((".inc", "extra", ".py")) else "#!/bin/sh\ncat $1\n")
        named.chmod(0o777)
    person.does("chmod -R a+rwX .", person.folder)
    return named


def used(person: Person) -> set[str]:
    for place in (person.folder, person.folder / "vendor/lib", person.folder / "made"):
        if place.is_dir():
            person.does(GIT, place)
    return person.ran()


@both_levels
@pytest.mark.parametrize(("name", "there"), CASES)
def test_what_settings_name_is_as_it_was_after_a_command(person: Person, name: str, there: bool) -> None:
    named = set_up(person, name, there=there)
    before = (named.read_bytes(), named.stat().st_mode) if named.exists() else None
    path = named.relative_to(person.folder)
    (person.folder / "new").write_text(content(person, str(path)))
    person.desk.shell(
        f"mkdir -p '{path.parent}'; rm -f '{path}'; cp new '{path}'; chmod 777 '{path}'; cat new > '{path}'"
    )
    assert ((named.read_bytes(), named.stat().st_mode) if named.exists() else None) == before
    assert used(person) == set()


@both_levels
@pytest.mark.parametrize("name", NAMED)
def test_nor_does_moving_a_folder_around_it_help(person: Person, name: str) -> None:
    named = set_up(person, name, there=True)
    before = named.read_bytes()
    path = named.relative_to(person.folder)
    (person.folder / "new").write_text(content(person, str(path)))
    top = path.parts[0]
    person.desk.shell(f"mv '{top}' away; mkdir -p '{path.parent}'; cp new '{path}'; chmod 777 '{path}'")
    assert named.read_bytes() == before
    assert used(person) == set()


@pytest.mark.parametrize(("name", "there"), CASES)
def test_file_tools_are_refused_it(person: Person, name: str, there: bool) -> None:
    named = set_up(person, name, there=there)
    path = str(named.relative_to(person.folder))
    text = content(person, path)
    assert person.desk.judge("write_file", path=path, content=text).access is Access.DENY
    assert not person.desk.run("write_file", path=path, content=text).ok
    assert person.desk.run("write_file", path="mine/x", content=text).ok
    assert not person.desk.run("move_file", path="mine/x", target=path).ok
    if there:
        assert not person.desk.run("delete_file", path=path).ok
        assert not person.desk.run("move_file", path=path, target="elsewhere").ok
        assert "/" not in path or not person.desk.run("move_file", path=str(Path(path).parent), target="elsewhere").ok
    assert used(person) == set()


def test_a_link_on_the_way_is_as_it_was(person: Person) -> None:
    set_up(person, "through a link", there=True)
    (person.folder / "new").write_text(RUN.replace("{outside}", str(person.outside)))
    assert person.desk.shell("mkdir evil; cp new evil/watch.sh; chmod 777 evil/watch.sh; ln -sfn evil tools").ok
    assert (person.folder / "tools").readlink() == Path("real")
    assert used(person) == set()


@pytest.mark.parametrize(
    "name", [name for name in NAMED if name not in ("included by what is included", "settings that are a link")]
)
def test_control_without_the_guard_git_runs_it(person: Person, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_named, "named", lambda *_: frozenset())
    named = set_up(person, name, there=True)
    path = str(named.relative_to(person.folder))
    (person.folder / "new").write_text(content(person, path))
    person.desk.shell(f"cat new > '{path}'; chmod 777 '{path}'")
    assert used(person) == {"ran"}


HARMLESS = """
[core]
	editor = code --wait
	pager = less -R
	hooksPath =
	excludesFile = ./ignored
	fsmonitor = true
[alias]
	t = "!sh ./run/tests.sh src/"
[commit]
	template = ./message
[blame]
	ignoreRevsFile = ./revs
[url "git@github.com:"]
	insteadOf = https://github.com/
[credential]
	helper = store --file ~/.git-credentials
[log]
	format = "%h/%d"
[diff "x"]
	textconv = exif src/
	# textconv = ./commented.sh
[remote "origin"]
	url = ../other
"""
"""Settings by which nothing of a workspace is run when somebody looks."""


def test_ordinary_files_beside_such_settings_are_ordinary_work(person: Person) -> None:
    with (person.folder / ".git/config").open("a") as config:
        config.write(HARMLESS)
    paths = (
        "code",
        "less",
        "ignored",
        "run/tests.sh",
        "src/a.py",
        "message",
        "revs",
        "store",
        "other/x",
        "commented.sh",
    )
    for path in paths:
        (person.folder / path).parent.mkdir(exist_ok=True)
        (person.folder / path).write_text("x")
    person.does("chmod -R a+rwX .", person.folder)
    with SafeDirectory(str(person.folder)) as root:
        assert git_named.named_above(root, "src/a.py") == frozenset()
    for path in paths:
        assert person.desk.run("write_file", path=path, content="y").ok, path
        assert person.desk.shell(f"echo z > {path}").ok, path
        assert (person.folder / path).read_text() == "z\n"


def test_very_many_names_are_refused_with_the_figure(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_named, "MOST_NAMED", 3)
    for number in range(5):
        person.does(f"git config filter.x{number}.clean ./tools/{number}.sh", person.folder)
    assert "name more than 3 files of the workspace" in person.desk.shell("true").error
    assert "name more than 3 files" in person.desk.run("write_file", path="a", content="").error


def test_settings_that_include_each_other_come_to_an_end(person: Person) -> None:
    for here, there in (("one", "two"), ("two", "one")):
        (person.folder / here).write_text(f"[include]\n\tpath = {there}\n" * 20)
    person.does("git config include.path ../one", person.folder)
    with SafeDirectory(str(person.folder)) as root:
        assert git_named.named_above(root, "x") == {"one", "two"}


@pytest.mark.parametrize(
    "text",
    [
        "[core]\n\tfsmonitor = ./x.sh\n",
        "[CORE] FSMonitor=./x.sh",
        '[core]\nfsmonitor = "./x.sh" # why\n',
        "[core]\n; no\nfsmonitor = ./x.\\\nsh\n",
        '[core]\n\tfsmonitor = ./"x".sh ; no\n',
        '[a "b \\" ]"]\n c = d\n[core]fsmonitor=./x.sh\n',
        "\ufeff[core]\r\n\tfsmonitor = ./x.sh\r\n",
    ],
)
def test_settings_are_read_as_git_reads_them(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_bytes(text.encode())
    asked = subprocess.run(
        ["git", "config", "--file", file, "core.fsmonitor"], capture_output=True, text=True, check=True
    )
    found = [
        value for section, key, value in git_named.entries(text.encode()) if (section, key) == ("core", "fsmonitor")
    ]
    assert found == [asked.stdout.strip()] == ["./x.sh"]


def test_another_workspace_is_not_named(tmp_path: Path) -> None:
    """Paths outside are for the walls of the sandbox."""
    desk = Desk(tmp_path)
    (desk.workspace / ".git").mkdir()
    (desk.workspace / ".git/config").write_text(f"[core]\n\tfsmonitor = {tmp_path}/x\n\thooksPath = ../../../y\n")
    with SafeDirectory(str(desk.workspace)) as root:
        assert git_named.named_above(root, "a") == frozenset()


def test_a_call_is_refused_not_failed_where_names_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_named, "MOST_NAMED", 0)
    with SafeDirectory(str(tmp_path)) as root, pytest.raises(PathRefused):
        git_named.named(root, {".git/config": b"[core]\n\tfsmonitor = ./x\n"})
