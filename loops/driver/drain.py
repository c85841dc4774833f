"""A worker that is to end: what is being performed may finish, nothing new is begun, runs are given back (SPEC J4).

The moment is kept in memory that forked pool processes share, so that the signal needs to reach only the parent.
"""

from __future__ import annotations

import mmap
import struct
import time

PRESSING_S = 2.0
"""This much before the end of the grace, whatever may be begun again elsewhere is cut short."""

_shared = mmap.mmap(-1, 8)


def begin(grace_s: float) -> None:
    """The worker ends within ``grace_s`` seconds. The first call counts."""
    if not begun():
        _write(time.monotonic() + grace_s)


def begun() -> bool:
    return _ends() > 0


def pressing() -> bool:
    """Is the grace nearly over?"""
    return begun() and time.monotonic() > _ends() - PRESSING_S


def forget() -> None:
    """For tests: this process goes on."""
    _write(0.0)


def _ends() -> float:
    (ends,) = struct.unpack("d", _shared[:8])
    return float(ends)


def _write(ends: float) -> None:
    _shared[:8] = struct.pack("d", ends)
