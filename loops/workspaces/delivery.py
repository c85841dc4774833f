"""A result applied to the folder that its run worked on a copy of: planned against how it is now, then written whole.

Nothing is written where it would overwrite a change of others since the copy was taken. What was begun is finished by
the next worker, from the plan: each path is as it was or as it shall be (file_assertions).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from loops.engine.encoding.canonical import sha256
from loops.engine.rollback.plan import FileChange
from loops.tools.file_assertions import WHY, Assertion
from loops.tools.limits import Limits
from loops.tools.output import printable
from loops.tools.protected_paths import protecting
from loops.tools.sandbox.safe_paths import PathRefused
from loops.tools.snapshots import FOLDER, NOTHING, hash_of, state_of
from loops.tools.workspace import Workspace
from loops.workspaces.changed_files import ChangedFile, described
from loops.workspaces.patch import Portable

OTHERS, GONE = "it was changed here since the copy was taken", "it is not here any more"
_OURS = Limits()
_LIMITS = replace(_OURS, protected=(), workspace_bytes=2**63, workspace_files=2**63)
"""What bounds agents does not bound a person: they see what is protected, and say whether it is applied."""


@dataclass(frozen=True, slots=True)
class Plan:
    """``steps`` are what is to be written, in this order, and ``files`` the same as people compare it. ``conflicts``
    are (path, why it cannot be written). ``obeyed`` are those that programs of people, or other agents, obey as soon as
    somebody uses the folder."""

    steps: tuple[Assertion, ...]
    files: tuple[ChangedFile, ...]
    conflicts: tuple[tuple[str, str], ...]
    obeyed: tuple[str, ...]

    @property
    def digest(self) -> str:
        return sha256({"steps": self.rows, "conflicts": [list(one) for one in self.conflicts]})

    @property
    def rows(self) -> list[Any]:
        return [[one.path, one.wanted, one.expected] for one in self.steps]


def plan(found: Portable, folder: str) -> Plan:
    """What applying it to ``folder`` means now. Raises PathRefused or OSError where the folder cannot be opened."""
    steps, changes, conflicts = list[Assertion](), list[FileChange](), list[tuple[str, str]]()
    with _opened(folder) as workspace:
        for change in found.changes:
            try:
                for step in _step(workspace, change):
                    steps.append(step)
                    changes.append(change)
            except (PathRefused, OSError) as error:
                conflicts.append((printable(change.path), printable(str(error))))
        steps.extend(_folders_above(workspace, steps))
    obeyed = tuple(printable(one.path) for one in steps if protecting(one.path, _OURS.protected))
    return Plan(tuple(in_order(steps)), tuple(described(changes)), tuple(conflicts), obeyed)


def write(steps: Sequence[Assertion], folder: str, bytes_of: Mapping[str, bytes], name: str) -> str:
    """Carry the plan out, or what is left of it; "" when all of it is there. Otherwise why not, and the folder is as it
    was, but for what the answer names. ``name`` is that of files which are not whole yet, the same at every try."""
    temporary = f".agentops-{name}.tmp"
    with _opened(folder, temporary) as workspace:
        _clear(workspace, steps, temporary)
        for one in steps:
            if why := _try(one, workspace, bytes_of):
                return f"{printable(one.path)}: {why}{_put_back(steps, one, workspace, bytes_of)}"
    return ""


def _put_back(
    steps: Sequence[Assertion], failed: Assertion, workspace: Workspace, bytes_of: Mapping[str, bytes]
) -> str:
    """Latest first. Returns what stays, in words; that of ``failed`` is known already."""
    back = [Assertion(one.path, wanted=one.expected, expected=one.wanted) for one in reversed(steps)]
    left = [one.path for one in back if _try(one, workspace, bytes_of) and one.path != failed.path]
    return f". Not as before any more: {', '.join(map(printable, left))}" if left else ""


def _try(one: Assertion, workspace: Workspace, bytes_of: Mapping[str, bytes]) -> str:
    """Why it is not so now; "" when it is, or when nothing of it was written (changes of others are left alone)."""
    try:
        standing = one.standing(state_of(workspace, one.path))
        if standing == "restore":
            one.make(workspace, bytes_of)
        return WHY.get(standing, "")
    except KeyError:
        return "its contents are not stored any more"
    except (PathRefused, OSError) as error:
        if one.wanted == NOTHING and one.expected == FOLDER and getattr(error, "errno", 0) == errno.ENOTEMPTY:
            return ""  # other files lie in it: git would leave it as well
        return printable(str(error))


def _opened(folder: str, temporary: str = "") -> Workspace:
    return Workspace(folder, _LIMITS, temporary=temporary)


def _step(workspace: Workspace, change: FileChange) -> Iterator[Assertion]:
    """None where it is so already. Raises PathRefused where others changed it, or where it may not be written."""
    now = state_of(workspace, change.path)
    if _same(now, change.after, change):
        return
    if not _same(now, change.before, change):
        raise PathRefused(OTHERS if now else GONE)
    if change.after.startswith("link:") and _leads_out(change):
        raise PathRefused("it is a link that leads out of the folder")
    if not now.startswith("link:"):
        workspace.check_write(change.path)
    yield Assertion(change.path, _with_mode_of(change, now), now)


def _leads_out(change: FileChange) -> bool:
    target = change.after.removeprefix("link:")
    place = os.path.normpath(PurePosixPath(change.path).parent / target)
    return place.startswith("/") or place.split("/")[0] == ".."


def _same(now: str, state: str, change: FileChange) -> bool:
    """Permissions count where the run changed them. The copy had those of what was copied as ``copies`` takes them."""
    if not hash_of(state) or not hash_of(now):
        return now == state
    modes = [int(one.split(":")[1], 8) & 0o777 | 0o600 for one in (now, state)]
    return hash_of(now) == hash_of(state) and (_keeps_mode(change) or modes[0] == modes[1])


def _keeps_mode(change: FileChange) -> bool:
    states = (change.before, change.after)
    return all(map(hash_of, states)) and len({one.split(":")[1] for one in states}) == 1


def _with_mode_of(change: FileChange, now: str) -> str:
    """Where the run changed no permissions, those of the file that is here stay."""
    mode = now.split(":")[1] if _keeps_mode(change) else ""
    return f"file:{mode}:{hash_of(change.after)}" if mode else change.after


def _folders_above(workspace: Workspace, steps: Sequence[Assertion]) -> Iterator[Assertion]:
    """Those that writing a file makes, so that putting back takes them away."""
    named = {one.path for one in steps}
    above = {str(parent) for one in steps if one.wanted for parent in PurePosixPath(one.path).parents} - {"."}
    for path in sorted(above - named):
        if state_of(workspace, path) == NOTHING:
            yield Assertion(path, FOLDER, NOTHING)


def in_order(steps: Sequence[Assertion]) -> list[Assertion]:
    """Deletions first, what lies in a folder before it; then the rest, a folder before what lies in it."""
    going = sorted((one for one in steps if one.wanted == NOTHING), key=lambda one: one.path, reverse=True)
    return [*going, *sorted((one for one in steps if one.wanted != NOTHING), key=lambda one: one.path)]


def _clear(workspace: Workspace, steps: Sequence[Assertion], temporary: str) -> None:
    """What an earlier try left of a file that it was writing when it ended."""
    for folder in {PurePosixPath(one.path).parent for one in steps}:
        with suppress(PathRefused, FileNotFoundError, NotADirectoryError):
            workspace.delete(str(folder / temporary))
