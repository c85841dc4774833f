"""What a command and all that it started use up, by every kind of it that can be seen from outside (SPEC I7, ADR 0042).

Resident pages are not all of it: memory may belong to a mapping that is shared, to a file without a name, to a folder
in memory or to a queue of the kernel, and disk to a file that has lost its name. Each is counted once, at the most that
it may hold. Where the kernel tells nobody how much that is, what the disk lost meanwhile says it (``out_of_sight``).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from loops.tools.limits import KIB, MIB, Limits

_PIPE = 16 * os.sysconf("SC_PAGE_SIZE")
_SOCKET = 416 * KIB
"""Twice the buffer that the kernel gives to a socket which asks for none: no other is given (``seccomp._sized``)."""
_LETTER_BOX = 11 * 213 * KIB
"""A socket with a name that takes messages holds eleven of the largest, also of senders that are gone by then."""
_CONNECTION = 4 * KIB
_FOR_A_BYTE = 4
"""What a byte in a connection takes. Three bytes of four may be the kernel's own where they came one by one."""
_EVENTS = 9 * MIB
"""Of one watcher of folders: 16,384 with long names, as the kernel gives by itself."""
_INODE = KIB
_RESIDENT = (b"RssAnon:", b"RssFile:", b"VmSwap:", b"VmPTE:")
_IN_MEMORY = ("/dev/zero (deleted)", "/SYSV", "/memfd:")
_GONE = " (deleted)"
_SOCKETS = "socket:"
_WATCHER = "anon_inode:inotify"
_SENT = b"scm_fds:"


@dataclass(slots=True)
class Used:
    """``memory`` and ``unlinked`` (files on disk without a name) in bytes, ``tasks`` are processes and threads,
    ``files`` lie in folders in memory. ``only_mapped``: a file on disk has no name and no descriptor any more, so that
    only a capability of the whole machine would show its size. ``in_flight``: descriptors are on their way in a socket;
    ``sockets``: they may be, where the kernel is too old to say so (before 5.8)."""

    memory: int = 0
    tasks: int = 0
    unlinked: int = 0
    files: int = 0
    only_mapped: bool = False
    sockets: bool = False
    in_flight: bool = False


@dataclass(slots=True)
class _Seen:
    """What several processes may share, by what the kernel knows it by."""

    mapped: dict[str, int] = field(default_factory=dict)
    named: dict[tuple[int, int], int] = field(default_factory=dict)
    queues: dict[str, int] = field(default_factory=dict)
    on_disk: dict[tuple[int, int], int] = field(default_factory=dict)
    mapped_files: set[tuple[int, int]] = field(default_factory=set)
    in_flight: bool = False


def measure(first: int, folders: Mapping[str, int], most_tasks: int) -> Used:
    """Of every process below ``first``. ``folders`` in memory that only they have: path inside -> its size in bytes.

    Where there are more than ``most_tasks`` they alone are counted: a crowd grows while each of it is looked at."""
    used = Used()
    if first == 0:
        return used
    processes = list(_descendants(first))
    used.tasks = len(processes)
    if used.tasks > most_tasks:
        return used
    used.tasks = 0
    devices = _in_folders(first, folders, used)
    seen = _Seen()
    _without_descriptors(first, seen)
    for process in processes:
        used.tasks += len(_listed(f"/proc/{process}/task"))
        used.memory += _resident(process)
        _mappings(process, seen)
        for task in _listed(f"/proc/{process}/task"):  # threads may have tables of descriptors of their own
            _descriptors(f"/proc/{process}/task/{task}/fd", seen, devices)
    used.memory += sum(seen.mapped.values()) + sum(seen.named.values()) + sum(seen.queues.values())
    used.unlinked = sum(seen.on_disk.values())
    used.only_mapped = any(file[0] not in devices for file in seen.mapped_files - seen.on_disk.keys())
    used.in_flight = seen.in_flight
    used.sockets = any(name.startswith(_SOCKETS) for name in seen.queues)
    return used


def free_bytes(folders: Iterable[int | str]) -> dict[int, int]:
    """What the disks of these folders have left for whoever is not root, by device."""
    disks = {os.stat(folder).st_dev: os.statvfs(folder) for folder in folders}
    return {device: disk.f_bavail * disk.f_frsize for device, disk in disks.items()}


def is_nearly_full(folder: int | str, limits: Limits) -> bool:
    """Has the disk of a folder less left than is kept in reserve, or no room for another file?"""
    disk = os.statvfs(folder)
    has_no_files = disk.f_files > 0 and disk.f_favail == 0
    return has_no_files or disk.f_bavail * disk.f_frsize < limits.disk_reserve_bytes


def out_of_sight(used: Used, before: Mapping[int, int], now: Mapping[int, int], limits: Limits) -> str:
    """Why a command is ended for files whose size nobody can see, or "" (ADR 0042).

    ``before`` it began and ``now``: what is free on the disks that it may write to. What can be seen of a command is
    bounded by its quotas, so more than these is somebody's: this command's if it maps files without a name, or sends
    descriptors and nobody takes them out. Ordinary programs have sockets: these alone count when a disk is nearly full.
    """
    lost, free = sum(max(0, before[disk] - now[disk]) for disk in now), min(now.values())
    if lost <= limits.workspace_bytes + limits.tmp_bytes:
        return ""
    if used.only_mapped:
        return f"the disk lost {lost} bytes, and the command maps files that have lost their names"
    if used.in_flight:
        return f"the disk lost {lost} bytes, and open files are on their way in sockets of the command"
    if used.sockets and free < limits.disk_reserve_bytes:
        return f"the disk lost {lost} bytes and has {free} left, and open files may be on their way in its sockets"
    return ""


