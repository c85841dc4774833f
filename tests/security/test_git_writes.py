"""File tools make no repository whose hooks or orders a person's git would obey, whatever it is called (SPEC I7).

Each attack is tried with a person's git afterwards, and once without the guard: then git runs what was planted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from loops.engine.values import Access
from loops.tools.sandbox.workspace_guard import git_writes
from tests.security import test_afterwards
from tests.security.test_afterwards import Person
from tests.unit.tools.harness import Desk

pytestmark = pytest.mark.spec("I7")
person = test_afterwards.person

Step = tuple[str, dict[str, str]]
HEAD = "ref: refs/heads/main\n"


def write(path: str, content: str = "x") -> Step:
    return "write_file", {"path": path, "content": content}


def move(path: str, target: str) -> Step:
    return "move_file", {"path": path, "target": target}


def order(run: str, name: str = "b/config") -> Step:
    return write(name, f"[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {run}\n\tworktree = .\n")


RUN = "touch {outside}/ran"
"""``{outside}`` is the folder in which a file would be made by whoever runs it."""
GIT = "git status; git log; git --git-dir=. --work-tree=. status"
"""What a person does in such a folder."""
SHAPE = (write("b/HEAD", HEAD), write("b/objects/x"), write("b/refs/heads/x"))
REPOSITORIES = {
    "settings last": (*SHAPE, order(RUN)),
    "settings first": (order(RUN), *SHAPE),
    "settings in the middle": (SHAPE[0], SHAPE[1], order(RUN), SHAPE[2]),
    "made as folders": (
        order(RUN),
        SHAPE[0],
        *(("make_directory", {"path": f"b/{name}"}) for name in ("objects", "refs")),
    ),
    "put together by moving": (
        *(write(f"a/{name}") for name in ("x", "y/x", "z/x")),
        order(RUN, "a/settings"),
        SHAPE[0],
        move("a/y", "b/objects"),
        move("a/z", "b/refs"),
        move("a/settings", "b/config"),
    ),
    "in other letters": (write("b/Head", HEAD), write("b/OBJECTS/x"), write("b/Refs/x"), order(RUN, "b/Config")),
    "settings of a work tree": (
        *SHAPE,
        write("b/config", "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n"),
        order(RUN, "b/config.worktree"),
    ),
    "common": (
        write("c/objects/x"),
        write("c/refs/x"),
        order(RUN, "c/config"),
        write("b/HEAD", HEAD),
        write("b/commondir", "../c\n"),
    ),
    "leads elsewhere": (write("b/HEAD", HEAD), write("b/commondir", "../bare.git\n")),
    "hooks last": (*SHAPE, write("b/config", "[core]\n\tbare = true\n"), write("b/hooks/pre-commit", RUN)),
    "hooks first": (write("b/hooks/pre-commit", RUN), *SHAPE),
    "hooks moved": (write("a/hooks/pre-commit", RUN), *SHAPE, move("a/hooks", "b/hooks")),
    "a rebase to go on with": (*SHAPE, write("b/rebase-merge/git-rebase-todo", f"exec {RUN}\n")),
    "a rebase, moved": (write("a/x", f"exec {RUN}\n"), *SHAPE, move("a/x", "b/rebase-merge/git-rebase-todo")),
    "a strategy": (*SHAPE, write("b/rebase-merge/strategy", "x/y\n")),
    "a strategy, moved": (write("a/strategy", "x/y\n"), *SHAPE, move("a", "b/rebase-merge")),
    "a strategy first": (write("a/strategy", "x/y\n"), move("a", "b/rebase-merge"), *SHAPE),
    "options of picks": (*SHAPE, write("b/sequencer/opts", "[options]\n\tstrategy = x/y\n")),
    "by what exists": (write("bare.git/hooks/post-update", RUN),),
    "settings of what exists": (order(RUN, "bare.git/config"),),
    "of what exists, removed": (("delete_file", {"path": "bare.git/config"}),),
    "of what exists, moved away": (move("bare.git/config", "settings"),),
}
"""What an agent does, step by step, to have a person's git run something. ``bare.git`` is the person's own."""


def does(person: Person, steps: Sequence[Step]) -> list[bool]:
    """Which of them succeeded."""
    replaced = [
        (tool, {name: value.replace("{outside}", str(person.outside)) for name, value in given.items()})
        for tool, given in steps
    ]
    return [person.desk.run(tool, **given).ok for tool, given in replaced]


def with_a_bare_one(person: Person) -> Person:
    person.does("git init -q --bare bare.git; git -C bare.git config core.hooksPath /dev/null", person.folder)
    return person


@pytest.mark.parametrize("name", REPOSITORIES)
def test_file_tools_make_no_repository_that_runs_something(person: Person, name: str) -> None:
    before = person_s(with_a_bare_one(person))
    done = does(person, REPOSITORIES[name])
    assert not all(done)
    assert person_s(person) == before
    for place in ("b", "c", "B"):
        if (person.folder / place).is_dir():
            person.does(GIT, person.folder / place)
    assert person.ran() == set()


def person_s(person: Person) -> dict[str, bytes]:
    bare = person.folder / "bare.git"
    return {str(path): path.read_bytes() for path in sorted(bare.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", ["settings last", "settings first", "put together by moving", "common"])
def test_control_without_the_guard_they_do(person: Person, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_writes, "refusal", lambda *_, **__: "")
    monkeypatch.setattr(git_writes, "refusal_of_settings", lambda *_: "")
    assert all(does(with_a_bare_one(person), REPOSITORIES[name]))
    person.does(GIT, person.folder / "b")
    assert person.ran() == {"ran"}


def test_the_refusal_says_why_and_is_the_judgement_where_it_can_be(person: Person) -> None:
    does(person, (order(RUN), SHAPE[0], SHAPE[1]))
    judged = person.desk.judge("write_file", path="b/refs/heads/x", content="x")
    assert judged.access is Access.DENY
    assert "would make 'b' a repository of git with orders for git (core.fsmonitor = touch" in judged.reasons[0]
    said = person.desk.run("write_file", path="vendor/x.git/hooks/update", content="x")
    assert said.ok, "control: no repository"
    does(person, (write("r.git/objects/x"), write("r.git/refs/x")))
    assert (
        "git would run it as a hook of 'r.git'" in person.desk.run("write_file", path="r.git/hooks/x", content="").error
    )


def test_through_a_link_it_is_the_same(person: Person) -> None:
    with_a_bare_one(person)
    (person.folder / "alias").symlink_to("bare.git")
    assert does(person, (write("alias/hooks/update"), order(RUN, "alias/config"))) == [False, False]


ORDINARY = (
    write("app/config", "fsmonitor = x\n[alias]\n"),
    write("app/HEAD", "anything"),
    write("docs/strategy", "grow\n"),
    write("tracks/notes.py"),
    move("tracks", "sequencer"),
    write("sequencer/opts", "[options]\n\tstrategy = ort\n"),
    write("app/hooks/useThis.ts"),
    write("app/objects/a.ts"),
    write("config/settings.py"),
    write("refs/list.md"),
    write("src/config.worktree", "x"),
    write(".gitattributes", "*.md text eol=lf\n*.png binary\n"),
    write("sub/.gitattributes", "* text=auto\n"),
    write(".gitignore", "build\n"),
    write("fixture.git/HEAD", HEAD),
    write("fixture.git/config", "[core]\n\tbare = true\n"),
    write("fixture.git/objects/.keep", ""),
    write("fixture.git/refs/.keep", ""),
    write("fixture.git/config", '[core]\n\tbare = true\n[remote "origin"]\n\turl = https://example.org/x.git\n'),
    write("fixture.git/HEAD", "ref: refs/heads/trunk\n"),
    write("fixture.git/hooks/update.sample"),
    ("delete_file", {"path": "fixture.git/config"}),
    ("delete_file", {"path": "app/config"}),
    move("app", "moved"),
)


@pytest.mark.parametrize("at", range(len(ORDINARY)))
def test_ordinary_names_are_ordinary_work(tmp_path: Path, at: int) -> None:
    desk = Desk(tmp_path)
    for tool, given in ORDINARY[: at + 1]:
        result = desk.run(tool, **given)
        assert result.ok, (given, result.error)


def test_a_repository_that_a_command_made_is_undone(person: Person) -> None:
    """Undoing goes through the same door: what git keeps harmless is written and deleted."""
    with_bare = Desk(person.folder.parent, made=False)
    for step in (*SHAPE, write("b/config", "[core]\n\tbare = true\n"), write("b/hooks/update.sample")):
        assert with_bare.run(step[0], **step[1]).ok
    for name in ("b/config", "b/HEAD", "b/hooks/update.sample", "b/objects/x", "b/refs/heads/x"):
        assert with_bare.run("delete_file", path=name).ok, name
