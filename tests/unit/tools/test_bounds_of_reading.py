"""What a search, a call and a list of alternatives leave out is said to the model (SPEC X5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from loops.engine.values import Access
from loops.tools.builtin import file_reads
from loops.tools.limits import Limits
from loops.tools.policy import AccessRule
from tests.unit.tools.harness import Desk

pytestmark = pytest.mark.spec("X5")
READ = (AccessRule(Access.ALLOW, "coder", operation="read"),)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, READ)


def put(desk: Desk, **files: str | bytes) -> None:
    for name, content in files.items():
        (desk.workspace / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def test_files_that_were_not_searched_are_named(desk: Desk) -> None:
    large = b"needle\n" + b"x" * file_reads._SEARCHED_FILE_BYTES
    put(desk, fits=large[: file_reads._SEARCHED_FILE_BYTES], image=b"\0needle" * 100)
    found = desk.run("search_files", pattern="needle", path=".")
    assert found.content.startswith("fits:1: needle\n")
    assert "larger" not in found.content
    assert "[not searched, not text: image]" in found.content
    put(desk, **{f"large{number}": large for number in range(7)})
    said = "[not searched, larger than 2,097,152 bytes: large0, large1, large2, large3, large4 and 2 more]"
    assert said in desk.run("search_files", pattern="needle").content
    named = desk.run("search_files", pattern="needle", path="large0").content
    assert named == "(nothing found)\n[not searched, larger than 2,097,152 bytes: large0]"
    (desk.workspace / "fits").unlink()
    assert desk.run("search_files", pattern="nowhere").data["lines"] == 0


def test_the_end_of_a_long_line_is_counted(desk: Desk) -> None:
    put(desk, a=f"needle{'x' * 294}\n", b=f"needle{'x' * 4994}\n")
    first, second = desk.run("search_files", pattern="needle").content.split("\n")
    assert first == f"a:1: needle{'x' * 294}"
    assert second.endswith("… (5,000 characters)")


def test_a_search_that_stops_says_so_and_one_that_just_fits_does_not(tmp_path: Path) -> None:
    desk = Desk(tmp_path, READ, limits=Limits(found_lines=10))
    put(desk, a="needle\n" * 6, b="needle\n" * 4)
    found = desk.run("search_files", pattern="needle")
    assert (found.data["lines"], "stopped" in found.content) == (10, False)
    put(desk, c="needle\n")
    found = desk.run("search_files", pattern="needle")
    assert found.data["lines"] == 10
    assert found.content.endswith("\n[stopped at 10 lines; narrow the search]")


def test_a_list_of_files_says_how_many_more(tmp_path: Path) -> None:
    desk = Desk(tmp_path, READ, limits=Limits(listed_files=3))
    put(desk, a="", b="", c="")
    assert "more" not in desk.run("list_files").content
    put(desk, d="", e="")
    listed = desk.run("list_files")
    assert listed.content.endswith("\n[2 more; narrow with path or glob]")
    assert listed.data["count"] == 5


def test_a_file_that_is_read_in_part_says_which(desk: Desk) -> None:
    put(desk, a="x\n" * file_reads._READ_LINES, b="x\n" * (file_reads._READ_LINES + 5))
    assert "[lines" not in desk.run("read_file", path="a").content
    assert desk.run("read_file", path="b").content.endswith("[lines 1 to 2000 of 2005; continue with offset 2001]")


def test_faults_of_a_call_that_are_not_named_are_hinted_at(desk: Desk) -> None:
    few = desk.judge("run_command", argv=[1] * 5)
    assert len(few.reasons) == 5
    many = desk.judge("run_command", argv=[1] * 6)
    assert many.reasons[-1] == "and there are more faults than these"
    (long,) = desk.judge("read_file", path=["y" * 900]).reasons
    assert len(long) <= 300
    assert long.startswith("/path: ['yyy")
    assert " characters) … yyy" in long
    assert long.endswith("yyy'] is not of type 'string'"), "what is wrong is never cut"


def test_a_file_too_long_for_so_large_a_pattern_is_named(desk: Desk) -> None:
    """A search that costs minutes of a processor cannot be stopped, so it does not begin."""
    put(desk, long=b"ab" * 1_000_000, short=b"ab\n")
    found = desk.run("search_files", pattern="(a|b)*a(a|b){900}c").content
    assert "[not searched, too long for so large a pattern: long]" in found
    assert "not searched" not in desk.run("search_files", pattern="a+b").content
