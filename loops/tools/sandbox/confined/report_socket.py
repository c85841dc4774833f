"""Connect a command to the socket to which its test runners report, and to no other (SPEC I7, ADR 0078).

No rule of Landlock's says to which sockets a path may lead. The filter stops every connect and asks here: the address
is read once, and where it is the one, a connection that was made here takes the place of the command's own descriptor.
The kernel never connects what the command asked for, so an address that is swapped meanwhile reaches nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from collections.abc import Sequence

_ADD, _IN_ITS_PLACE = 0x40182103, 1
_FAMILY = struct.Struct("=H")
_LONGEST = 110


def join(listener: int, asked: int, process: int, arguments: Sequence[int], place: str) -> None:
    """For one ``connect(descriptor, address, length)``. Raises OSError with what the command is to hear."""
    descriptor, address, length = arguments[0] & 0xFFFFFFFF, arguments[1], arguments[2] & 0xFFFFFFFF
    if not place or _path(process, address, length) != os.fsencode(place):
        raise PermissionError(errno.EACCES, "no socket that a command may reach")
    flags = _flags(process, descriptor)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.setblocking(False)  # where too many wait, the command hears so, and this process goes on
        made.connect(place)
        made.setblocking(not flags & os.O_NONBLOCK)
        passed = (asked, _IN_ITS_PLACE, made.fileno(), descriptor, flags & os.O_CLOEXEC)
        fcntl.ioctl(listener, _ADD, struct.pack("=QIIII", *passed))


def _path(process: int, address: int, length: int) -> bytes:
    """Of a local socket with a path; b"" for any other address."""
    if not _FAMILY.size < length <= _LONGEST:
        return b""
    with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        data = os.pread(memory.fileno(), length, address)
    if len(data) != length or _FAMILY.unpack_from(data)[0] != socket.AF_UNIX:
        return b""
    return data[_FAMILY.size :].partition(b"\0")[0]


def _flags(process: int, descriptor: int) -> int:
    """Those of the command's own descriptor."""
    with open(f"/proc/{process}/fdinfo/{descriptor}") as lines:
        return next(int(line.split()[1], 8) for line in lines if line.startswith("flags:"))
