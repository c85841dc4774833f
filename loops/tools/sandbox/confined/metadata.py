"""Change the mode and the times of files on a command's behalf, beneath its own folders and nowhere else (SPEC I7).

Landlock does not see such changes, so without a mount namespace a command could change them on any file of its user.
The filter stops the calls and asks here. The path is read once, resolved by the kernel beneath one of the folders,
and the change is made on what was found: a path that is swapped meanwhile changes nothing.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import stat
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO

from loops.tools.sandbox.confined.report_socket import join
from loops.tools.sandbox.safe_paths import GUARDED, openat2
from loops.tools.sandbox.seccomp import CONNECT, METADATA

_RECEIVE, _SEND, _VALID = 0xC0502100, 0xC0182101, 0x40082102
_ASKED = struct.Struct("=QIIiIQ6Q")
_HERE = -100
_NO_FOLLOW = 0x100
_PAGE = 4096
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Change:
    """One call as it was made: ``mode``, or two times as the kernel takes them (b"" for now)."""

    directory: int
    path: int
    flags: int = 0
    mode: int | None = None
    times: bytes = b""


def answer(listener: int, folders: Mapping[str, int], owner: int, report_socket: str = "") -> None:
    """Take one request of the filter, do what it asks for or refuse it. ``folders``: path -> open descriptor;
    ``report_socket`` is the one place to which a command may connect, "" for none."""
    buffer = bytearray(_ASKED.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, buffer)
    except OSError:  # it was killed meanwhile
        return
    asked, process, _, number, _, _, *arguments = _ASKED.unpack(buffer)
    code = 0
    try:
        if number == CONNECT[platform.machine()]:
            join(listener, asked, process, arguments, report_socket)
        else:
            change, path = _change(process, METADATA[platform.machine()][number], arguments)
            fcntl.ioctl(listener, _VALID, struct.pack("=Q", asked))
            _make(change, path, folders, owner)
    except OSError as error:
        code = error.errno or errno.EPERM
    except Exception:  # addresses and numbers are the command's own: an odd one must not end its keeper
        code = errno.EPERM
    with suppress(OSError):
        fcntl.ioctl(listener, _SEND, struct.pack("=QqiI", asked, 0, -code, 0))


def _change(process: int, name: str, arguments: list[int]) -> tuple[Change, str]:
    """The change and its whole path. Raises OSError for what cannot be read."""
    with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        match name:
            case "chmod":
                change = Change(_HERE, arguments[0], mode=arguments[1])
            case "fchmodat":
                change = Change(arguments[0], arguments[1], mode=arguments[2])
            case "fchmodat2":
                change = Change(arguments[0], arguments[1], arguments[3], arguments[2])
            case "utimensat":
                change = Change(arguments[0], arguments[1], arguments[3], times=_read(memory, arguments[2], 32))
            case "utime" | "utimes":
                change = Change(_HERE, arguments[0], times=_old_times(name, memory, arguments[1]))
            case _:
                raise OSError(errno.ENOSYS, name)
        path = os.fsdecode(_text(memory, change.path))
    if not path:
        raise OSError(errno.ENOENT, "no path")
    if path.startswith("/"):
        return change, path
    directory = change.directory & 0xFFFFFFFF
    base = "cwd" if directory == _HERE & 0xFFFFFFFF else f"fd/{directory}"
    return change, f"{os.readlink(f'/proc/{process}/{base}')}/{path}"


def _make(change: Change, path: str, folders: Mapping[str, int], owner: int) -> None:
    root = next((folder for folder in folders if path.startswith(f"{folder}/") or path == folder), None)
    if root is None:
        raise PermissionError(errno.EPERM, "outside")
    inner = path[len(root) :].lstrip("/") or "."
    flags = os.O_PATH | (os.O_NOFOLLOW if change.flags & _NO_FOLLOW else 0)
    try:
        found = openat2(folders[root], inner, flags, resolve=GUARDED)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.ELOOP):
            raise PermissionError(errno.EPERM, "outside") from None
        raise
    try:
        status = os.fstat(found)
        if status.st_uid != owner:
            raise PermissionError(errno.EPERM, "not its own")
        _set(found, stat.S_ISLNK(status.st_mode), change)
    finally:
        os.close(found)


def _set(found: int, is_link: bool, change: Change) -> None:
    if change.mode is None:
        name, flags = (b"", 0x1000) if is_link else (os.fsencode(f"/proc/self/fd/{found}"), 0)
        if _libc.utimensat(found if is_link else _HERE, name, change.times or None, flags):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return
    if is_link:
        raise OSError(errno.EOPNOTSUPP, "a link has no mode")
    os.chmod(f"/proc/self/fd/{found}", change.mode & 0o1777)


def _old_times(name: str, memory: FileIO, address: int) -> bytes:
    """As ``utimensat`` takes them: seconds and nanoseconds, twice."""
    if not address:
        return b""
    if name == "utime":
        accessed, changed = struct.unpack("=qq", _read(memory, address, 16))
        return struct.pack("=4q", accessed, 0, changed, 0)
    a, a_micro, b, b_micro = struct.unpack("=4q", _read(memory, address, 32))
    return struct.pack("=4q", a, a_micro * 1000, b, b_micro * 1000)


def _read(memory: FileIO, address: int, size: int) -> bytes:
    if not address:
        return b""
    data = os.pread(memory.fileno(), size, address)
    if len(data) != size:
        raise OSError(errno.EFAULT, "unreadable")
    return data


def _text(memory: FileIO, address: int) -> bytes:
    """Up to the NUL, page by page: the next page may not be there."""
    text = b""
    while len(text) <= _PAGE:
        piece = os.pread(memory.fileno(), _PAGE - (address + len(text)) % _PAGE, address + len(text))
        if not piece:
            raise OSError(errno.EFAULT, "unreadable")
        text += piece
        if b"\0" in text:
            return text[: text.index(b"\0")]
    raise OSError(errno.ENAMETOOLONG, "too long")
