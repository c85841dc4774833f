"""What a call may be at most, and what of it is shown: said to the model and to its reviewer (SPEC X5, I2, I7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from loops.driver.verification import DETAIL_CHARS, _ends
from loops.engine.encoding.strict_json import MAX_DEPTH
from loops.engine.rollback.plan import ATTEMPTS_AT_MOST, Undo, obstacle
from loops.engine.values import Access, Compensation
from loops.engine.verification.diagnosis import DETAIL_AT_MOST, _indented
from loops.llm.arguments import parse_arguments
from loops.templatetags.loops import FACT_CHARS, register
from loops.tools import diffs, file_changes, rollback
from loops.tools.builtin import commands
from loops.tools.limits import Limits
from loops.tools.policy import AccessRule
from loops.tools.reports import junit
from loops.tools.reports.report import LONGEST_NAME
from loops.tools.sandbox.safe_paths import _LONGEST_PATH, PathRefused, relative
from loops.web import markdown, notes
from loops.web import run_summary as of_runs
from loops.web.formatting import one_line
from tests.unit.tools.harness import Desk

pytestmark = pytest.mark.spec("X5")
WRITE = tuple(AccessRule(Access.ALLOW, "coder", operation=name) for name in ("read", "write"))


def test_a_script_that_is_not_shown_says_so_in_its_place(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (desk.workspace / "fits.sh").write_bytes(b"x" * commands._SHOWN_SCRIPTS)
    (desk.workspace / "more.sh").write_text("rm -rf /")
    (script,) = desk.judge("run_command", command="bash fits.sh").view["scripts"]
    assert script["content"] == "x" * commands._SHOWN_SCRIPTS
    (_, more) = desk.judge("run_command", command="bash fits.sh; bash more.sh").view["scripts"]
    assert more["content"] == "(8 bytes: too long to be shown)"
    assert len(more["sha256"]) == 64


def test_a_diff_that_is_cut_says_of_how_much() -> None:
    fits = file_changes.describe("a", None, b"x" * (file_changes._LONGEST_DIFF - 500))
    assert "characters of the diff cut" not in str(fits["diff"])
    cut = file_changes.describe("a", None, b"x" * (file_changes._LONGEST_DIFF + 500))
    whole = file_changes.difference("a", b"", b"x" * (file_changes._LONGEST_DIFF + 500))
    said = f"\n[... {len(whole) - file_changes._LONGEST_DIFF} characters of the diff cut ...]\n"
    assert str(cut["diff"]).endswith(said)


def test_of_files_that_are_too_long_to_compare_every_line_is_exchanged() -> None:
    assert "-y" not in diffs.unified("y\n", "y\n" + "x\n" * (diffs._MOST_LINES - 2), "a")
    said = diffs.unified("y\n", "y\n" + "x\n" * diffs._MOST_LINES, "a")
    assert f"@@ -1,1 +1,{diffs._MOST_LINES + 1} @@\n-y\n+y\n+x\n" in said


def test_a_file_that_is_too_large_is_refused_with_both_figures(tmp_path: Path) -> None:
    desk = Desk(tmp_path, WRITE, limits=Limits(file_bytes=100))
    assert desk.run("write_file", path="a", content="x" * 100).ok
    refused = desk.run("write_file", path="b", content="x" * 101)
    assert not refused.ok
    assert "101 bytes are more than the limit of 100 for one file" in refused.error
    (desk.workspace / "large").write_bytes(b"x" * 101)
    assert "'large' has 101 bytes; the limit is 100" in desk.run("read_file", path="large").error


def test_a_path_that_is_too_long_is_refused_with_both_figures(tmp_path: Path) -> None:
    desk = Desk(tmp_path, WRITE)
    (reason,) = desk.judge("read_file", path="x" * (_LONGEST_PATH + 1)).reasons
    assert reason.endswith("xxx' is too long")
    said = f"a path has 1 to {_LONGEST_PATH} characters, this one has {_LONGEST_PATH + 1}"
    with pytest.raises(PathRefused, match=said):
        relative("x" * (_LONGEST_PATH + 1))
    assert relative("x/" * (_LONGEST_PATH // 2))


def test_a_folder_too_large_to_be_moved_back_is_asked_for_with_the_figure(tmp_path: Path) -> None:
    desk = Desk(tmp_path, WRITE)
    (desk.workspace / "many").mkdir()
    for number in range(rollback._MOST_MOVED):
        (desk.workspace / "many" / f"{number}").touch()
    assert desk.judge("move_file", path="many", target="there").access is Access.ALLOW
    (desk.workspace / "many/one_more").touch()
    judged = desk.judge("move_file", path="many", target="there")
    assert judged.access is Access.ASK
    assert f"many holds more than {rollback._MOST_MOVED} files, too many to keep a copy of" in f"{judged.reasons}"


def test_arguments_that_cannot_be_taken_say_why() -> None:
    def nested(depth: int) -> str:
        return '{"a":' * depth + "1" + "}" * depth

    assert parse_arguments(nested(MAX_DEPTH))[1] == ""
    assert "nested deeper than 64 levels" in parse_arguments(nested(MAX_DEPTH + 1))[1]
    assert parse_arguments('{"a": 9007199254740992}')[1] == ""
    said = parse_arguments('{"a": 9007199254740993}')[1]
    assert "the integer 9007199254740993 at $.a is beyond 2**53; write it as a string" in said


def test_the_detail_of_a_check_says_what_is_left_out_and_ends_as_it_ended() -> None:
    text = "begin" + "x" * DETAIL_CHARS + "the end"
    assert f"[… {len(text) - DETAIL_CHARS} characters left out …]" in _ends(text)
    assert _ends(text).startswith("begin")
    assert _ends(text).endswith("the end")
    assert _ends("x" * DETAIL_CHARS) == "x" * DETAIL_CHARS


def test_the_model_reads_how_much_of_a_check_was_cut() -> None:
    text = "x" * (DETAIL_AT_MOST + 7)
    assert "7 characters" in _indented(text)
    assert "characters" not in _indented("x" * DETAIL_AT_MOST)


def test_an_undoing_that_loses_its_workers_says_how_often() -> None:
    def lost(times: int) -> tuple[str, str]:
        one = Undo("c1", "buy", "buy it", "compensable", Compensation("refund"), ok=True, begun=times, open=True)
        return obstacle(one, [one])

    assert lost(ATTEMPTS_AT_MOST - 1)[0] == ""
    assert lost(ATTEMPTS_AT_MOST) == ("failed", "the worker was lost 5 times while it was being undone")


def test_a_long_name_of_a_test_says_of_how_much_it_is() -> None:
    report = junit(f'<testsuite><testcase name="{"n" * 500}"><failure message="m"/></testcase></testsuite>'.encode())
    assert report is not None
    assert report.failures[0].name.endswith("… (502 characters)")
    assert len(report.failures[0].name) == LONGEST_NAME


def test_pages_say_what_of_a_text_they_leave_out() -> None:
    assert "more characters" not in markdown.markdown("x" * markdown.LONGEST)
    assert "<em>12 more characters are in the raw view.</em>" in markdown.markdown("x" * (markdown.LONGEST + 12))
    whole_fact = register.filters["whole_fact"]
    assert whole_fact("x" * FACT_CHARS) == "x" * FACT_CHARS
    said = "[cut at 500,000 of 500,001 characters; the whole is in the answer of the API: /facts/ of the run]"
    assert whole_fact("x" * (FACT_CHARS + 1)).endswith(said)
    assert one_line("x" * of_runs.WHY_CHARS, of_runs.WHY_CHARS) == "x" * of_runs.WHY_CHARS
    assert one_line("x" * (of_runs.WHY_CHARS + 1), of_runs.WHY_CHARS).endswith("…")


def test_a_note_of_many_templates_counts_the_others() -> None:
    names = {f"text{number:02}": "0" for number in range(notes.NAMED + 3)}
    assert notes._texts_changed({"prompts": names})["text"].endswith("text11 and 3 more")
    few = dict(list(names.items())[: notes.NAMED])
    assert notes._texts_changed({"prompts": few})["text"].endswith("text11")
