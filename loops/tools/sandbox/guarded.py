"""Keep protected paths as they are while a command runs: mounted read-only, and put back if changed (SPEC I7).

Mounts stop the plain case with an error the command sees. They cannot stop ``mv .git elsewhere``, so the bytes are
compared and restored afterwards. All of this happens while no other command lives in the workspace.

A mount needs something to stand on, so a file of known bytes is made where a protected path is missing. A worker that
is killed leaves it: whoever looks at the workspace next knows it by its bytes, takes it for nothing and removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from loops.tools.sandbox.beneath import RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, Beneath, PathRefused

_STRICT = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS
_LARGEST = 4 << 20
_TREE_LIMIT = 1_000

PLACEHOLDER = b"# AgentOps holds this place while a command runs. Nobody needs this file: it may be deleted.\n"

Files = Mapping[str, tuple[int, bytes]]
"""Relative path inside the protected path ("" for itself) -> (mode, bytes)."""


@dataclass(slots=True)
class Guard:
    """What stood at the protected paths before a command. ``binds`` and ``masks`` are for bwrap."""

    binds: list[str] = field(default_factory=list)
    masks: list[str] = field(default_factory=list)
    before: dict[str, Files] = field(default_factory=dict)

    def restore(self, root: Beneath) -> list[str]:
        """Undo every change to a protected path; the paths that had been changed."""
        remove_placeholders(root, self.masks)
        changed = []
        for path, files in self.before.items():
            try:
                now = _snapshot(root, path)
            except (OSError, PathRefused):
                now = {"": (-1, b"")}
            if now != files:
                changed.append(path)
                _remove_escape(root, path)
                _put_back(root, path, files)
        return changed


def is_placeholder(root: Beneath, path: str) -> bool:
    """Does nothing stand at ``path`` but what a command's mount needed?"""
    with suppress(OSError, PathRefused):
        status = root.stat(path)
        if status is not None and stat.S_ISREG(status.st_mode) and status.st_size == len(PLACEHOLDER):
            return root.read(path, len(PLACEHOLDER))[0] == PLACEHOLDER
    return False


def remove_placeholders(root: Beneath, protected: Iterable[str]) -> None:
    """Take them away; for whoever holds the workspace alone."""
    for path in protected:
        if is_placeholder(root, path):
            with suppress(OSError, PathRefused), root.opened(os.path.dirname(path) or ".", os.O_RDONLY) as parent:
                os.unlink(os.path.basename(path), dir_fd=parent)


def tidy(root: Beneath, protected: Iterable[str]) -> None:
    """Remove what a killed worker left, unless a command runs in the workspace now, whose mounts stand on it."""
    left = [path for path in protected if is_placeholder(root, path)]
    if not left:
        return
    with suppress(OSError):
        descriptor = os.open(root.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_placeholders(root, left)
        finally:
            os.close(descriptor)


def guard(root: Beneath, protected: Iterable[str], mounts: bool = True) -> Guard:
    """Look at each protected path, remember the bytes and, for mounts, make a place where nothing stands."""
    result = Guard()
    protected = tuple(protected)
    remove_placeholders(root, protected)
    for path in protected:
        if path.split("/")[0] == ".git" and _is_file(root, ".git"):
            continue  # a linked worktree: its hooks are outside and unreachable
        try:
            result.before[path] = _snapshot(root, path)
        except PathRefused as error:
            if error.escape:
                continue  # a person linked it outside; nothing that runs here can follow it
            raise
        if not mounts:
            continue
        try:
            with root.opened(path, os.O_PATH, resolve=_STRICT):
                result.binds.append(path)
        except FileNotFoundError:
            _add_mask(root, path, result)
        except (PathRefused, NotADirectoryError):
            continue  # a link stands in the way: never a mount target, restored afterwards
    return result


def _is_file(root: Beneath, path: str) -> bool:
    status = root.stat(path)
    return status is not None and stat.S_ISREG(status.st_mode)


def _add_mask(root: Beneath, path: str, result: Guard) -> None:
    """A missing file is masked only where its folder exists; a folder made by the command is checked afterwards."""
    with suppress(FileNotFoundError, NotADirectoryError, PathRefused):
        parent, name = os.path.split(path)
        with root.opened(parent or ".", os.O_RDONLY | os.O_DIRECTORY, resolve=_STRICT) as directory:
            _place(name, directory)
            result.masks.append(path)


def _place(name: str, directory: int) -> None:
    """Make a placeholder, whole from its first moment on where the file system can."""
    try:
        descriptor = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o444, dir_fd=directory)
    except OSError:
        descriptor = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o444, dir_fd=directory)
        os.write(descriptor, PLACEHOLDER)
        os.close(descriptor)
        return
    try:
        os.write(descriptor, PLACEHOLDER)
        os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=directory, follow_symlinks=True)
    finally:
        os.close(descriptor)


