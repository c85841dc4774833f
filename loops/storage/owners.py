"""Who owns a run, in words that let another worker prove that the owner is gone (reliability#lease)."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

_PARTS = (6, 7)
"""Owners of earlier versions do not name their parent."""


def me() -> str:
    """``host:process:thread:boot:namespace:birth:parent`` of the calling thread. Boot, namespace and birth tell this
    process from every other one that ever had its number: the machine's start, its process namespace, its own start.
    ``parent`` is ``process.birth`` of whoever started it."""
    pid, parent = os.getpid(), os.getppid()
    here = (socket.gethostname(), str(pid), str(threading.get_native_id()))
    return ":".join((*here, _boot(), _namespace(), _birth(pid) or "", f"{parent}.{_birth(parent) or ''}"))


def is_dead(owner: str) -> bool:
    """Is the process of ``owner`` proven to be gone? Its commands are gone with it: their sandbox dies with it.

    False whenever it cannot be proven from here: another machine, another container, an owner of an older version.
    """
    parts = owner.split(":")
    if len(parts) not in _PARTS or not parts[1].isdigit() or not all(parts):
        return False
    host, pid, _, boot, namespace, birth = parts[:6]
    if (host, boot) != (socket.gethostname(), _boot()) or not boot:
        return False
    return namespace == _namespace() and _is_gone(int(pid), birth)


def died_alone(owner: str) -> bool:
    """Is the process of ``owner`` proven to be gone while the one that started it lives on? Then not everything was
    ended at once, as a machine or a service is."""
    pid, _, birth = owner.rpartition(":")[2].partition(".")
    is_named = owner.count(":") + 1 == _PARTS[1] and pid.isdigit() and bool(birth)
    return is_named and is_dead(owner) and not _is_gone(int(pid), birth)


def _is_gone(pid: int, birth: str) -> bool:
    now = _birth(pid)
    if now is not None:
        return now != birth
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # somebody else's, and hidden from us
        return False
    return False


def _boot() -> str:
    return _first("/proc/sys/kernel/random/boot_id")[:8]


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return ""


def _birth(pid: int) -> str | None:
    """When the process was started, in ticks since the machine was: "" when only its remains are there, None when
    nothing can be seen."""
    fields = _first(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(fields) < 20:
        return None
    return "" if fields[0] in "ZX" else fields[19]


def _first(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
