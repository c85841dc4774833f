"""States of files as words, and of a whole workspace as a list of them: what undoing compares and puts back (SPEC O3).

    ""                     nothing is there
    directory              a folder
    file:<mode>:<sha256>   a file; the mode in octal, the bytes a blob
    link:<target>          a symbolic link
    large:<size>:<mtime>   a file whose bytes are too many to be kept: a change of it is seen and cannot be undone
    other                  a pipe, a socket, a name that no tool accepts

Two states are the same when the words are. Folders that are never of interest (.git, node_modules, caches) are left
out: what happens in there is neither seen nor undone. Placeholders of protected paths (protected_files.py) are
nothing.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from loops.tools.limits import Limits
from loops.tools.output import clean_text, sha256_hex
from loops.tools.registry import ToolRun
from loops.tools.sandbox.safe_paths import PathRefused, relative
from loops.tools.sandbox.workspace_guard.protected_files import placeholders
from loops.tools.snapshot_trees import FOLDER as FOLDER
from loops.tools.snapshot_trees import NOTHING as NOTHING
from loops.tools.snapshot_trees import Folder, Read, differences
from loops.tools.workspace import SKIPPED, Workspace, entered

OTHER = "other"
_SETTLED_NS = 50_000_000
"""A file changed this short a time ago may change again within one tick of its clock: it is read again next time."""
_WORKSPACES, _MOST_SEEN = 32, 300_000
"""That are remembered, and paths in all of them together."""
_KIND = 0o170000
_Signature = tuple[int, int, int, int, int]
_Folders = list[tuple[str, os.stat_result]]
_Settled = tuple[_Signature, str, str, int]
"""What tells a file from itself changed, its state, its name in listings, and how many of its bytes are kept."""


@dataclass(slots=True)
class _Seen:
    """A folder as it was last found: the states of its settled files, and the folders in it."""

    files: dict[str, _Settled]
    folders: dict[str, _Seen]
    tree: Folder
    paths: int = 0
    """In it and below."""
    size: int = 0
    """Bytes that are kept of its files."""


_seen: dict[tuple[int, int], _Seen] = {}
_remembering = threading.Lock()
"""Runs of one worker look at their folders at the same time."""


class TooLarge(Exception):
    """No snapshot of the workspace can be kept; the message says why."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A workspace as it was. ``name`` is that of its listing, the same for the same files."""

    tree: Folder

    @property
    def name(self) -> str:
        return self.tree.name

    @property
    def states(self) -> dict[str, str]:
        """Every path with its state."""
        return self.tree.states()

    def changed_since(self, name: str, read: Read) -> list[dict[str, str]]:
        """What became of the kept snapshot ``name``, as assertions of ``restore_files``: a folder before what lies in
        it. Raises KeyError where that is not stored."""
        return [{"path": path, "before": was, "after": now} for path, was, now in differences(name, self.tree, read)]

    def changed_otherwise(self, start: str, recorded: Mapping[str, str], read: Read) -> list[dict[str, str]]:
        """The same as seen from what ``recorded`` made of the kept snapshot ``start``: path to state, "" for gone."""
        found = {path: (recorded.get(path, was), now) for path, was, now in differences(start, self.tree, read)}
        found |= {path: (left, self.tree.state_of(path)) for path, left in recorded.items() if path not in found}
        return [{"path": path, "before": was, "after": now} for path, (was, now) in sorted(found.items()) if was != now]


def hash_of(state: str) -> str:
    """The blob of a file's state; "" for anything else."""
    return state.rsplit(":", 1)[1] if state.startswith("file:") else ""


def file_state(data: bytes, mode: int) -> str:
    """The state of a file with these bytes."""
    return f"file:{mode:o}:{sha256_hex(data)}"


def state_of(workspace: Workspace, path: str) -> str:
    """The state of one path as it is now. Raises PathRefused or OSError where it cannot be looked at."""
    return read_state(workspace, path)[0]


def read_state(workspace: Workspace, path: str) -> tuple[str, bytes]:
    """(state, bytes of a file that can be kept)."""
    status = workspace.beneath.stat(path)
    return (NOTHING, b"") if status is None or _held(workspace, path) else _described(workspace, path, status)


