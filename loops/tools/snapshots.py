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
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from loops.engine.encoding import canonical
from loops.tools.output import clean_text, sha256_hex
from loops.tools.registry import ToolRun
from loops.tools.sandbox.safe_paths import PathRefused, relative
from loops.tools.sandbox.workspace_guard.protected_files import placeholders
from loops.tools.workspace import SKIPPED, Workspace

NOTHING, FOLDER, OTHER = "", "directory", "other"
_SETTLED_NS = 50_000_000
"""A file changed this short a time ago may change again within one tick of its clock: it is read again next time."""
_WORKSPACES = 32
_Signature = tuple[int, int, int, int, int]
_seen: dict[tuple[int, int], dict[str, tuple[_Signature, str]]] = {}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every path of a workspace with its state. ``body`` lists them as canonical JSON."""

    states: Mapping[str, str]

    @property
    def body(self) -> bytes:
        return canonical.encode(dict(self.states))

    def changes(self, later: Snapshot) -> list[dict[str, str]]:
        """What became of it, as assertions of ``restore_files``: a folder before what lies in it."""
        paths = sorted(self.states.keys() | later.states.keys())
        pairs = ((path, self.states.get(path, NOTHING), later.states.get(path, NOTHING)) for path in paths)
        return [{"path": path, "before": before, "after": after} for path, before, after in pairs if before != after]


def from_body(body: bytes) -> Snapshot:
    """Inverse of ``Snapshot.body``."""
    return Snapshot(dict(canonical.decode(body)))


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
    limits, size = workspace.limits, 0
    for files, (_, status) in enumerate(_paths(workspace), 1):
        kept = stat.S_ISREG(status.st_mode) and status.st_size <= limits.snapshot_file_bytes
        size += status.st_size if kept else 0
        if files > limits.snapshot_files:
            return f"the workspace has more than {limits.snapshot_files:,} files, too many to keep a copy of"
        if size > limits.snapshot_bytes:
            return f"the workspace holds more than {limits.snapshot_bytes // 2**20} MB, too much to keep a copy of"
    return ""


def take(workspace: Workspace) -> Snapshot:
    """The workspace as it is. Files that were not touched since the last one are not read again."""
    status = os.fstat(workspace.beneath.fd)
    before = _seen.get((status.st_dev, status.st_ino), {})
    states: dict[str, str] = {}
    known: dict[str, tuple[_Signature, str]] = {}
    for path, found in _paths(workspace):
        signature = (found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        old = before.get(path)
        state = old[1] if old and old[0] == signature else _safely(workspace, path, found)
        name = path if state != OTHER else clean_text(path)
        states[name] = state
        if time.time_ns() - found.st_ctime_ns > _SETTLED_NS:
            known[path] = signature, state
    while len(_seen) >= _WORKSPACES:
        _seen.pop(next(iter(_seen)))
    _seen[status.st_dev, status.st_ino] = known
    return Snapshot(states)


def keep(run: ToolRun, snapshot: Snapshot) -> str:
    """Hand the list and every file in it to the blobs, as far as they are not there yet; the list's SHA-256."""
    by_hash = {hash_of(state): path for path, state in snapshot.states.items() if hash_of(state)}
    there = set(run.stored_blobs(list(by_hash)))
    for sha256 in by_hash.keys() - there:
        _keep_file(run, by_hash[sha256], sha256)
    return run.save_blob(snapshot.body)


def _keep_file(run: ToolRun, path: str, sha256: str) -> None:
    data = run.workspace.read(path)
    if run.save_blob(data) != sha256:
        raise PathRefused(f"{path!r} changed while it was being kept")


def _paths(workspace: Workspace) -> Iterator[tuple[str, os.stat_result]]:
    for path, status in workspace.walk():
        if os.path.basename(path) not in SKIPPED and not _held(workspace, path):
            yield path, status


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
