"""move_file, make_directory, delete_file (SPEC I5)."""

from __future__ import annotations

import stat
from collections.abc import Mapping

from loops.engine.ports import Verified
from loops.engine.values import Access, Danger, Json, Reversibility, ToolResult, ToolSpec
from loops.tools.arguments import PATH, schema, text
from loops.tools.execution import in_thread
from loops.tools.expectations import expected
from loops.tools.file_changes import describe, report
from loops.tools.registry import Arguments, Operands, Tool, ToolRun
from loops.tools.rollback import lasting_file, of_deletion, of_folder, of_move


async def move_file(arguments: Arguments, run: ToolRun) -> ToolResult:
    return await in_thread(lambda: _move(arguments, run), run)


def _move(arguments: Arguments, run: ToolRun) -> ToolResult:
    source, target = text(arguments, "path"), text(arguments, "target")
    run.workspace.move(source, target)
    return ToolResult(ok=True, content=f"moved {source} to {target}", data={"path": source, "target": target})


def _preview_move(arguments: Arguments, run: ToolRun) -> Mapping[str, Json]:
    return {"kind": "move", "path": text(arguments, "path"), "target": text(arguments, "target")}


def _verify_move(arguments: Arguments, run: ToolRun) -> Verified:
    source, target = text(arguments, "path"), text(arguments, "target")
    there = (_exists(run, source), _exists(run, target))
    if there == (False, True):
        was = expected(run, "before", source)
        return Verified.DONE if was in (None, run.workspace.hash(target)) else Verified.UNKNOWN
    return Verified.NOT_DONE if there == (True, False) else Verified.UNKNOWN


async def make_directory(arguments: Arguments, run: ToolRun) -> ToolResult:
    return await in_thread(lambda: _make(arguments, run), run)


def _make(arguments: Arguments, run: ToolRun) -> ToolResult:
    path = text(arguments, "path")
    run.workspace.make_directory(path)
    return ToolResult(ok=True, content=f"made {path}/", data={"path": path})


def _verify_make(arguments: Arguments, run: ToolRun) -> Verified:
    return Verified.DONE if run.workspace.hash(text(arguments, "path")) == "directory" else Verified.NOT_DONE


async def delete_file(arguments: Arguments, run: ToolRun) -> ToolResult:
    return await in_thread(lambda: _delete(arguments, run), run)


def _delete(arguments: Arguments, run: ToolRun) -> ToolResult:
    path = text(arguments, "path")
    before = _bytes(run, path)
    run.workspace.delete(path)
    if before is None:
        return ToolResult(ok=True, content=f"deleted the folder {path}", data={"path": path})
    return report(run, path, before, None, f"deleted {path}")


def _preview_delete(arguments: Arguments, run: ToolRun) -> Mapping[str, Json]:
    path = text(arguments, "path")
    before = _bytes(run, path)
    return {"kind": "delete", "path": path} if before is None else {"kind": "delete"} | describe(path, before, None)


def _verify_delete(arguments: Arguments, run: ToolRun) -> Verified:
    path = text(arguments, "path")
    if not _exists(run, path):
        return Verified.DONE
    return Verified.NOT_DONE if expected(run, "before", path) in (None, run.workspace.hash(path)) else Verified.UNKNOWN


def _bytes(run: ToolRun, path: str) -> bytes | None:
    """A file's bytes, None for a folder. Raises FileNotFoundError: deleting nothing is a mistake worth hearing of."""
    status = run.workspace.beneath.stat(path)
    if status is not None and stat.S_ISDIR(status.st_mode):
        return None
    return run.workspace.read(path)


def _exists(run: ToolRun, path: str) -> bool:
    return run.workspace.beneath.stat(path) is not None


def _writes(arguments: Arguments, run: ToolRun) -> Operands:
    return Operands(writes=(text(arguments, "path"),))


def _moves(arguments: Arguments, run: ToolRun) -> Operands:
    return Operands(writes=(text(arguments, "path"), text(arguments, "target")))


TOOLS = (
    Tool(
        ToolSpec(
            name="move_file",
            deed="Move {path} to {target}",
            description="Move or rename a file or folder inside the workspace; the target must not exist.",
            parameters=schema(("path", "target"), path=PATH, target=PATH),
            operation="write",
            reversibility=Reversibility.REVERSIBLE,
            danger=Danger.MEDIUM,
            default_access=Access.ASK,
        ),
        move_file,
        _moves,
        _preview_move,
        _verify_move,
        undo=of_move,
        lasting=lasting_file("path"),
    ),
    Tool(
        ToolSpec(
            name="make_directory",
            deed="Make the folder {path}",
            description="Make a folder, with those above it.",
            parameters=schema(("path",), path=PATH),
            operation="write",
            reversibility=Reversibility.REVERSIBLE,
            danger=Danger.LOW,
            default_access=Access.ASK,
            retriable=True,
        ),
        make_directory,
        _writes,
        verify=_verify_make,
        undo=of_folder,
    ),
    Tool(
        ToolSpec(
            name="delete_file",
            deed="Delete {path}",
            description="Delete a file or an empty folder. The content is kept for a rollback.",
            parameters=schema(("path",), path=PATH),
            operation="delete",
            reversibility=Reversibility.COMPENSABLE,
            danger=Danger.HIGH,
            default_access=Access.ASK,
        ),
        delete_file,
        _writes,
        _preview_delete,
        _verify_delete,
        undo=of_deletion,
        lasting=lasting_file("path"),
    ),
)
