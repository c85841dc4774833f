"""Open files under one directory and nowhere else, by the kernel's own word (SPEC I7).

A path check followed by an open can be raced; ``openat2(RESOLVE_BENEATH)`` resolves and opens in one step and
refuses ``..``, absolute links and links that leave, whatever another process does meanwhile.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy

from loops.engine.text.truncation import quoted

_OPENAT2 = 437  # the same on x86_64 and aarch64
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
GUARDED = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS
STRICT = GUARDED | RESOLVE_NO_SYMLINKS
"""Through no link at all, also none that stays inside."""
_FROM_HERE = -100  # AT_FDCWD
_RACES = 64
_LONGEST_PATH = 1_024

_libc = ctypes.CDLL(None, use_errno=True)


class PathRefused(Exception):
    """A path that may not be used. ``escape`` is true when it tried to leave the workspace."""

    def __init__(self, message: str, *, escape: bool = False) -> None:
        super().__init__(message)
        self.escape = escape


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def openat2(directory: int, path: str, flags: int, mode: int = 0, resolve: int = GUARDED) -> int:
    """A new descriptor, close-on-exec. Raises OSError as ``open`` does; EXDEV or ELOOP mean an escape was tried."""
    how = _OpenHow(flags | os.O_CLOEXEC, mode, resolve)
    raw = os.fsencode(path)
    for _ in range(_RACES):
        descriptor: int = _libc.syscall(_OPENAT2, directory, raw, ctypes.byref(how), ctypes.sizeof(how))
        if descriptor >= 0:
            return descriptor
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):
            raise OSError(code, os.strerror(code), path)
    raise OSError(errno.EAGAIN, "the path kept changing while it was opened", path)


def openat2_works() -> bool:
    """False on a kernel older than 5.6 or behind a filter that hides the call: then no file tool may run."""
    try:
        os.close(openat2(_FROM_HERE, "/", os.O_PATH, resolve=0))
    except OSError:
        return False
    return True


def relative(path: str) -> str:
    """The one accepted spelling of a workspace path: relative, no ``..``, ``"."`` for the root. Raises PathRefused.

    ``/workspace/...`` is what commands see inside the sandbox, so models send it back; it means the same file.
    """
    if not path or len(path) > _LONGEST_PATH:
        raise PathRefused(f"a path has 1 to {_LONGEST_PATH} characters, this one has {len(path)}")
    if any(ord(character) < 32 or 0xD800 <= ord(character) <= 0xDFFF for character in path):
        raise PathRefused("a path has no control characters and no broken text")
    if path == "/workspace" or path.startswith("/workspace/"):
        path = path[len("/workspace/") :] or "."
    if path.startswith(("/", "~")) or "://" in path or path.lower().startswith("file:"):
        raise PathRefused(f"{quoted(path, 80)} is not a path inside the workspace; use a relative path", escape=True)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise PathRefused(f"{quoted(path, 80)} contains '..'; name the file from the workspace's top", escape=True)
    if any(len(part.encode()) > 255 for part in parts):
        raise PathRefused("a file name is longer than 255 bytes")
    return "/".join(parts) or "."


def _open_root(root: str, *, links: bool) -> int:
    if links:
        return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    strict = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS
    try:
        return openat2(_FROM_HERE, root, os.O_RDONLY | os.O_DIRECTORY, resolve=strict)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PathRefused("the way to the workspace leads through a link", escape=True) from None
        raise


class SafeDirectory:
    """A directory opened once. Every other open goes through its descriptor. The way to it may lead through ``links``
    only where AgentOps chose it. Beneath a ``strict`` one no link is followed either: nothing lies behind it."""

    def __init__(self, root: str, *, links: bool = False, strict: bool = False) -> None:
        self.fd = _open_root(root, links=links)
        self._strict = strict
        self._spelled = True
        self.root = os.readlink(f"/proc/self/fd/{self.fd}")
        self.inode = os.fstat(self.fd).st_ino

    def listed(self) -> SafeDirectory:
        """The same one for paths as the disk lists them: ``~x``, or a name with a line break, which no tool may spell.
        It is open for as long as this one is."""
        same = copy(self)
        same._spelled = False
        return same

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> SafeDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def opened(self, path: str, flags: int, *, resolve: int = GUARDED) -> Iterator[int]:
        """A descriptor for the time of the block. Raises PathRefused for an escape, OSError otherwise."""
        descriptor = self._open(path, flags, resolve)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open(self, path: str, flags: int, resolve: int) -> int:
        name = relative(path) if self._spelled else path
        if "\0" in name:
            raise FileNotFoundError(errno.ENOENT, "no file has such a name", path)
        try:
            return openat2(self.fd, name, flags, resolve=STRICT if self._strict else resolve)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise PathRefused(f"the way to {quoted(path, 80)} is too long to be followed") from None
            if error.errno in (errno.EXDEV, errno.ELOOP):
                why = f"{quoted(path, 80)} leads outside the workspace or through a link"
                raise PathRefused(why, escape=True) from None
            raise

    def check_place(self) -> None:
        """Raises PathRefused where its path leads to something else by now."""
        try:
            there = os.stat(self.root, follow_symlinks=False)
        except FileNotFoundError:
            there = None
        if there is None or not os.path.samestat(there, os.fstat(self.fd)):
            raise PathRefused("the workspace was replaced while it was in use", escape=True)

    def stat(self, path: str) -> os.stat_result | None:
        """The file's status without following a link in its last part; None when there is nothing."""
        try:
            with self.opened(path, os.O_PATH | os.O_NOFOLLOW) as descriptor:
                return os.fstat(descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PathRefused:
            if self._strict:
                return None
            raise

    def real(self, descriptor: int) -> str:
        """Where an open directory really is, relative to the root ("." for the root itself)."""
        return os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), self.root)

    def read(self, path: str, limit: int) -> tuple[bytes, os.stat_result]:
        """Whole bytes of a regular file of at most ``limit`` bytes. Raises PathRefused or OSError.

        O_NONBLOCK comes first so that a FIFO cannot hang the worker; then anything but a regular file is refused.
        """
        with self.opened(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY) as descriptor:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise PathRefused(f"{path!r} is {kind(status.st_mode)}, not a regular file")
            if status.st_size > limit:
                raise PathRefused(f"{path!r} has {status.st_size} bytes; the limit is {limit}")
            return _read_all(descriptor, limit, path), status


def _read_all(descriptor: int, limit: int, path: str) -> bytes:
    pieces: list[bytes] = []
    total = 0
    while piece := os.read(descriptor, 1 << 20):
        pieces.append(piece)
        total += len(piece)
        if total > limit:
            raise PathRefused(f"{path!r} grew beyond {limit} bytes while it was read")
    return b"".join(pieces)


def is_shut(status: os.stat_result) -> bool:
    """Is it a folder of ours that its mode keeps us out of? Nothing keeps root out."""
    of_ours = status.st_uid == os.geteuid() != 0
    return of_ours and stat.S_ISDIR(status.st_mode) and status.st_mode & 0o500 != 0o500


def kind(mode: int) -> str:
    """What a file mode is, in words for people and models."""
    names = (
        (stat.S_ISREG, "a file"),
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((name for test, name in names if test(mode)), "a device")
