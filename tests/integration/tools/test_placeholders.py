"""What a mount needed in the user's folder is never taken for a change, and does not stay (SPEC I7, O3)."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loops.tools import snapshots
from loops.tools.limits import PROTECTED, Limits
from loops.tools.sandbox import capability
from loops.tools.sandbox.workspace_guard import protected_files
from loops.tools.workspace import Workspace
from tests.stack import wait_until
from tests.unit.tools.harness import Desk

pytestmark = pytest.mark.spec("I7", "O3")
ROOT = Path(__file__).parents[3]
WORKER = """
import sys
from pathlib import Path
from tests.unit.tools.harness import Desk
Desk(Path(sys.argv[1])).shell("touch started; sleep 300", timeout_s=300)
"""
MISSING = {"AGENTS.md", ".mcp.json", ".claude", ".agentops", ".agentops.toml", "agentops.toml"}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    assert capability.probe().level == capability.FULL, capability.probe().warning
    desk = Desk(tmp_path, level=capability.probe())
    (desk.workspace / "CLAUDE.md").write_text("the user's own\n")
    return desk


@contextmanager
def running(desk: Desk) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of its own whose command runs in the workspace."""
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(desk.workspace.parent)], cwd=ROOT)
    try:
        wait_until((desk.workspace / "started").exists, "the command")
        assert names(desk) >= MISSING, "control: the mounts stand on something"
        yield worker
    finally:
        worker.kill()
        worker.wait()


def names(desk: Desk) -> set[str]:
    return {path.name for path in desk.workspace.iterdir()}


def states(desk: Desk) -> set[str]:
    with Workspace(str(desk.workspace), Limits()) as workspace:
        return set(snapshots.take(workspace).states)


def test_kill_nine_leaves_no_change_and_nothing_that_stays(desk: Desk) -> None:
    before = states(desk)
    with running(desk) as worker:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        assert names(desk) >= MISSING, "control: nobody was left who could remove them"
        assert states(desk) == before | {"started"}, "they were counted as changes of the agent"
    assert desk.service.snapshot(desk.context)
    assert names(desk) == {"CLAUDE.md", "started"}, "whoever takes the run up removes them"
    assert (desk.workspace / "CLAUDE.md").read_text() == "the user's own\n"


def test_the_next_command_takes_them_for_nothing(desk: Desk) -> None:
    with running(desk) as worker:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    with Workspace(str(desk.workspace), Limits()) as workspace:
        guard = protected_files.guard(workspace.beneath, PROTECTED)
        assert set(guard.masks) >= MISSING
        assert guard.binds == ["CLAUDE.md"]
        assert guard.restore(workspace.beneath) == []
    assert names(desk) == {"CLAUDE.md", "started"}


def test_while_a_command_runs_what_it_stands_on_stays(desk: Desk) -> None:
    with running(desk):
        assert desk.service.snapshot(desk.context)
        assert asyncio.run(desk.execute("list_files")).ok
        assert names(desk) >= MISSING
        assert states(desk) == {"CLAUDE.md", "started"}


def test_what_a_person_put_there_is_never_taken_for_one(desk: Desk) -> None:
    (desk.workspace / "AGENTS.md").write_text("")
    (desk.workspace / ".mcp.json").write_bytes(protected_files.PLACEHOLDER + b"more")
    assert desk.shell("true").ok
    assert names(desk) == {"CLAUDE.md", "AGENTS.md", ".mcp.json"}
    assert "AGENTS.md" in states(desk)


def test_a_whole_folder_is_copied_and_packed_as_it_stands_there(desk: Desk) -> None:
    """Ordinary builds do so; a device in it ends them, and pytest 7 collects nothing where one lies."""
    looks = "cp -r . /tmp/copy && tar -cf /tmp/x.tar . && find /tmp/copy -type f | wc -l && wc -c < .mcp.json"
    result = desk.shell(f"{looks}; for p in {' '.join(MISSING)}; do (echo x > $p || rm -f $p || mv $p y) 2>&-; done")
    assert f"{len(MISSING) + 1}\n0\n" in result.content, result
    assert names(desk) == {"CLAUDE.md"}