def _snapshot(root: Beneath, path: str) -> Files:
    status = root.stat(path)
    if status is None:
        return {}
    if not stat.S_ISDIR(status.st_mode):
        return {"": _content(root, path, status)}
    files: dict[str, tuple[int, bytes]] = {"": (status.st_mode, b"")}
    with root.opened(path, os.O_RDONLY | os.O_DIRECTORY) as directory:
        for base, directories, names, inner in os.fwalk(".", dir_fd=directory, follow_symlinks=False):
            for name in (*directories, *names):
                relative = os.path.normpath(f"{base}/{name}")
                found = os.stat(name, dir_fd=inner, follow_symlinks=False)
                files[relative] = _content(root, f"{path}/{relative}", found)
            if len(files) > _TREE_LIMIT:
                raise PathRefused(f"{path!r} has more than {_TREE_LIMIT} entries and cannot be guarded")
    return files


def _content(root: Beneath, path: str, status: os.stat_result) -> tuple[int, bytes]:
    if stat.S_ISREG(status.st_mode):
        return status.st_mode, root.read(path, _LARGEST)[0]
    if stat.S_ISLNK(status.st_mode):
        with root.opened(path, os.O_PATH | os.O_NOFOLLOW) as link:
            return status.st_mode, os.fsencode(os.readlink("", dir_fd=link))
    return status.st_mode, b""


def _put_back(root: Beneath, path: str, files: Files) -> None:
    """Remove what stands at ``path`` and write what stood there. Links and devices are not made again."""
    parent_path, name = os.path.split(path)
    try:
        with root.opened(parent_path or ".", os.O_RDONLY | os.O_DIRECTORY) as parent:
            _remove(name, parent)
            for relative, (mode, data) in files.items():
                target = os.path.normpath(f"{name}/{relative}")
                if stat.S_ISDIR(mode):
                    os.mkdir(target, stat.S_IMODE(mode) & 0o777, dir_fd=parent)
                elif stat.S_ISREG(mode):
                    _write(target, parent, mode, data)
    except FileNotFoundError:
        if files:
            _make_parent(root, parent_path)
            _put_back(root, path, files)


def _remove_escape(root: Beneath, path: str) -> None:
    """Remove a link that the command put in the place of the protected path's folder."""
    first = path.split("/")[0]
    status = root.stat(first)
    if status is not None and stat.S_ISLNK(status.st_mode):
        os.unlink(first, dir_fd=root.fd)


def _make_parent(root: Beneath, path: str) -> None:
    with root.opened(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY) as directory:
        os.mkdir(os.path.basename(path), 0o755, dir_fd=directory)


def _remove(name: str, parent: int) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            shutil.rmtree(name, dir_fd=parent)
        else:
            os.unlink(name, dir_fd=parent)


def _write(target: str, parent: int, mode: int, data: bytes) -> None:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
    with os.fdopen(os.open(target, flags, stat.S_IMODE(mode) & 0o777, dir_fd=parent), "wb") as file:
        file.write(data)
