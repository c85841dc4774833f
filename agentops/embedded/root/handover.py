"""Giving a state folder to the user AgentOps runs as: once, while nothing runs on it, and nothing but what is ours.

Agents have written below it. So links are never followed, and a file that has another name elsewhere, which its owner
could be somebody else's, stays whose it is.
"""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from agentops.embedded.paths import SANDBOXED

OURS = {"secret", "admin-password", "postgres", "valkey", "run", "log", "workspaces", "demo", "backups", "pycache"}
OURS |= {"anchors", "up.lock", "pids.json", "pids.draft", "restore.draft", "programs.draft", "postgres.draft"}
BEGINNINGS = ("programs-", "before-restore-", ".secret.", ".admin-password.")


class InUse(Exception):
    """Somebody holds the folder's lock."""


class NotOurs(Exception):
    """The folder holds what AgentOps did not make; the message names it."""


def give(state: Path, uid: int, gid: int) -> None:
    """Make ``state`` and all that AgentOps made in it belong to ``uid``; changes nothing where it does already.

    Raises Running, NotOurs, or OSError where the file system refuses.
    """
    state.mkdir(parents=True, exist_ok=True)
    is_theirs = state.stat().st_uid == uid
    if not is_theirs:
        _check_ours(state)
    strange = sorted(path.name for path in state.iterdir() if _is_ours(path.name) and _has_strangers(path, uid))
    if is_theirs and not strange:
        return
    with _alone(state):
        for name in strange:
            _give_tree(state, name, uid, gid)
        _give_tree(state, "up.lock", uid, gid)
        os.chown(state, uid, gid)  # last: as long as it is not theirs, a start begins again


def _check_ours(state: Path) -> None:
    """Whoever names a folder that others use by mistake keeps it."""
    if state.is_symlink():
        raise NotOurs(f"{state} is a link")
    if foreign := sorted(path.name for path in state.iterdir() if not _is_ours(path.name)):
        raise NotOurs(f"{state} holds other things as well ({', '.join(foreign[:3])})")


def _is_ours(name: str) -> bool:
    return name in OURS or name.startswith(BEGINNINGS)


@contextlib.contextmanager
def _alone(state: Path) -> Iterator[None]:
    """Hold the lock that `up` holds."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(state / "up.lock", flags, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise InUse from None
    finally:
        os.close(descriptor)


def _has_strangers(path: Path, uid: int) -> bool:
    """Itself or what lies right below is somebody else's: enough to find what an earlier root left, without a walk."""
    if path.lstat().st_uid != uid:
        return True
    if path.is_symlink() or not path.is_dir():
        return False
    with os.scandir(path) as entries:
        return any(entry.stat(follow_symlinks=False).st_uid != uid for entry in entries)


def _give_tree(state: Path, name: str, uid: int, gid: int) -> None:
    """What is inside first, so that a start that was ended half-way is seen by the next."""
    for _, folders, files, directory in os.fwalk(state / name, topdown=False, follow_symlinks=False):
        for each in (*folders, *files):
            _give(each, directory, uid, gid)
    directory = os.open(state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _give(name, directory, uid, gid)
    finally:
        os.close(directory)


def _give(name: str, directory: int, uid: int, gid: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if found.st_uid == uid or _has_other_names(found):
            return
        os.chown(name, uid, gid, dir_fd=directory, follow_symlinks=False)


def _has_other_names(found: os.stat_result) -> bool:
    """A root-owned file that is linked twice may be one of the system's."""
    return not stat.S_ISDIR(found.st_mode) and found.st_nlink > 1 and found.st_uid != SANDBOXED
