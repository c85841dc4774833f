"""The bounds of commands, said where a model and a reviewer look (SPEC X5, I7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from loops.engine.values import Access
from tests.unit.tools.harness import Desk

pytestmark = pytest.mark.spec("X5")


@pytest.mark.parametrize("tool", ["run_command", "run_tests"])
def test_more_time_than_a_command_may_take_is_refused_with_the_bound(tmp_path: Path, tool: str) -> None:
    desk = Desk(tmp_path)
    too_long = desk.judge(tool, command="ls", timeout_s=3600)
    assert (too_long.access, too_long.invalid) == (Access.DENY, True)
    assert "1800" in " ".join(too_long.reasons)
    assert desk.judge(tool, command="ls", timeout_s=1800).access is Access.ASK


def test_a_reviewer_reads_that_not_every_file_is_bound(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    names = [f"f{number:02}" for number in range(45)]
    for name in names:
        (desk.workspace / name).write_text(name)
    judgement = desk.judge("run_command", command=f"cat {' '.join(names)}")
    said = "it names 45 files; the approval is bound to what stands in the first 32 only"
    assert said in judgement.view["warnings"]
    assert desk.judge("run_command", command=f"cat {' '.join(names[:32])}").view["warnings"] == []
