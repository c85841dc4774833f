"""Objects and a branch put into a repository: each is whole or not there, and nothing that was there is touched.

Objects come first and are durable; the branch is made last, in one step, under the lock that git itself takes. A worker
that dies leaves objects that nothing names, which git clears away, and a lock that the next one knows as its own.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from loops.tools.sandbox.safe_paths import SafeDirectory
from loops.workspaces.git.repository import OBJECTS, Repository, Unusable

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
OBJECT_MODE, REF_MODE = 0o444, 0o644
TAKEN = "The branch {} is there already, with something else. Rename or delete it, then commit the result again."
LOCKED = "Another git holds the lock of {0}, or died with it: when none is at work, delete .git/{0}.lock."
PART_OF_A_NAME = "{} is a branch of the repository, so none can be called {}. Rename that one, or take the patch."


def write_object(folder: SafeDirectory, name: str, kind: str, body: bytes, order: str) -> None:
    """Nothing where it is there. Raises PathRefused or OSError."""
    place = f"{OBJECTS}/{name[:2]}"
    make_folder(folder, OBJECTS, name[:2])
    with folder.opened(place, _FOLDER) as directory:
        temporary = f"tmp_obj_{order}"  # by that prefix git clears away what is left of it
        _remove(directory, temporary)
        if _is_there(directory, name[2:]):
            return
        whole = zlib.compress(b"%s %d\0" % (kind.encode(), len(body)) + body, 1)
        _fill(directory, temporary, whole, OBJECT_MODE)
        os.rename(temporary, name[2:], src_dir_fd=directory, dst_dir_fd=directory)
        os.fsync(directory)


def make_branch(repository: Repository, ref: str, commit: str, order: str) -> None:
    """Raises Unusable where it is there with another commit, or locked; PathRefused or OSError."""
    above, _, last = ref.rpartition("/")
    parent, _, folder = above.rpartition("/")
    make_folder(repository.folder, f".git/{parent}", folder)
    with (
        repository.folder.opened(f".git/{above}", _FOLDER) as directory,
        _own(directory, last, commit, order) as own,
        _locked(directory, f"{last}.lock", own, ref),
    ):
        there = repository.resolve(ref)
        if there and there != commit:
            raise Unusable(TAKEN.format(ref))
        if not there and repository.is_prefix(ref):
            raise Unusable(PART_OF_A_NAME.format(f"{ref}/…", ref))
        if not there:
            os.link(own, last, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
            os.fsync(directory)


def make_folder(folder: SafeDirectory, parent: str, name: str) -> None:
    """With the owner and the permissions of the one it lies in, as a shared repository wants it."""
    with folder.opened(parent, _FOLDER) as directory:
        try:
            os.mkdir(name, 0o700, dir_fd=directory)
        except FileExistsError:
            return
        with folder.opened(f"{parent}/{name}", _FOLDER) as inner:
            _give(inner, directory)
            os.fchmod(inner, os.fstat(directory).st_mode & 0o2777)
        os.fsync(directory)


@contextmanager
def _own(directory: int, last: str, commit: str, order: str) -> Iterator[str]:
    """A file with the order's name that holds the commit. The lock and then the branch are further names of it, so that
    whoever goes on with the order knows both. git takes no ref for it, as it begins with a point."""
    name = f".{last}-{order}"
    if not _is_same(directory, name, f"{last}.lock"):
        _remove(directory, name)
        _fill(directory, name, f"{commit}\n".encode(), REF_MODE)
    try:
        yield name
    finally:
        _remove(directory, name)


@contextmanager
def _locked(directory: int, lock: str, own: str, ref: str) -> Iterator[None]:
    try:
        os.link(own, lock, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except FileExistsError:
        if not _is_same(directory, own, lock):
            raise Unusable(LOCKED.format(ref)) from None
    try:
        yield
    finally:
        _remove(directory, lock)


def _remove(directory: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def _is_there(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _is_same(directory: int, *names: str) -> bool:
    """Are they names of one file?"""
    with suppress(FileNotFoundError):
        first, other = (os.stat(name, dir_fd=directory, follow_symlinks=False) for name in names)
        return os.path.samestat(first, other)
    return False


def _give(descriptor: int, directory: int) -> None:
    """What root makes belongs to whoever has the folder."""
    if os.geteuid() == 0:
        found = os.fstat(directory)
        os.fchown(descriptor, found.st_uid, found.st_gid)


def _fill(directory: int, name: str, data: bytes, mode: int) -> None:
    descriptor = os.open(name, _NEW, mode, dir_fd=directory)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        _give(descriptor, directory)
        os.fsync(descriptor)
