"""Landlock by its system calls: what a process and all that it starts may still open, and whom it may signal (SPEC I7).

It needs no rights and no namespaces. It sees opening, making, moving and removing files, abstract sockets, TCP and
signals; it does not see a file's mode and times, other sockets, shared memory: seccomp.py and metadata.py do.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from contextlib import suppress

NEEDED = 6
"""The version of its interface (Linux 6.12) from which on a process cannot signal others outside."""
_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on x86_64 and aarch64
_VERSION = 1
_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 0x1, 0x2, 0x4, 0x8
_MAKE_CHARACTER_DEVICE, _MAKE_BLOCK_DEVICE, _TRUNCATE, _DEVICE_CONTROL = 0x40, 0x800, 0x4000, 0x8000
_EVERYTHING = 0xFFFF
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_CONTROL
_NETWORK = 0x1 | 0x2
_SCOPED = 0x1 | 0x2

READ = _EXECUTE | _READ_FILE | _READ_FOLDER
USE = _READ_FILE | _WRITE_FILE
"""Of a device such as /dev/null."""
WRITE = _EVERYTHING & ~(_MAKE_CHARACTER_DEVICE | _MAKE_BLOCK_DEVICE | _DEVICE_CONTROL)

_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Of the running kernel's Landlock; 0 where there is none."""
    return max(0, int(_libc.syscall(_CREATE, None, 0, _VERSION)))


def ruleset(readable: Iterable[str], usable: Iterable[str], writable: Iterable[int]) -> int:
    """A descriptor for ``restrict``: nothing but these paths, these open folders and what is beneath. Missing paths are
    left out."""
    attributes = struct.pack("QQQ", _EVERYTHING, _NETWORK, _SCOPED)
    rules = _called(_CREATE, attributes, len(attributes), 0)
    for paths, rights in ((readable, READ), (usable, USE)):
        for path in paths:
            with suppress(FileNotFoundError, NotADirectoryError):
                descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
                _allow(rules, descriptor, rights)
                os.close(descriptor)
    for descriptor in writable:
        _allow(rules, descriptor, WRITE)
    return rules


def _allow(rules: int, descriptor: int, rights: int) -> None:
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        rights &= _OF_A_FILE
    _called(_ADD, rules, _BENEATH, struct.pack("=Qi", rights, descriptor), 0)


def restrict(rules: int) -> None:
    """From now on, and for good, this process is held to ``rules``. It must have given up new privileges."""
    _called(_RESTRICT, rules, 0)


def _called(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