def _in_folders(first: int, folders: Mapping[str, int], used: Used) -> set[int]:
    """Count them; their devices. A folder of another size is the host's: the sandbox is not made yet."""
    devices = set()
    for path, size in folders.items():
        with suppress(OSError):
            inside = f"/proc/{first}/root{path}"
            found = os.statvfs(inside)
            if abs(found.f_blocks * found.f_frsize - size) <= found.f_frsize:
                files = found.f_files - found.f_ffree
                used.memory += (found.f_blocks - found.f_bfree) * found.f_frsize + files * _INODE
                used.files += files
                devices.add(os.stat(inside).st_dev)
    return devices


def _descendants(first: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for name in _listed("/proc"):
        if name.isdigit():
            with suppress(OSError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                children.setdefault(int(file.read().rpartition(b")")[2].split()[1]), []).append(int(name))
    found = [first]
    while found:
        below = children.get(found.pop(), [])
        yield from below
        found += below


def _listed(folder: str) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder)
    return []


def _resident(process: int) -> int:
    """Its own pages, those of files, what was swapped out, and the tables in which they stand; not what it shares."""
    with suppress(OSError), open(f"/proc/{process}/status", "rb") as file:
        lines = [line.split() for line in file if line.startswith(_RESIDENT)]
        return sum(int(line[1]) * KIB for line in lines)
    return 0


def _mappings(process: int, seen: _Seen) -> None:
    """Memory that is shared stays whole while a part of it is mapped: it counts by what is mapped, read or not."""
    mine: dict[str, int] = {}
    with suppress(OSError), open(f"/proc/{process}/maps", errors="replace") as file:
        for line in file:
            parts = line.split(maxsplit=5)
            if len(parts) < 6:
                continue
            if not parts[5].startswith(_IN_MEMORY):
                if parts[5].rstrip().endswith(_GONE):
                    seen.mapped_files.add((os.makedev(*(int(one, 16) for one in parts[3].split(":"))), int(parts[4])))
            elif parts[1].endswith("s"):
                begin, _, end = parts[0].partition("-")
                mine[parts[4]] = mine.get(parts[4], 0) + int(end, 16) - int(begin, 16)
    for inode, size in mine.items():
        seen.mapped[inode] = max(seen.mapped.get(inode, 0), size)


def _without_descriptors(first: int, seen: _Seen) -> None:
    """What waits in the sockets of the command's own network: also in those that nobody has accepted yet, or that
    nobody has any more. Elsewhere a command has pairs of sockets alone, and both ends are somebody's."""
    with suppress(OSError):
        if os.readlink(f"/proc/{first}/ns/net") != os.readlink("/proc/self/ns/net"):
            for version in ("tcp", "tcp6"):
                for line in _sockets(first, version):
                    _connection(line.split(), seen)
            for number, line in enumerate(_sockets(first, "unix")):
                _local(number, line.split(), seen)


def _sockets(first: int, family: str) -> list[bytes]:
    with open(f"/proc/{first}/net/{family}", "rb") as file:
        return list(file)[1:]


def _connection(words: list[bytes], seen: _Seen) -> None:
    """``sl local remote state unsent:unread timer retransmits uid timeout inode ...``. Buffers grow by themselves."""
    inode = words[9].decode()
    waiting = sum(int(count, 16) for count in words[4].split(b":"))
    name = f"{_SOCKETS}[{inode}]" if inode != "0" else b" ".join(words[1:3]).decode()
    seen.queues[name] = _CONNECTION + _FOR_A_BYTE * waiting


def _local(number: int, words: list[bytes], seen: _Seen) -> None:
    """``address: references protocol flags type state inode name``. One that waits to be accepted has inode 0. A name
    may hold line breaks: what follows them is no socket, or counts as one more."""
    if len(words) < 7 or not words[6].isdigit():
        return
    name = f"{_SOCKETS}[{int(words[6])}]" if int(words[6]) else f"local {number}"
    takes_messages = words[4] == b"0002" and len(words) > 7
    seen.queues[name] = max(seen.queues.get(name, 0), _LETTER_BOX if takes_messages else _SOCKET)


def _descriptors(folder: str, seen: _Seen, devices: set[int]) -> None:
    for name in _listed(folder):
        with suppress(OSError):
            target = os.readlink(f"{folder}/{name}")
            if target.startswith("pipe:"):
                seen.queues[target] = _PIPE
            elif target.startswith(_SOCKETS):
                seen.queues[target] = max(_SOCKET, seen.queues.get(target, 0))
                seen.in_flight = seen.in_flight or _carries(f"{folder}info/{name}")
            elif target == _WATCHER:  # it has no number of its own
                seen.queues[f"{folder.partition('/task/')[0]} {name}"] = _EVENTS
            elif target.startswith("/"):
                _file(f"{folder}/{name}", target, seen, devices)


def _carries(info: str) -> bool:
    """Are descriptors on their way in this socket?"""
    with open(info, "rb") as file:
        return any(int(line.split()[1]) > 0 for line in file if line.startswith(_SENT))


def _file(path: str, target: str, seen: _Seen, devices: set[int]) -> None:
    found = os.stat(path)
    if stat.S_ISFIFO(found.st_mode):  # a pipe that has, or had, a name
        seen.queues[f"pipe:{found.st_dev}:{found.st_ino}"] = _PIPE
    elif target.endswith(_GONE):
        _without_name(found, target, seen, devices)


def _without_name(found: os.stat_result, target: str, seen: _Seen, devices: set[int]) -> None:
    if stat.S_ISREG(found.st_mode) and found.st_dev not in devices:  # a folder in memory counts these itself
        kind = seen.named if target.startswith(_IN_MEMORY) else seen.on_disk
        kind[(found.st_dev, found.st_ino)] = found.st_blocks * 512
