"""The card of a rollback says what of its diff and its files it leaves out (SPEC X5)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loops.engine.values import Access, ToolCall
from loops.tools.builtin import file_restore
from loops.tools.limits import Limits
from loops.tools.policy import AccessRule
from loops.tools.rollback import RESTORE
from loops.tools.snapshots import state_of
from loops.tools.workspace import Workspace
from tests.unit.tools.harness import Desk

pytestmark = pytest.mark.spec("X5")
ALL = tuple(AccessRule(Access.ALLOW, "coder", operation=name) for name in ("read", "write", "delete", "execute"))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, ALL)


def shown(desk: Desk, sizes: list[int]) -> dict[str, Any]:
    """What undoing the making of files of these sizes would do."""
    files = []
    for number, size in enumerate(sizes):
        path = f"f{number:04}"
        (desk.workspace / path).write_text("x" * size)
        state = state_of(Workspace(str(desk.workspace), Limits()), path)
        files.append({"path": path, "before": "", "after": state})
    context = replace(desk.context, undoes="*")
    judgement = asyncio.run(desk.service.judge(ToolCall("net", RESTORE, {"files": files}), context))
    return dict(judgement.view)


def test_a_diff_that_is_cut_ends_in_how_much(desk: Desk) -> None:
    view = shown(desk, [20_000, 50_000, 300])
    assert view["diff_is_cut"]
    whole = sum(
        len(file_restore.difference(f"f{n:04}", b"x" * size, b"")) for n, size in enumerate((20_000, 50_000, 300))
    )
    left_out = whole - file_restore._LONGEST_DIFF
    assert view["diff"].endswith(f"\n[... {left_out:,} characters of the diff cut ...]\n")
    assert len(view["files"]) == 3


def test_a_diff_that_just_fits_is_whole_and_one_file_more_is_said(desk: Desk) -> None:
    first = file_restore._LONGEST_DIFF - len(file_restore.difference("f0000", b"", b"")) - 100
    overhead = len(file_restore.difference("f0000", b"x" * first, b"")) - first
    exact = file_restore._LONGEST_DIFF - overhead
    view = shown(desk, [exact])
    assert len(view["diff"]) == file_restore._LONGEST_DIFF
    assert not view["diff_is_cut"]
    assert shown(desk, [exact, 10])["diff_is_cut"], "room for nothing of the second file"


def test_files_beyond_those_listed_are_counted(desk: Desk) -> None:
    view = shown(desk, [1] * (file_restore._MOST_SHOWN + 4))
    assert (len(view["files"]), view["more_files"]) == (file_restore._MOST_SHOWN, 4)
