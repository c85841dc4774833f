"""A result applied to the folder that its run worked on a copy of: planned against how it is now, then written whole.

Nothing is written where it would overwrite a change of others since the copy was taken. What was begun is finished by
the next worker, from the plan: each path is as it was or as it shall be (file_assertions). No link is followed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from loops.engine.encoding.canonical import sha256
from loops.engine.rollback.plan import FileChange
from loops.printable.text import printable
from loops.tools.file_assertions import WHY, Assertion
from loops.tools.limits import Limits
from loops.tools.protected_paths import protecting
from loops.tools.sandbox.safe_paths import PathRefused
from loops.tools.snapshots import FOLDER, NOTHING, hash_of, state_of
from loops.tools.workspace import Workspace
from loops.workspaces.changed_files import ChangedFile, described
from loops.workspaces.patch import Portable

OTHERS, GONE = "it was changed here since the copy was taken", "it is not here any more"
THROUGH_A_LINK, LEADS_OUT = "the way to it leads through a link", "it is a link that may lead out of the folder"
LINKED, SPECIAL = "it has other names (hard links) that would not change", "it has special permissions (setuid, setgid)"
NO_TEXT = "it is a link whose target is no text"
_OURS = Limits()
_LIMITS = replace(_OURS, protected=())
"""What is protected from agents a person sees, and says whether it is applied."""
_LOOK = "look"


class Busy(Exception):
    """Somebody else is writing into the folder."""


@dataclass(frozen=True, slots=True)
class Plan:
    """``steps`` are what is to be written to ``folder``, in this order, and ``files`` the same as people compare it.
    ``conflicts`` are (path, why it cannot be written). ``obeyed`` are those that programs of people, or other agents,
    obey as soon as somebody uses the folder."""

    folder: str
    steps: tuple[Assertion, ...]
    files: tuple[ChangedFile, ...]
    conflicts: tuple[tuple[str, str], ...]
    obeyed: tuple[str, ...]

    @property
    def digest(self) -> str:
        conflicts = [list(one) for one in self.conflicts]
        return sha256({"folder": self.folder, "steps": self.rows, "conflicts": conflicts})

    @property
    def rows(self) -> list[Any]:
        return [[one.path, one.wanted, one.expected] for one in self.steps]


@dataclass(frozen=True, slots=True)
class Written:
    """What came of a try. ``why_not`` is empty when all of the plan is there. Else what was written is put back, but
    for the paths in ``left``, which are to be tried again."""

    why_not: str = ""
    left: tuple[str, ...] = ()


@contextmanager
def held(folder: str, order: str) -> Iterator[Workspace]:
    """The folder for one worker at a time, until it lets go or dies. Raises Busy, PathRefused or OSError."""
    with Workspace(folder, _LIMITS, order=order) as workspace:
        try:
            fcntl.flock(workspace.beneath.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy from None
        yield workspace


def plan(found: Portable, folder: str) -> Plan:
    """What applying it to ``folder`` means now. Raises PathRefused or OSError where the folder cannot be opened."""
    steps, changes, conflicts = list[Assertion](), list[FileChange](), list[tuple[str, str]]()
    with Workspace(folder, _LIMITS, order=_LOOK) as workspace:
        for change in found.changes:
            try:
                for step in _step(workspace, change):
                    steps.append(step)
                    changes.append(change)
            except (PathRefused, OSError) as error:
                conflicts.append((printable(change.path), printable(str(error))))
        steps.extend(_folders_above(workspace, steps))
        conflicts.extend(_obstructed(workspace, steps))
    obeyed = tuple(printable(one.path) for one in steps if protecting(one.path, _OURS.protected))
    return Plan(folder, tuple(in_order(steps)), tuple(described(changes)), tuple(conflicts), obeyed)


def write(steps: Sequence[Assertion], workspace: Workspace, bytes_of: Mapping[str, bytes], *, anew: bool) -> Written:
    """Carry the plan out, or what is left of it. ``anew``: the first try, so what is there already is not ours."""
    _clear(workspace, steps)
    touched = [] if anew else list(steps)
    for one in steps:
        standing, why = _try(one, workspace, bytes_of)
        if standing == "restore" and anew:
            touched.append(one)
        if why:
            ours = [other for other in touched if other is not one or standing == "restore"]
            back = put_back(ours, workspace, bytes_of)
            return Written(f"{printable(one.path)}: {why}{back.why_not}", back.left)
    _make_durable(workspace, steps)
    return Written()


def put_back(steps: Sequence[Assertion], workspace: Workspace, bytes_of: Mapping[str, bytes]) -> Written:
    """Latest first. What others changed meanwhile stays theirs, and is named."""
    _clear(workspace, steps)
    theirs, failed = list[str](), list[str]()
    for one in reversed(steps):
        back = Assertion(one.path, wanted=one.expected, expected=one.wanted)
        standing, why = _try(back, workspace, bytes_of)
        if why:
            (failed if standing == "restore" else theirs).append(printable(one.path))
    _make_durable(workspace, steps)
    return Written(f". Changed by others, so not put back: {', '.join(theirs)}" if theirs else "", tuple(failed))


def in_order(steps: Sequence[Assertion]) -> list[Assertion]:
    """What stands in the way first, what lies in a folder before it; then what is made or changed, a folder before what
    lies in it; all other deletions last, since they are what cannot be brought back when the disk is full."""
    replaced = {one.path for one in steps if one.wanted != NOTHING and one.expected == FOLDER}
    going = sorted((one for one in steps if one.wanted == NOTHING), key=lambda one: one.path, reverse=True)
    first = [one for one in going if _above(one.path) & replaced]
    coming = sorted((one for one in steps if one.wanted != NOTHING), key=lambda one: one.path)
    return [*first, *coming, *(one for one in going if one not in first)]


def _try(one: Assertion, workspace: Workspace, bytes_of: Mapping[str, bytes]) -> tuple[str, str]:
    """(how it stood, why it is not so now or "")."""
    standing = "restore"
    try:
        standing = one.standing(state_of(workspace, one.path))
        if standing == "restore":
            one.make(workspace, bytes_of)
        return standing, WHY.get(standing, "")
    except KeyError:
        return standing, "its contents are not stored any more"
    except (PathRefused, OSError) as error:
        if one.wanted == NOTHING and one.expected == FOLDER and getattr(error, "errno", 0) == errno.ENOTEMPTY:
            return standing, ""  # other files lie in it: git would leave it as well
        return standing, printable(str(error))


def _step(workspace: Workspace, change: FileChange) -> Iterator[Assertion]:
    """None where it is so already. Raises PathRefused where others changed it, or where it may not be written."""
    now = state_of(workspace, change.path)
    if _same(now, change.after, change):
        return
    if not _same(now, change.before, change):
        raise PathRefused(OTHERS if now else GONE)
    if change.after.startswith("link:") and may_lead_out(change, partial(_is_link, workspace)):
        raise PathRefused(LEADS_OUT)
    if hash_of(now):
        _refuse_special(workspace, change, now)
    if any(0xD800 <= ord(sign) <= 0xDFFF for sign in now + change.after):
        raise PathRefused(NO_TEXT)
    yield Assertion(change.path, _with_mode_of(change, now), now)


def _refuse_special(workspace: Workspace, change: FileChange, now: str) -> None:
    found = workspace.beneath.stat(change.path)
    if found is not None and found.st_nlink > 1 and hash_of(change.after):
        raise PathRefused(LINKED)
    if int(now.split(":")[1], 8) & ~0o777:
        raise PathRefused(SPECIAL)


def may_lead_out(change: FileChange, is_link: Callable[[str], bool]) -> bool:
    """By its words alone: up first and then down, and through no other link."""
    target = PurePosixPath(change.after.removeprefix("link:"))
    names = [part != ".." for part in target.parts]
    place = PurePosixPath(os.path.normpath(PurePosixPath(change.path).parent / target))
    if target.is_absolute() or names != sorted(names) or place.parts[:1] == ("..",):
        return True
    return any(map(is_link, _above(str(place))))


def _same(now: str, state: str, change: FileChange) -> bool:
    """Permissions count where the run changed them; of a file that it made, whether it is a program. The copy had those
    of what was copied as ``copies`` takes them."""
    if not hash_of(state) or not hash_of(now):
        return now == state
    counts = 0 if _keeps_mode(change) else 0o100 if change.before == NOTHING else 0o777
    modes = [(int(one.split(":")[1], 8) | 0o600) & counts for one in (now, state)]
    return hash_of(now) == hash_of(state) and modes[0] == modes[1]


def _keeps_mode(change: FileChange) -> bool:
    states = (change.before, change.after)
    return all(map(hash_of, states)) and len({one.split(":")[1] for one in states}) == 1


def _with_mode_of(change: FileChange, now: str) -> str:
    """Where the run changed no permissions, those of the file that is here stay."""
    if not hash_of(change.after):
        return change.after
    mode = int((now if _keeps_mode(change) else change.after).split(":")[1], 8) & 0o777
    return f"file:{mode:o}:{hash_of(change.after)}"


def _folders_above(workspace: Workspace, steps: Sequence[Assertion]) -> Iterator[Assertion]:
    """Those that writing a file makes, so that putting back takes them away."""
    named = {one.path for one in steps}
    above = set[str]().union(*(_above(one.path) for one in steps if one.wanted))
    for path in sorted(above - named):
        if state_of(workspace, path) == NOTHING and not _is_behind_a_link(workspace, path):
            yield Assertion(path, FOLDER, NOTHING)


def _obstructed(workspace: Workspace, steps: Sequence[Assertion]) -> Iterator[tuple[str, str]]:
    """What could not be written even so: behind a link that stays, or where tools of ours may not write."""
    planned = {one.path: one for one in steps}
    for one in steps:
        on_the_way = [planned[above] for above in _above(one.path) if above in planned]
        if any(above.expected not in (NOTHING, FOLDER) for above in on_the_way):
            continue  # what stands there now goes first
        if one.wanted != NOTHING and _is_behind_a_link(workspace, one.path):
            yield printable(one.path), THROUGH_A_LINK
        elif not one.expected.startswith("link:"):
            try:
                workspace.check_write(one.path)
            except (PathRefused, OSError) as error:
                yield printable(one.path), printable(str(error))


def _is_behind_a_link(workspace: Workspace, path: str) -> bool:
    return any(_is_link(workspace, above) for above in _above(path))


def _is_link(workspace: Workspace, path: str) -> bool:
    found = workspace.beneath.stat(path)
    return found is not None and stat.S_ISLNK(found.st_mode)


def _above(path: str) -> set[str]:
    return {str(parent) for parent in PurePosixPath(path).parents} - {"."}


def _clear(workspace: Workspace, steps: Sequence[Assertion]) -> None:
    """What an earlier try left of a file that it was writing when it ended."""
    for folder in _folders(steps):
        with suppress(PathRefused, FileNotFoundError, NotADirectoryError):
            workspace.delete(str(PurePosixPath(folder) / f".agentops-{workspace.order}.tmp"))


def _make_durable(workspace: Workspace, steps: Sequence[Assertion]) -> None:
    """Names too, before anybody is told that they are there."""
    for folder in _folders(steps):
        with (
            suppress(PathRefused, FileNotFoundError, NotADirectoryError),
            workspace.beneath.opened(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor,
        ):
            os.fsync(descriptor)


def _folders(steps: Sequence[Assertion]) -> set[str]:
    return {str(PurePosixPath(one.path).parent) for one in steps}
