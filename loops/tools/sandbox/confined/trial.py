"""Try, held by Landlock and seccomp, what they must forbid: each line says whether it was refused (capability.py).

These are Python, since what a shell has no word for (sockets with a path, memory of another process, the mode of a
file) is what namespaces would have hidden. ``attempt`` without the walls is the control: there nearly all succeed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import socket
import struct
import subprocess
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from loops.tools.sandbox.confined import keeper

Places = Mapping[str, Any]
"""Of the host: ``port``, ``datagrams``, ``socket``, ``abstract``, ``file``, ``folder``, ``process``."""

_libc = ctypes.CDLL(None, use_errno=True)
_CALLS = {
    "x86_64": {"ptrace": 101, "unshare": 272, "mount": 165, "bpf": 321, "keyctl": 250, "shmget": 29, "mq_open": 240}
    | {"process_vm_readv": 310, "capget": 125, "io_uring_setup": 425, "pidfd_getfd": 438, "perf_event_open": 298}
    | {"shmctl": 31},
    "aarch64": {"ptrace": 117, "unshare": 97, "mount": 40, "bpf": 280, "keyctl": 219, "shmget": 194, "mq_open": 180}
    | {"process_vm_readv": 270, "capget": 90, "io_uring_setup": 425, "pidfd_getfd": 438, "perf_event_open": 241}
    | {"shmctl": 195},
}
_NEW_USER, _ATTACH, _REMOVE = 0x10000000, 16, 0


def main() -> NoReturn:
    """As ``keeper.main``, with the attempts in the place of a command."""
    keeper.main(lambda spec: attempt(spec["places"]))


def attempt(places: Places) -> None:
    """Print ``name open`` or ``name shut`` for each."""
    for name, trial in TRIALS.items():
        print(name, "open" if _reached(trial, places) else "shut", flush=True)
    print("end shut", flush=True)


def _reached(trial: Callable[[Places], object], places: Places) -> bool:
    try:
        trial(places)
    except (OSError, ValueError):
        return False
    return True


def _call(name: str, *arguments: object) -> int:
    result = int(_libc.syscall(_CALLS[os.uname().machine][name], *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def _any_of(*attempts: Callable[[], object]) -> None:
    """Reached when one of them is. Raises OSError when all are refused."""
    for one in attempts:
        try:
            one()
        except (OSError, ValueError):
            continue
        return
    raise PermissionError(errno.EPERM, "all refused")


def _connect(family: int, kind: int, address: Any) -> None:
    with socket.socket(family, kind) as found:
        found.settimeout(2)
        found.connect(address)
        found.send(b"x")


def _network(places: Places) -> None:
    _any_of(
        lambda: _connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", places["port"])),
        lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0),
        lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM),
    )


def _host_files(places: Places) -> None:
    _any_of(lambda: open(places["file"], "rb"), lambda: open("/etc/passwd", "rb"), lambda: open("/etc/shadow", "rb"))


def _write_outside(places: Places) -> None:
    _any_of(
        lambda: open(places["file"], "ab"),
        lambda: open(f"{places['folder']}/probe", "wb"),
        lambda: os.truncate(places["file"], 0),
        lambda: os.link(places["file"], "./linked"),
        lambda: os.rename(places["file"], "./moved"),
        lambda: os.unlink(places["file"]),
    )


def _metadata(places: Places) -> None:
    path = places["file"]
    _any_of(
        lambda: os.chmod(path, 0o600),
        lambda: os.chmod(f"../{os.path.basename(os.path.dirname(path))}/{os.path.basename(path)}", 0o600),
        lambda: os.chown(path, os.getuid(), -1),
        lambda: os.utime(path, (1, 1)),
        lambda: os.setxattr(path, "user.probe", b"1"),
    )


def _host_processes(places: Places) -> None:
    process = places["process"]
    _any_of(
        lambda: os.listdir("/proc"),
        lambda: open(f"/proc/{process}/cmdline", "rb"),
        lambda: open(f"/proc/{process}/environ", "rb"),
        lambda: open(f"/proc/{os.getppid()}/status", "rb"),
    )


def _signals(places: Places) -> None:
    process = places["process"]
    _any_of(lambda: os.kill(process, 0), lambda: os.kill(os.getppid(), 0), lambda: os.killpg(os.getpgid(process), 0))


def _memory(places: Places) -> None:
    process = places["process"]
    piece = ctypes.create_string_buffer(8)
    vector = struct.pack("QQ", ctypes.addressof(piece), 8)
    _any_of(
        lambda: open(f"/proc/{process}/mem", "rb"),
        lambda: _call("ptrace", _ATTACH, process, 0, 0),
        lambda: _call("process_vm_readv", process, vector, 1, vector, 1, 0),
        lambda: _call("pidfd_getfd", os.pidfd_open(process), 0, 0),
    )


def _others(places: Places) -> None:
    process = places["process"]
    _any_of(
        lambda: resource.prlimit(process, resource.RLIMIT_NOFILE),
        lambda: os.sched_setaffinity(process, os.sched_getaffinity(0)),
        lambda: os.setpriority(os.PRIO_PROCESS, process, 19),
    )


def _segment() -> None:
    """It would outlive us."""
    _call("shmctl", _call("shmget", 0, 4096, 0o1600), _REMOVE, 0)


def _shared_memory(_: Places) -> None:
    _any_of(
        _segment,
        lambda: _call("mq_open", b"probe", os.O_CREAT | os.O_RDWR, 0o600, 0),
        lambda: open("/dev/shm/agentops-probe", "wb"),
    )


def _kernel(places: Places) -> None:
    room = ctypes.create_string_buffer(256)
    _any_of(
        lambda: _call("unshare", _NEW_USER),
        lambda: _call("mount", b"none", b".", b"tmpfs", 0, 0),
        lambda: _call("bpf", 0, room, 128),
        lambda: _call("keyctl", 0, -3, 0),
        lambda: _call("io_uring_setup", 4, room),
        lambda: _call("perf_event_open", room, 0, -1, -1, 0),
    )


def _limits(_: Places) -> None:
    kinds = (resource.RLIMIT_NPROC, resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU)
    if all(resource.getrlimit(kind)[1] != resource.RLIM_INFINITY for kind in kinds):
        raise ValueError("all there")


def _capabilities(_: Places) -> None:
    head, data = struct.pack("=Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    _call("capget", head, data)
    if not any(data.raw):
        raise ValueError("none")


def _root(_: Places) -> None:
    _any_of(*([] if os.getuid() else [lambda: None]), lambda: os.setuid(0))


def _no_workspace(_: Places) -> None:
    """The other way round: what has to work. A file of its own, its mode, and a program that makes one."""
    try:
        with open("./own", "wb"):
            pass
        os.chmod("./own", 0o700)
        os.utime("./own", (1, 1))
        subprocess.run(["/bin/sh", "-c", "touch other && rm own other"], check=True, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        return
    raise ValueError("it works")


TRIALS: Mapping[str, Callable[[Places], object]] = {
    "network": _network,
    "datagrams": lambda at: _connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", at["datagrams"])),
    "sockets": lambda at: _connect(socket.AF_UNIX, socket.SOCK_STREAM, at["socket"]),
    "abstract_sockets": lambda at: _connect(socket.AF_UNIX, socket.SOCK_STREAM, at["abstract"]),
    "host_files": _host_files,
    "host_folder": lambda at: os.listdir(at["folder"]),
    "write_outside": _write_outside,
    "metadata_outside": _metadata,
    "host_processes": _host_processes,
    "signals": _signals,
    "memory_of_others": _memory,
    "limits_of_others": _others,
    "shared_memory": _shared_memory,
    "kernel_calls": _kernel,
    "limits_missing": _limits,
    "capabilities": _capabilities,
    "real_root": _root,
    "workspace": _no_workspace,
}