def too_large(workspace: Workspace) -> str:
    """Why no snapshot of the workspace can be kept; "" when one can. Nothing is read."""
    room = _Room(workspace.limits)
    try:
        for path, status in workspace.walk():
            if os.path.basename(path) not in SKIPPED:
                kept = stat.S_ISREG(status.st_mode) and status.st_size <= room.largest
                room.use(1, status.st_size if kept else 0)
    except TooLarge as why:
        return str(why)
    return ""


class _Room:
    """How much a snapshot may still hold."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self.largest = limits, limits.snapshot_file_bytes
        self.files, self.size = limits.snapshot_files, limits.snapshot_bytes

    def check(self, size: int) -> None:
        """Before so many bytes more are read."""
        if size > self.size:
            self.use(0, size)

    def use(self, files: int, size: int) -> None:
        self.files -= files
        self.size -= size
        if self.files < 0:
            said = f"more than {self._limits.snapshot_files:,} files, too many"
            raise TooLarge(f"the workspace has {said} to keep a copy of")
        if self.size < 0:
            said = f"more than {self._limits.snapshot_bytes // 2**20:,} MB, too much"
            raise TooLarge(f"the workspace holds {said} to keep a copy of")


def take(workspace: Workspace) -> Snapshot:
    """The workspace as it is. Files that were not touched since the last one are not read again. Raises TooLarge."""
    status = os.fstat(workspace.beneath.fd)
    key = status.st_dev, status.st_ino
    look = _Look(workspace, _Room(workspace.limits), frozenset(workspace.limits.protected), time.time_ns())
    with _remembering:
        before = _seen.pop(key, None)
    with workspace.beneath.opened(".", os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK) as directory:
        found = look.at(directory, "", before)
    with _remembering:
        _seen[key] = found  # at the end: the first of them goes first
        while len(_seen) > _WORKSPACES or (len(_seen) > 1 and sum(one.paths for one in _seen.values()) > _MOST_SEEN):
            _seen.pop(next(iter(_seen)))
    return Snapshot(found.tree)


@dataclass(slots=True)
class _Look:
    """One walk through a workspace, as ``Workspace.walk`` goes, which fills a tree."""

    workspace: Workspace
    room: _Room
    protected: frozenset[str]
    began: int

    def at(self, directory: int, prefix: str, before: _Seen | None) -> _Seen:
        """A folder that is open as ``directory``. The loop does no more for a file than it must."""
        names = self._names(directory, prefix)
        self.room.use(len(names), 0)
        folders = self._if_as_before(directory, names, before)
        if before is not None and folders is not None:
            seen = _Seen(before.files, {}, Folder(before.tree.entries.copy()), len(names), before.size)
        else:
            seen = _Seen({}, {}, Folder({}), len(names))
            folders = self._looked_at(directory, prefix, names, before.files if before is not None else {}, seen)
        self.room.use(0, seen.size)
        for name, found in folders:
            self._enter(directory, name, f"{prefix}{name}", found, seen, before)
        if before is not None and before.tree.entries == seen.tree.entries:
            seen.tree = before.tree  # with the name that it was given
        return seen

    def _if_as_before(self, directory: int, names: Sequence[str], before: _Seen | None) -> _Folders | None:
        """The folders in it, where it has the files that it had; no more is done for a file than must be."""
        if before is None or before.files.keys() | before.folders.keys() != set(names):
            return None
        if len(before.tree.entries) != len(names):  # of a file that had just been written nothing is remembered
            return None
        folders, known, look, kind = _Folders(), before.files, os.stat, stat.S_IFDIR
        with suppress(OSError, KeyError):
            for name in names:
                at = look(name, dir_fd=directory, follow_symlinks=False)
                if at.st_mode & _KIND == kind:
                    folders.append((name, at))
                elif known[name][0] != (at.st_ino, at.st_mode, at.st_size, at.st_mtime_ns, at.st_ctime_ns):
                    return None
            return folders
        return None

    def _looked_at(
        self, directory: int, prefix: str, names: Sequence[str], known: Mapping[str, _Settled], seen: _Seen
    ) -> _Folders:
        """The folders in it; its files are added to ``seen``, and read unless they are ``known``."""
        folders = _Folders()
        for name in names:
            try:
                at = os.stat(name, dir_fd=directory, follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(at.st_mode):
                folders.append((name, at))
                continue
            signature = (at.st_ino, at.st_mode, at.st_size, at.st_mtime_ns, at.st_ctime_ns)
            old = known.get(name)
            if old is None or old[0] != signature:
                old = self._read(name, f"{prefix}{name}", at, signature, seen.size)
            if at.st_ctime_ns < self.began - _SETTLED_NS:
                seen.files[name] = old
            seen.size += old[3]
            seen.tree.entries[old[2]] = old[1]
        return folders

    def _read(self, name: str, path: str, found: os.stat_result, signature: _Signature, so_far: int) -> _Settled:
        size = found.st_size if stat.S_ISREG(found.st_mode) and found.st_size <= self.room.largest else 0
        self.room.check(so_far + size)
        state = _safely(self.workspace, path, found)
        return signature, state, name if state != OTHER else clean_text(name), size

    def _names(self, directory: int, prefix: str) -> list[str]:
        with os.scandir(directory) as listed:
            names = [entry.name for entry in listed if entry.name not in SKIPPED]
        held = {path.removeprefix(prefix) for path in self.protected if path.startswith(prefix)}
        return [name for name in names if name not in held or not _held(self.workspace, f"{prefix}{name}")]

    def _enter(
        self, directory: int, name: str, path: str, status: os.stat_result, seen: _Seen, before: _Seen | None
    ) -> None:
        """A folder in it: named, and where it can be entered and has a name that tools accept, with what lies in it."""
        state = _safely(self.workspace, path, status)
        if state == OTHER:
            seen.tree.entries[clean_text(name)] = state
            return
        seen.tree.entries[name] = state
        with entered(directory, name, path, status) as inner:
            if inner is not None:
                known = before.folders.get(name) if before is not None else None
                found = seen.folders[name] = self.at(inner, f"{path}/", known)
                seen.paths += found.paths
                seen.tree.entries[name] = found.tree if found.tree.entries else state


def keep(run: ToolRun, snapshot: Snapshot) -> str:
    """Hand every file, and the listings, to the blobs, as far as they are not there yet; the name of the snapshot."""
    folders = list(snapshot.tree.folders())
    files = {hash_of(state): "" for folder in folders for state in folder.entries.values() if isinstance(state, str)}
    there = set(run.stored_blobs([*(one.name for one in folders), *(name for name in files if name)]))
    if files.keys() - there - {""}:
        by_hash = {hash_of(state): path for path, state in snapshot.states.items()}
        for sha256 in files.keys() - there - {""}:
            _keep_file(run, by_hash[sha256], sha256)
    for folder in folders:
        if folder.name not in there:
            run.save_blob(folder.body)
    return snapshot.name


def keep_listings(run: ToolRun, snapshot: Snapshot) -> str:
    """The listings alone, for a comparison by name; the name of the snapshot."""
    folders = {one.name: one for one in snapshot.tree.folders()}
    for name in folders.keys() - set(run.stored_blobs([*folders])):
        run.save_blob(folders[name].body)
    return snapshot.name


def _keep_file(run: ToolRun, path: str, sha256: str) -> None:
    data = run.workspace.read(path)
    if run.save_blob(data) != sha256:
        raise PathRefused(f"{path!r} changed while it was being kept")


def _held(workspace: Workspace, path: str) -> bool:
    return path in workspace.limits.protected and bool(placeholders(workspace.beneath, [path]))


def _safely(workspace: Workspace, path: str, status: os.stat_result) -> str:
    try:
        relative(path)
        return _described(workspace, path, status)[0]
    except (PathRefused, OSError):
        return OTHER


def _described(workspace: Workspace, path: str, status: os.stat_result) -> tuple[str, bytes]:
    if stat.S_ISDIR(status.st_mode):
        return FOLDER, b""
    if stat.S_ISLNK(status.st_mode):
        with workspace.beneath.opened(path, os.O_PATH | os.O_NOFOLLOW) as descriptor:
            return f"link:{os.readlink('', dir_fd=descriptor)}", b""
    if not stat.S_ISREG(status.st_mode):
        return OTHER, b""
    if status.st_size > workspace.limits.snapshot_file_bytes:
        return f"large:{status.st_size}:{status.st_mtime_ns}", b""
    data = workspace.read(path)
    return file_state(data, stat.S_IMODE(status.st_mode)), data
