"""What stands at a path of a workspace, remembered whole and put back: bytes, links, modes and owners (SPEC I7)."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from loops.tools.sandbox.safe_paths import PathRefused, SafeDirectory
from loops.tools.sandbox.workspace_guard.planted_files import changing, remove

_LARGEST = 64 << 20
_TREE_LIMIT = 1_000


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands at a path; whose it is does not make it another."""

    mode: int
    data: bytes
    """Of a file; of a link, where it leads."""
    owner: tuple[int, int] = field(default=(-1, -1), compare=False)


UNREADABLE = Entry(0, b"")
"""Something that cannot be looked at; no file has this mode."""

Files = Mapping[str, Entry]
"""Relative path inside the protected path ("" for itself) -> what stands there."""


def snapshot(root: SafeDirectory, path: str) -> Files:
    status = root.stat(path)
    if status is None:
        return {}
    if not stat.S_ISDIR(status.st_mode):
        return {"": _content(root, path, status)}
    files = {"": Entry(status.st_mode, b"", (status.st_uid, status.st_gid))}
    with root.opened(path, os.O_RDONLY | os.O_DIRECTORY) as directory:
        for base, directories, names, inner in os.fwalk(".", dir_fd=directory, follow_symlinks=False):
            for name in (*directories, *names):
                inside = os.path.normpath(f"{base}/{name}")
                found = os.stat(name, dir_fd=inner, follow_symlinks=False)
                files[inside] = _content(root, f"{path}/{inside}", found)
            if len(files) > _TREE_LIMIT:
                raise PathRefused(f"{path!r} has more than {_TREE_LIMIT} entries and cannot be guarded")
    return files


def _content(root: SafeDirectory, path: str, status: os.stat_result) -> Entry:
    data, owner = b"", (status.st_uid, status.st_gid)
    if stat.S_ISREG(status.st_mode):
        data = root.read(path, _LARGEST)[0]
    elif stat.S_ISLNK(status.st_mode):
        with root.opened(path, os.O_PATH | os.O_NOFOLLOW) as link:
            data = os.fsencode(os.readlink("", dir_fd=link))
    return Entry(status.st_mode, data, owner)


def put_back(root: SafeDirectory, path: str, files: Files) -> None:
    """Remove what stands at ``path`` and write what stood there. Pipes and devices are not made again."""
    parent_path, name = os.path.split(path)
    if files:
        _make_parents(root, parent_path)
    places = [(os.path.normpath(f"{name}/{inside}"), entry) for inside, entry in files.items()]
    missing = suppress(FileNotFoundError, NotADirectoryError)
    with missing, root.opened(parent_path or ".", os.O_RDONLY | os.O_DIRECTORY) as parent:
        changing(parent, lambda: _exchange(name, places, parent))


def _exchange(name: str, places: Sequence[tuple[str, Entry]], parent: int) -> None:
    remove(name, parent)
    for place, entry in places:
        _make(place, parent, entry)
    for place, entry in reversed(places):  # a folder only when all that lies in it is there
        if stat.S_ISDIR(entry.mode):
            os.chmod(place, stat.S_IMODE(entry.mode) & 0o3777, dir_fd=parent)


def _make(target: str, parent: int, entry: Entry) -> None:
    if stat.S_ISDIR(entry.mode):
        os.mkdir(target, 0o700, dir_fd=parent)
    elif stat.S_ISLNK(entry.mode):
        os.symlink(os.fsdecode(entry.data), target, dir_fd=parent)
    elif stat.S_ISREG(entry.mode):
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
        with os.fdopen(os.open(target, flags, 0o600, dir_fd=parent), "wb") as file:
            file.write(entry.data)
            os.fchmod(file.fileno(), stat.S_IMODE(entry.mode) & 0o777)
    else:
        return
    if os.geteuid() == 0:
        os.chown(target, *entry.owner, dir_fd=parent, follow_symlinks=False)


def remove_escape(root: SafeDirectory, path: str) -> None:
    """Remove what the command put in the place of a folder above the protected path."""
    parts = path.split("/")[:-1]
    for depth in range(len(parts)):
        above = "/".join(parts[: depth + 1])
        status = root.stat(above)
        if status is None:
            return
        if not stat.S_ISDIR(status.st_mode):
            with root.opened("/".join(parts[:depth]) or ".", os.O_RDONLY | os.O_DIRECTORY) as folder:
                changing(folder, partial(os.unlink, parts[depth], dir_fd=folder))
            return


def _make_parents(root: SafeDirectory, path: str) -> None:
    made = ""
    for part in filter(None, path.split("/")):
        with root.opened(made or ".", os.O_RDONLY | os.O_DIRECTORY) as directory, suppress(FileExistsError):
            above = os.fstat(directory)
            changing(directory, partial(os.mkdir, part, 0o700, dir_fd=directory))
            os.chmod(part, above.st_mode & 0o777, dir_fd=directory)
            if os.geteuid() == 0:
                os.chown(part, above.st_uid, above.st_gid, dir_fd=directory, follow_symlinks=False)
        made = f"{made}/{part}".strip("/")


def bytes_of(path: str, files: Files) -> dict[str, bytes]:
    plain = {inside: entry.data for inside, entry in files.items() if stat.S_ISREG(entry.mode)}
    return {f"{path}/{inside}" if inside else path: data for inside, data in plain.items()}
