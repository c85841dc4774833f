"""How the built-in tools plan their own undoing: former states asserted, former bytes kept (SPEC O1, O2).

What is planned here is performed by ``builtin/file_restore.py``. Bytes go to the blobs with the INTENT of the call, so
they are there before the first of them may be needed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping

from loops.engine.values import Compensation, Reversibility, ToolCall
from loops.tools import snapshots
from loops.tools.arguments import text
from loops.tools.diffs import DiffError
from loops.tools.registry import ArgumentError, Arguments, PlanUndo, Registered, ToolRun
from loops.tools.sandbox.safe_paths import PathRefused, relative
from loops.tools.snapshots import FOLDER, NOTHING, TooLarge

RESTORE = "restore_files"
_MOST_MOVED = 500
Change = dict[str, str]
After = Callable[[Arguments, ToolRun, bytes], bytes]


def restoring(changes: list[Change]) -> Compensation:
    """Put these back, the last of them first; each is {"path", "before", "after"} in words of ``snapshots``."""
    return Compensation(tool=RESTORE, arguments={"files": changes})


class _Lasting(Exception):
    """It cannot be undone; the message says why."""


def _careful(plan: PlanUndo) -> PlanUndo:
    """A call that cannot work changes nothing: there is nothing to plan. One that lasts says so."""

    def careful(arguments: Arguments, run: ToolRun) -> Compensation:
        try:
            return plan(arguments, run)
        except _Lasting as lasting:
            return Compensation(why_not=str(lasting))
        except (ArgumentError, DiffError, PathRefused, OSError):
            return restoring([])

    return careful


# --- one file -------------------------------------------------------------------------------------------------------


def of_content(after: After) -> PlanUndo:
    """For a tool that gives the file ``path`` the bytes that ``after`` makes of the former ones."""

    @_careful
    def plan(arguments: Arguments, run: ToolRun) -> Compensation:
        path = relative(text(arguments, "path"))
        before, data = _kept(run, path)
        mode = int(before.split(":")[1], 8) if before.startswith("file:") else 0o644
        new = snapshots.file_state(after(arguments, run, data), mode)
        return restoring([*_parents(run, path), _change(path, before, new)])

    return plan


@_careful
def of_deletion(arguments: Arguments, run: ToolRun) -> Compensation:
    """For a file or an empty folder."""
    path = relative(text(arguments, "path"))
    return restoring([_change(path, _kept(run, path)[0], NOTHING)])


@_careful
def of_folder(arguments: Arguments, run: ToolRun) -> Compensation:
    """For a folder that is made, with those above it."""
    path = relative(text(arguments, "path"))
    return restoring(_parents(run, f"{path}/x"))


@_careful
def of_move(arguments: Arguments, run: ToolRun) -> Compensation:
    """The former place is filled again before the new one is emptied: the bytes are never in neither."""

    source, target = relative(text(arguments, "path")), relative(text(arguments, "target"))
    moved = [(path, _kept(run, path)[0]) for path in _tree(run, source)]
    there = [_change(f"{target}{path[len(source) :]}", NOTHING, state) for path, state in moved]
    gone = [_change(path, state, NOTHING) for path, state in reversed(moved)]
    return restoring([*_parents(run, target), *there, *gone])


def lasting_file(*names: str) -> Callable[[Arguments, ToolRun], str]:
    """Why a change of the files in the arguments ``names`` could not be undone: too large to keep."""

    def why(arguments: Arguments, run: ToolRun) -> str:
        try:
            places = [place for name in names for place in _tree(run, relative(text(arguments, name)))]
        except _Lasting as lasting:
            return str(lasting)
        return next(filter(None, (_too_large(run, place) for place in places)), "")

    return why


def _too_large(run: ToolRun, path: str) -> str:
    status, most = run.workspace.beneath.stat(path), run.limits.snapshot_file_bytes
    if status is None or not stat.S_ISREG(status.st_mode) or status.st_size <= most:
        return ""
    return f"{path} has {status.st_size:,} bytes; a former version of more than {most:,} is not kept"


def _kept(run: ToolRun, path: str) -> tuple[str, bytes]:
    """(state, bytes), the bytes handed to the blobs. Raises PathRefused for what cannot be kept."""
    state, data = snapshots.read_state(run.workspace, path)
    if state.startswith("large:") or state == snapshots.OTHER:
        raise _Lasting(_too_large(run, path) or f"{path} is no file that can be kept")
    if snapshots.hash_of(state):
        run.save_blob(data)
    return state, data


def _tree(run: ToolRun, path: str) -> Iterator[str]:
    """``path`` and, for a folder, everything below it, a folder before what lies in it."""
    yield path
    status = run.workspace.beneath.stat(path)
    if status is None or not stat.S_ISDIR(status.st_mode):
        return
    for count, (below, _) in enumerate(run.workspace.walk(path, hidden=True), 1):
        if count > _MOST_MOVED:
            raise _Lasting(f"{path} holds more than {_MOST_MOVED} files, too many to keep a copy of")
        yield below


def _parents(run: ToolRun, path: str) -> list[Change]:
    """The folders above ``path`` that will be made for it."""
    made, parent = [], os.path.dirname(path)
    while parent and run.workspace.beneath.stat(parent) is None:
        made.append(_change(parent, NOTHING, FOLDER))
        parent = os.path.dirname(parent)
    return made[::-1]


def _change(path: str, before: str, after: str) -> Change:
    return {"path": path, "before": before, "after": after}


# --- commands: they may change anything, so the workspace is listed before and after ----------------------------------


def lasting_command(arguments: Arguments, run: ToolRun) -> str:
    """Why nobody could undo what a command changes here."""
    return snapshots.too_large(run.workspace)


def of_command(arguments: Arguments, run: ToolRun) -> Compensation:
    """Until the command has ended all that is known is what was there before."""
    try:
        return Compensation(tool=RESTORE, arguments={"snapshot": snapshots.keep(run, snapshots.take(run.workspace))})
    except TooLarge as why:
        return Compensation(why_not=str(why))


def learn_command(arguments: Arguments, run: ToolRun, planned: Compensation) -> Compensation:
    """The files that differ from before; their new bytes are kept too, as far as they can be."""
    name = planned.arguments.get("snapshot")
    if not isinstance(name, str):
        return planned
    try:
        now = snapshots.take(run.workspace)
    except TooLarge as why:
        return Compensation(why_not=f"after the command {why}")
    if changes := now.changed_since(name, run.read_blob):
        snapshots.keep(run, now)
    return restoring(changes)


def changed_otherwise(run: ToolRun, start: str, recorded: Mapping[str, str]) -> Compensation | None:
    """What is neither as in the kept snapshot ``start`` nor as ``recorded`` has it by path; its bytes are kept too."""
    now = snapshots.take(run.workspace)
    changes = now.changed_otherwise(start, recorded, run.read_blob)
    if not changes:
        return None
    snapshots.keep(run, now)
    return restoring(changes)


NO_WAY = "its tool names no way to undo it"


def why_lasting(call: ToolCall, found: Registered, run: ToolRun) -> str:
    """Why this very call cannot be undone although its class says so; "" when it can, or when the class says enough."""
    if found.tool.internal or found.tool.spec.reversibility in {Reversibility.PURE, Reversibility.IRREVERSIBLE}:
        return ""
    return NO_WAY if found.tool.undo is None else found.tool.lasting(call.arguments, run)
