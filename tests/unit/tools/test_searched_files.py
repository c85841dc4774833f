"""Lists and searches leave out what .gitignore does, say so, and hide nothing else (SPEC I5, X5)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loops.engine.values import Access
from loops.tools import searched_files
from loops.tools.git_ignore import MOST_BYTES
from loops.tools.policy import AccessRule
from tests.unit.tools.harness import Desk

pytestmark = pytest.mark.spec("I5", "X5")
ONE = "[.gitignore leaves out {}, a folder counting once; include_ignored shows them]"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A project with a build folder, logs, and a folder that has rules of its own."""
    desk = Desk(tmp_path, (AccessRule(Access.ALLOW, "coder", operation="read"),))
    put(desk, ".gitignore", "build/\n*.log\n")
    put(desk, "a.py", "needle\n")
    put(desk, "a.log", "needle\n")
    put(desk, "build/x/out.py", "needle\n")
    put(desk, "sub/.gitignore", "!keep.log\n/gen.py\n")
    put(desk, "sub/keep.log", "needle\n")
    put(desk, "sub/gen.py", "needle\n")
    return desk


def put(desk: Desk, path: str, text: str | bytes) -> None:
    file = desk.workspace / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())


def listed(desk: Desk, **more: object) -> list[str]:
    content = desk.run("list_files", **more).content
    return [line.split("  ")[0] for line in content.split("\n") if not line.startswith("[")]


def test_a_list_leaves_out_what_git_ignores_and_says_how_much(desk: Desk) -> None:
    result = desk.run("list_files")
    assert listed(desk) == [".gitignore", "a.py", "sub/", "sub/.gitignore", "sub/keep.log"]
    assert result.content.endswith(ONE.format("3 paths"))
    assert (result.data["count"], result.data["ignored"]) == (5, 3)
    everything = desk.run("list_files", include_ignored=True)
    assert {"a.log", "build/", "build/x/out.py", "sub/gen.py"} <= set(listed(desk, include_ignored=True))
    assert "[" not in everything.content
    assert "ignored" not in everything.data


def test_only_what_would_have_been_listed_counts(desk: Desk) -> None:
    assert listed(desk, recursive=False) == [".gitignore", "a.py", "sub/"]
    assert desk.run("list_files", recursive=False).content.endswith(ONE.format("2 paths"))
    assert desk.run("list_files", path="sub").content.endswith(ONE.format("1 path"))


def test_a_search_leaves_the_same_out(desk: Desk) -> None:
    result = desk.run("search_files", pattern="needle")
    assert result.content.split("\n") == ["a.py:1: needle", "sub/keep.log:1: needle", ONE.format("3 paths")]
    assert result.data["ignored"] == 3
    every = desk.run("search_files", pattern="needle", include_ignored=True)
    assert (every.data["files"], "ignored" in every.data) == (5, False)
    assert ONE.format("3 paths") in desk.run("search_files", pattern="needle", glob="*.log").content


def test_what_is_asked_for_by_name_is_read_and_searched(desk: Desk) -> None:
    assert desk.run("read_file", path="a.log").content == "needle"
    assert desk.run("read_file", path="build/x/out.py").ok
    assert desk.run("search_files", pattern="needle", path="a.log").content == "a.log:1: needle"
    assert desk.run("search_files", pattern="needle", path="build").content == "build/x/out.py:1: needle"
    assert "out.py" in desk.run("list_files", path="build").content


def test_without_rules_nothing_is_left_out(desk: Desk) -> None:
    (desk.workspace / ".gitignore").unlink()
    (desk.workspace / "sub/.gitignore").unlink()
    assert "leaves out" not in desk.run("list_files").content
    assert desk.run("search_files", pattern="needle").data["files"] == 5


@pytest.mark.spec("I7")
def test_rules_behind_a_link_are_none(desk: Desk, tmp_path: Path) -> None:
    """As for git; nor does one lead out."""
    (tmp_path / "outside").write_text("*\n")
    put(desk, "rules", "*\n")
    for target in ("rules", str(tmp_path / "outside"), "/dev/zero"):
        (desk.workspace / ".gitignore").unlink()
        (desk.workspace / ".gitignore").symlink_to(target)
        assert "a.log" in listed(desk)
    (desk.workspace / ".gitignore").unlink()
    os.mkfifo(desk.workspace / ".gitignore")
    assert "a.log" in listed(desk)


@pytest.mark.parametrize("text", [b"*\n" + b"#" * (10 << 20), b"*\n" * 1_000_000])
def test_rules_that_are_too_long_are_named_and_leave_nothing_out(desk: Desk, text: bytes) -> None:
    assert len(text) > MOST_BYTES
    put(desk, ".gitignore", text)
    content = desk.run("list_files").content
    assert "a.log" in content
    assert "[too long to be read whole: .gitignore]" in content


def test_rules_that_leave_out_everything_hide_it_from_searches_alone(desk: Desk) -> None:
    put(desk, ".gitignore", b"\xff\n*\n")
    assert desk.run("list_files").content == f"(nothing here)\n{ONE.format('5 paths')}"
    assert desk.run("search_files", pattern="needle").content == f"(nothing found)\n{ONE.format('5 paths')}"
    assert desk.run("read_file", path="a.py").ok
    assert "+++ b/a.py" in str(desk.run("write_file", path="a.py", content="other\n").data["diff"])


def test_a_search_waits_only_so_long_for_rules(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched_files, "LONGEST_S", 0.0)
    content = desk.run("list_files").content
    assert "a.log" in content
    assert content.endswith(searched_files.TOO_LONG)


def test_names_that_no_tool_accepts_are_no_obstacle(desk: Desk) -> None:
    put(desk, "~odd/.gitignore", "*.txt\n")
    put(desk, "~odd/a.txt", "needle\n")
    (desk.workspace / os.fsdecode(b"\xff.log")).write_text("needle\n")
    assert "~odd/a.txt" not in listed(desk)
    assert "\\xff" not in desk.run("list_files").content
