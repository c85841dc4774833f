"""How the built-in tools plan their undoing, and how files are put back: by assertion, and over nobody's work."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loops.engine.ports import Verified
from loops.engine.values import Access, Compensation, Reversibility, ToolCall, ToolResult, ToolSpec
from loops.tools import snapshots
from loops.tools.limits import Limits
from loops.tools.policy import AccessRule
from loops.tools.registry import Tool, ToolRegistry
from loops.tools.workspace import Workspace
from tests.unit.tools.harness import Desk

pytestmark = pytest.mark.spec("O2")
ALL = tuple(AccessRule(Access.ALLOW, "coder", operation=name) for name in ("read", "write", "delete", "execute", "buy"))


class UndoDesk(Desk):
    """A desk whose service also reads the blobs it keeps."""

    def __init__(self, folder: Path, **more: Any) -> None:
        super().__init__(folder, ALL, **more)
        self.service._read_blob = self.blobs.__getitem__
        self.service._stored_blobs = lambda names: [name for name in names if name in self.blobs]

    def plan(self, name: str, /, **arguments: Any) -> Compensation | None:
        return asyncio.run(self.service.plan_undo(self.call(name, **arguments), self.context))

    def undo(self, compensation: Compensation) -> ToolResult:
        call = ToolCall("undo", compensation.tool, compensation.arguments)
        context = replace(self.context, undoes="c1.0")
        return asyncio.run(self.service.execute(call, context, self.heard))


@pytest.fixture
def desk(tmp_path: Path) -> UndoDesk:
    return UndoDesk(tmp_path)


def look(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"path": "a", "content": "new"}),
    ("write_file", {"path": "new/deep/b", "content": "b"}),
    ("apply_diff", {"path": "a", "edits": [{"search": "old", "replace": "new"}]}),
    ("move_file", {"path": "a", "target": "there/a"}),
    ("move_file", {"path": "folder", "target": "elsewhere/folder"}),
    ("delete_file", {"path": "a"}),
    ("delete_file", {"path": "empty"}),
    ("make_directory", {"path": "x/y/z"}),
]


@pytest.mark.spec("O1", "I2")
@pytest.mark.parametrize(("name", "arguments"), CALLS)
def test_every_file_tool_is_undone_and_undoing_twice_is_undoing_once(
    desk: UndoDesk, name: str, arguments: dict[str, Any]
) -> None:
    (desk.workspace / "a").write_text("old\n")
    (desk.workspace / "folder/in").mkdir(parents=True)
    (desk.workspace / "folder/in/c").write_bytes(b"\x00\xff")
    (desk.workspace / "empty").mkdir()
    was = look(desk.workspace)
    planned = desk.plan(name, **arguments)
    assert planned is not None
    assert planned.repeatable
    assert desk.undo(planned).data == {"restored": [], "left": []}  # nothing has happened yet
    assert desk.run(name, **arguments).ok
    assert look(desk.workspace) != was
    first = desk.undo(planned)
    assert first.ok, first.error
    assert first.data["restored"]
    assert look(desk.workspace) == was
    assert desk.undo(planned).data == {"restored": [], "left": []}


@pytest.mark.parametrize("name", ["read_file", "list_files", "search_files", "task_completion"])
def test_what_changes_nothing_plans_nothing(desk: UndoDesk, name: str) -> None:
    assert desk.plan(name, path="a") is None


def test_a_call_that_cannot_work_has_nothing_to_undo(desk: UndoDesk) -> None:
    planned = desk.plan("apply_diff", path="missing", edits=[{"search": "a", "replace": "b"}])
    assert planned is not None
    assert planned.arguments == {"files": []}


def test_somebody_elses_change_stays(desk: UndoDesk) -> None:
    (desk.workspace / "a").write_text("old\n")
    planned = desk.plan("write_file", path="a", content="new")
    desk.run("write_file", path="a", content="new")
    (desk.workspace / "a").write_text("theirs")
    assert planned is not None
    result = desk.undo(planned)
    assert not result.ok
    assert result.data["left"] == [{"path": "a", "why": "somebody else changed it since"}]
    assert (desk.workspace / "a").read_text() == "theirs"
    (desk.workspace / "a").write_text("new")  # the control: as our call left it
    assert desk.undo(planned).ok
    assert (desk.workspace / "a").read_text() == "old\n"


@pytest.mark.spec("O3")
def test_a_file_too_large_to_be_kept_is_moved_back_and_never_deleted(desk: UndoDesk) -> None:
    big = desk.workspace / "deep" / "big.bin"
    big.parent.mkdir()
    big.write_bytes(b"x" * (5 << 20))
    call = desk.call("run_command", command="mv deep/big.bin moved.bin; rmdir deep")
    planned = asyncio.run(desk.service.plan_undo(call, desk.context))
    assert planned is not None
    assert asyncio.run(desk.service.execute(call, desk.context, desk.heard)).ok
    learnt = asyncio.run(desk.service.learn_undo(call, desk.context, planned))
    assert learnt is not None
    (desk.workspace / "deep").write_text("in the way")
    assert not desk.undo(learnt).ok
    assert (desk.workspace / "moved.bin").stat().st_size == 5 << 20, "it is nowhere else"
    (desk.workspace / "deep").unlink()
    result = desk.undo(learnt)
    assert result.ok, result.error
    assert look(desk.workspace) == {"deep": "folder", "deep/big.bin": b"x" * (5 << 20)}


@pytest.mark.spec("O1", "O3")
@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (replace(Limits(), snapshot_files=2), "more than 2 files"),
        (replace(Limits(), snapshot_bytes=2**20), "more than 1 MB"),
        (Limits(), ""),
    ],
)
def test_a_command_in_what_is_too_large_says_so(tmp_path: Path, limits: Limits, said: str) -> None:
    desk = UndoDesk(tmp_path, limits=limits)
    for name in "abc":
        (desk.workspace / name).write_bytes(bytes(400_000))
    planned, judged = desk.plan("run_command", command="true"), desk.judge("run_command", command="true")
    assert planned is not None
    assert said in planned.why_not
    assert bool(planned.tool) == (not said)
    assert judged.access is (Access.ASK if said else Access.ALLOW)
    assert said in " ".join(judged.reasons)


def test_permissions_are_part_of_the_state(desk: UndoDesk) -> None:
    script = desk.workspace / "run.sh"
    script.write_text("old")
    script.chmod(0o755)
    planned = desk.plan("write_file", path="run.sh", content="new")
    desk.run("write_file", path="run.sh", content="new")
    assert planned is not None
    assert desk.undo(planned).ok
    assert (script.read_text(), script.stat().st_mode & 0o777) == ("old", 0o755)


def test_a_folder_that_holds_something_else_by_now_stays(desk: UndoDesk) -> None:
    planned = desk.plan("make_directory", path="made")
    desk.run("make_directory", path="made")
    (desk.workspace / "made/theirs").write_text("x")
    assert planned is not None
    result = desk.undo(planned)
    assert not result.ok
    assert "not empty" in result.error
    (desk.workspace / "made/theirs").unlink()
    (desk.workspace / "made/__pycache__").mkdir()
    (desk.workspace / "made/__pycache__/x.pyc").write_text("x")
    assert desk.undo(planned).ok
    assert not (desk.workspace / "made").exists()


@pytest.mark.spec("I1", "I3")
def test_no_agent_can_call_what_undoes(desk: UndoDesk) -> None:
    assert "restore_files" not in {spec.name for spec in desk.service.specs()}
    judgement = desk.judge("restore_files", files=[])
    assert (judgement.access, judgement.invalid) == (Access.DENY, True)
    assert "unknown tool" in desk.run("restore_files", files=[]).error
    (desk.workspace / "a").write_text("a")
    state = f"file:644:{'0' * 64}"
    desk.run("restore_files", files=[{"path": "a", "before": "", "after": state}])
    assert (desk.workspace / "a").exists()


@pytest.mark.spec("I7")
@pytest.mark.parametrize("path", ["../out", "/etc/out", ".git/hooks/x", "link/out", "AGENTS.md"])
def test_undoing_leaves_the_workspace_as_little_as_any_tool(desk: UndoDesk, tmp_path: Path, path: str) -> None:
    (tmp_path / "outside").mkdir()
    (desk.workspace / "link").symlink_to(tmp_path / "outside")
    sha256 = desk.save(b"x")
    result = desk.undo(
        Compensation("restore_files", {"files": [{"path": path, "before": f"file:644:{sha256}", "after": ""}]})
    )
    assert not result.ok
    assert not list((tmp_path / "outside").iterdir())
    assert not (tmp_path / "out").exists()
    assert not (desk.workspace / ".git").exists()


@pytest.mark.spec("O1")
def test_too_large_to_keep_is_irreversible_and_asked(tmp_path: Path) -> None:
    desk = UndoDesk(tmp_path, limits=Limits(snapshot_file_bytes=10))
    (desk.workspace / "small").write_text("123")
    (desk.workspace / "large").write_text("12345678901")
    small = desk.judge("write_file", path="small", content="x")
    large = desk.judge("write_file", path="large", content="x")
    assert (small.access, small.reversibility) == (Access.ALLOW, "REVERSIBLE")
    assert (large.access, large.reversibility, large.gate_kind) == (Access.ASK, "IRREVERSIBLE", "irreversible_action")
    planned = desk.plan("write_file", path="large", content="x")
    assert planned is not None
    assert (planned.tool, "not kept" in planned.why_not) == ("", True)


@pytest.mark.spec("O1")
@pytest.mark.parametrize("limits", [Limits(snapshot_files=3), Limits(snapshot_bytes=20)])
def test_a_command_in_a_workspace_too_large_to_keep_is_asked_every_time(tmp_path: Path, limits: Limits) -> None:
    desk = UndoDesk(tmp_path, limits=limits)
    for number in range(2):
        (desk.workspace / f"{number}").write_text("x" * 9)
    assert desk.judge("run_command", command="ls").access is Access.ALLOW
    for number in range(2, 4):
        (desk.workspace / f"{number}").write_text("x" * 9)
    judgement = desk.judge("run_command", command="ls")
    assert (judgement.access, judgement.gate_kind) == (Access.ASK, "irreversible_action")


@pytest.mark.spec("O1")
def test_a_tool_that_names_no_way_back_is_irreversible_whatever_it_says(tmp_path: Path) -> None:
    async def run(arguments: Any, about: Any) -> ToolResult:
        return ToolResult(ok=True, content="")

    spec = ToolSpec("order", "o", {"type": "object"}, operation="buy", reversibility=Reversibility.COMPENSABLE)
    cancel = Compensation(tool="cancel", arguments={})
    with_way = Tool(replace(spec, name="order2"), run, undo=lambda arguments, about: cancel)
    desk = UndoDesk(tmp_path, registry=ToolRegistry([Tool(spec, run), with_way]))
    assert desk.judge("order").gate_kind == "irreversible_action"
    assert desk.judge("order2").access is Access.ALLOW
    assert desk.plan("order") == Compensation(why_not="its tool names no way to undo it")
    assert desk.plan("order2") == cancel


def test_a_plan_that_breaks_does_not_stop_the_call(tmp_path: Path) -> None:
    async def run(arguments: Any, about: Any) -> ToolResult:
        return ToolResult(ok=True, content="")

    def broken(arguments: Any, about: Any) -> Compensation:
        raise RuntimeError("bug")

    spec = ToolSpec("order", "o", {"type": "object"}, reversibility=Reversibility.COMPENSABLE)
    desk = UndoDesk(tmp_path, registry=ToolRegistry([Tool(spec, run, undo=broken)]))
    planned = desk.plan("order")
    assert planned is not None
    assert "bug" in planned.why_not


@pytest.mark.spec("O3")
class TestSnapshots:
    def test_name_every_kind_of_thing(self, desk: UndoDesk) -> None:
        (desk.workspace / "f").write_text("x")
        (desk.workspace / "f").chmod(0o640)
        (desk.workspace / "d").mkdir()
        (desk.workspace / "l").symlink_to("f")
        os.mkfifo(desk.workspace / "p")
        (desk.workspace / "__pycache__").mkdir()
        with Workspace(str(desk.workspace), Limits()) as workspace:
            states = snapshots.take(workspace).states
        assert states["f"].startswith("file:640:")
        assert (states["d"], states["l"], states["p"]) == ("directory", "link:f", "other")
        assert "__pycache__" not in states

    def test_see_a_change_that_leaves_size_and_time_as_they_were(self, desk: UndoDesk) -> None:
        file = desk.workspace / "f"
        file.write_text("one")
        os.utime(file, (1, 1))
        time.sleep(0.06)  # past the tick of the clock that a change may hide in
        with Workspace(str(desk.workspace), Limits()) as workspace:
            first = snapshots.take(workspace)
            file.write_text("two")
            os.utime(file, (1, 1))
            second = snapshots.take(workspace)
        assert [one["path"] for one in second.changed_since(first.name, {first.name: first.tree.body}.__getitem__)] == [
            "f"
        ]

    def test_see_that_a_file_which_had_just_been_written_is_gone(self, desk: UndoDesk) -> None:
        (desk.workspace / "d").mkdir()
        (desk.workspace / "d" / "f").write_text("new")
        before = desk.plan("run_command", command="true")
        assert before is not None
        (desk.workspace / "d" / "f").unlink()
        call = desk.call("run_command", command="true")
        learnt = asyncio.run(desk.service.learn_undo(call, desk.context, before))
        assert learnt is not None
        assert [one["path"] for one in learnt.arguments["files"]] == ["d/f"]

    def test_are_taken_by_many_runs_of_a_worker_at_once(self, tmp_path: Path) -> None:
        folders = [tmp_path / str(number) for number in range(60)]
        for folder in folders:
            (folder / "d").mkdir(parents=True)
            (folder / "d" / "f").write_text(folder.name)

        def names(folder: Path) -> set[str]:
            found = set()
            for _ in range(10):
                with Workspace(str(folder), Limits()) as workspace:
                    found.add(snapshots.take(workspace).name)
            return found

        with ThreadPoolExecutor(12) as pool:
            found = list(pool.map(names, folders))
        assert all(len(each) == 1 for each in found)
        assert len(set().union(*found)) == 60

    def test_keep_what_is_new_alone(self, desk: UndoDesk) -> None:
        for folder in range(20):
            (desk.workspace / f"d{folder}").mkdir()
            for file in range(20):
                (desk.workspace / f"d{folder}/f{file}").write_text(f"{folder} {file}")
        desk.plan("run_command", command="true")
        before = set(desk.blobs)
        (desk.workspace / "d7/f7").write_text("other")
        desk.plan("run_command", command="true")
        assert len(desk.blobs.keys() - before) == 3, "the file, its folder and the top"


def test_the_world_says_whether_it_is_undone(desk: UndoDesk) -> None:
    planned = desk.plan("write_file", path="a", content="new")
    assert planned is not None
    call, context = ToolCall("undo", planned.tool, planned.arguments), replace(desk.context, undoes="c1.0")
    assert asyncio.run(desk.service.verify(call, context)) is Verified.DONE
    desk.run("write_file", path="a", content="new")
    assert asyncio.run(desk.service.verify(call, context)) is Verified.NOT_DONE
