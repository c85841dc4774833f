"""What it costs to know what changed in a folder: beside git's own look at it, and by the step (SPEC X3, O3).

No server is needed: ``python -m tests.bench.workspace_diff``.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from loops.tools import snapshots
from loops.tools.limits import Limits
from loops.tools.workspace import Workspace
from tests.bench import report
from tests.unit.tools.test_rollback_tools import UndoDesk

FILES, FEWER, A_FOLDER = 100_000, 10_000, 100
T = TypeVar("T")
ROUNDS, STEPS = 9, 60


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        _beside_git(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        _by_the_step(Path(folder))
    print(flush=True)


def filled(folder: Path, files: int) -> Path:
    """A repository of so many small files, committed."""
    for number in range(files // A_FOLDER):
        place = folder / f"p{number // 50}" / f"d{number}"
        place.mkdir(parents=True)
        for name in range(A_FOLDER):
            (place / f"f{name}.txt").write_text(f"{number} {name}\n" * 5)
    git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", "-C", str(folder)]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "--allow-empty", "-m", "all"], ["status"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    return folder


def _beside_git(folder: Path) -> None:
    filled(folder, FILES)
    limits = replace(Limits(), snapshot_files=2 * FILES)
    with Workspace(str(folder), limits) as workspace:
        start, took = snapshots.take(workspace), list[tuple[float, float]]()
        stored = {one.name: one.body for one in start.tree.folders()}
        status = ["git", "-C", str(folder), "status", "--porcelain"]
        time.sleep(0.1)  # files that have just been written are read again
        for number in range(ROUNDS):
            (folder / "p1" / "d77" / "f7.txt").write_text(f"{number}\n")
            ours, found = _timed(lambda: snapshots.take(workspace).changed_since(start.name, stored.__getitem__))
            assert [one["path"] for one in found] == ["p1/d77/f7.txt"]
            git, _ = _timed(partial(subprocess.run, status, check=True, capture_output=True))
            took.append((ours, git))
    ratio = statistics.median(ours / git for ours, git in took[1:])
    middle = [statistics.median(column) for column in zip(*took, strict=True)]
    print(f"diff of {FILES:,} files: {middle[0]:.2f} s, git status {middle[1]:.2f} s")
    print(report.at_most("diff / git status", ratio, 1.5))


def _by_the_step(folder: Path) -> None:
    """The same calls, in turn, in a repository without files and in one of many that nothing changes: what git would
    obey is read in both."""
    places = [folder / name for name in ("empty", "many")]
    for place in places:
        place.mkdir()
    desks = [UndoDesk(place) for place in places]
    for desk, files in zip(desks, (0, FEWER), strict=True):
        filled(desk.workspace, files)
    for tool, arguments, target in (
        ("write_file", {"path": "notes.txt", "content": "the same\n"}, 1.05),
        ("run_command", {"command": "true"}, 0.0),
    ):
        took: list[list[float]] = [[], []]
        for _ in range(STEPS):
            for desk, times in zip(desks, took, strict=True):
                times.append(_timed(partial(_step, desk, tool, arguments))[0])
        ratio = statistics.median(many / empty for empty, many in zip(*[times[3:] for times in took], strict=True))
        empty, many = (statistics.median(times) * 1e3 for times in took)
        print(f"{tool}: {empty:.1f} ms in an empty repository, {many:.1f} ms in {FEWER:,} files")
        said = f"{tool} in {FEWER:,} files / in an empty one"
        print(report.at_most(said, ratio, target) if target else f"{said} {ratio:.2f}")


def _step(desk: UndoDesk, tool: str, arguments: dict[str, Any]) -> None:
    """Judged, planned, done and looked at, as a run does it."""
    call, context = desk.call(tool, **arguments), desk.context
    asyncio.run(desk.service.judge(call, context))
    planned = asyncio.run(desk.service.plan_undo(call, context))
    assert asyncio.run(desk.service.execute(call, context, desk.heard)).ok
    if planned is not None:
        asyncio.run(desk.service.learn_undo(call, context, planned))


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


if __name__ == "__main__":
    main()
