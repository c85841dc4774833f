"""Each row of what a command may use bites in a real sandbox, and a larger figure lets through (SPEC I7, S1)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loops.engine.state.command_limits import DEFAULTS
from loops.tools import execution
from loops.tools.limits import within
from loops.tools.sandbox import capability
from tests.unit.tools.harness import Desk

pytestmark = pytest.mark.spec("I7", "S1")
SHARED = "python3 -c 'import mmap, time; kept = mmap.mmap(-1, 3 * 2**30); time.sleep({for_s})'"
"""It counts with its whole size, though no page of it is ever touched."""
THREADS = (
    "python3 -c 'import threading, time\n"
    "for _ in range(150): threading.Thread(target=time.sleep, args=({for_s},), daemon=True).start()\n"
    "time.sleep({for_s})'"
)
"""Nobody waits for those that there are when the next one is refused."""
SPARSE = "truncate -s 400M a b c && sleep {for_s}"
CASES: dict[str, tuple[str, str, int]] = {
    "command_seconds": ("sleep 1.5", "stopped after 1 s (time limit)", 60),
    "command_memory_mib": (SHARED, "bytes of memory, the limit is 2147483648", 4_096),
    "command_processes": (THREADS, "128 processes and threads", 400),
    "workspace_mib": (SPARSE, "its quota is 1073741824", 2_048),
    "workspace_files": ("touch $(seq 150) && sleep {for_s}", "the workspace has more than 100 files", 1_000),
    "command_output_mib": ("yes | head -c 11M && sleep 1", "stopped: more than 10485760 bytes of output", 20),
}
"""Command, what it is ended with, and the figure that lets it through."""
TIGHT = {"command_seconds": 1, "workspace_files": 100}
"""Where what everybody begins with would take too long to meet."""


def shell(folder: Path, command: str, **given: int) -> Any:
    assert capability.probe().level == capability.FULL, capability.probe().warning
    return Desk(folder, level=capability.probe(), limits=within(replace(DEFAULTS, **given))).shell(command)


@pytest.mark.parametrize("name", CASES)
def test_a_command_is_held_to_it_and_a_larger_figure_lets_it_through(tmp_path: Path, name: str) -> None:
    command, said, enough = CASES[name]
    held = shell(tmp_path, command.replace("{for_s}", "60"), **({name: TIGHT[name]} if name in TIGHT else {}))
    assert not held.ok
    assert said in f"{held.error} {held.content}"
    for left in (tmp_path / "ws-1").iterdir():
        left.unlink()
    let_through = shell(tmp_path, command.replace("{for_s}", "2"), **{name: enough})
    assert let_through.ok, let_through.content


@pytest.mark.spec("C6")
class TestCriteria:
    """Their own time: no more and no less, whatever a command may otherwise take."""

    def desk(self, folder: Path, **given: int) -> Desk:
        made = Desk(folder, level=capability.probe(), limits=within(replace(DEFAULTS, **given)))
        made.context = replace(made.context, is_criterion=True)
        return made

    def test_have_their_own_time(self, tmp_path: Path) -> None:
        assert self.desk(tmp_path, command_seconds=1, criterion_seconds=30).shell("sleep 1.5").ok
        assert not shell(tmp_path, "sleep 1.5", command_seconds=1, criterion_seconds=30).ok, "an agent's has not"

    @pytest.mark.parametrize("tool", ["run_command", "run_tests"])
    def test_are_stopped_after_it_whatever_the_call_asks_for(self, tmp_path: Path, tool: str) -> None:
        stopped = self.desk(tmp_path, criterion_seconds=1).run(tool, command="sleep 60", timeout_s=60)
        assert "stopped after 1 s (time limit)" in stopped.error

    def test_may_take_longer_than_an_agent_may_ask_for(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(execution, "_GRACE_S", 0.0)
        desk = self.desk(tmp_path)
        desk.service.limits = replace(desk.service.limits, command_max_s=1.0, criterion_s=30.0)
        assert desk.shell("sleep 1.5").ok
        desk.service.limits = replace(desk.service.limits, criterion_s=1.0)
        assert not desk.shell("sleep 1.5").ok
