"""The process that starts a command without namespaces, watches over it and leaves nothing of it behind (SPEC I7, K1).

Run as ``python -ISc "... main()" SPEC-DESCRIPTOR STATUS-DESCRIPTOR``; it needs the standard library alone. The command
is held by Landlock, a seccomp filter and limits, put on right before it starts, and cannot take them off.

There are two keepers, one the parent of the other, and both adopt orphans: whichever is killed, the other ends every
process of the command. The outer one shares the group of whoever waits for the command, so that ending that group ends
the command too; the inner one is out of its reach.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import select
import shutil
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from loops.tools.sandbox.confined import landlock
from loops.tools.sandbox.confined.metadata import answer
from loops.tools.sandbox.safe_paths import openat2

_libc = ctypes.CDLL(None, use_errno=True)
_PARENT_DEATH, _NO_NEW_RIGHTS, _ADOPT = 1, 38, 36
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_FILTER, _NEW_LISTENER = 1, 8
_ENDED = 137
_LIMITS = {
    "cpu": resource.RLIMIT_CPU,
    "as": resource.RLIMIT_AS,
    "fsize": resource.RLIMIT_FSIZE,
    "nofile": resource.RLIMIT_NOFILE,
    "core": resource.RLIMIT_CORE,
}
_PLAIN = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)
_PRECIOUS = 3
_NEIGHBOURS = 2
"""The kernel counts the processes of all commands of this user together, so there is room beside those that run now.
Whoever waits for the command counts its own, and ends it where they are too many."""

Act = Callable[[Mapping[str, Any]], None]


def main(act: Act | None = None) -> NoReturn:
    """Run the command that the spec (JSON) describes and end with its code; ``act`` runs in its place in the probe."""
    spec, status = json.loads(_whole(int(sys.argv[1]))), int(sys.argv[2])
    _libc.prctl(_PARENT_DEATH, signal.SIGKILL)
    if os.getpgrp() not in (os.getpid(), os.getppid()):  # the leader of our group was our parent, and is gone
        os._exit(_ENDED)
    _adopt()
    inner = os.fork()
    if inner == 0:
        _keep(spec, status, act or _become)
    os.close(status)
    code = _wait(inner)
    _sweep()
    _clean(spec)
    os._exit(code)


def _keep(spec: Mapping[str, Any], status: int, act: Act) -> NoReturn:
    parent = os.getppid()
    os.setsid()
    _adopt()
    waking = _wake()
    _libc.prctl(_PARENT_DEATH, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(_ENDED)
    code = _ENDED
    try:
        os.write(status, json.dumps({"child-pid": os.getpid()}).encode() + b"\n")
        os.close(status)
        code = _watched(spec, act, waking)
    except Exception as error:
        print(f"the sandbox does not start: {error}", file=sys.stderr, flush=True)
    finally:
        _sweep()
        _clean(spec)
        os._exit(code)


def _watched(spec: Mapping[str, Any], act: Act, waking: int) -> int:
    """The exit code of the command, or what it is when somebody ends us."""
    rules = landlock.ruleset(spec["readable"], spec["usable"], spec["writable"].values())
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        _start(spec, rules, theirs, act)
    os.close(rules)
    theirs.close()
    listener = _received(ours)
    ours.close()
    poll = select.poll()
    for descriptor in (waking, listener) if listener >= 0 else (waking,):
        poll.register(descriptor, select.POLLIN)
    while (code := _woken(waking, child)) is None:
        for descriptor, happened in poll.poll():
            if descriptor == listener and happened & select.POLLIN:
                answer(listener, spec["writable"], spec["uid"], spec["report_socket"])
            elif descriptor == listener:  # nobody is left who could ask
                poll.unregister(listener)
    return code


def _woken(waking: int, child: int) -> int | None:
    """The code to end with, once the command has ended or we were told to end."""
    told = b""
    with suppress(BlockingIOError):
        told = os.read(waking, 64)
    return _ENDED if signal.SIGTERM in told else _reap(child)


def _start(spec: Mapping[str, Any], rules: int, theirs: socket.socket, act: Act) -> NoReturn:
    """In the child: give up everything, then become the command."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in _PLAIN:
            signal.signal(number, signal.SIG_DFL)
        workspace = spec["writable"][spec["workspace"]]
        os.fchdir(openat2(workspace, spec["directory"], os.O_PATH | os.O_DIRECTORY))
        for name, value in spec["limits"].items():
            resource.setrlimit(_LIMITS[name], (value, value + (name == "cpu")))  # see ``bubblewrap._limited``
        most = _processes_of(spec["uid"]) + _NEIGHBOURS * spec["processes"]
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(spec["uid"], spec["uid"], spec["uid"])
            os.setresuid(spec["uid"], spec["uid"], spec["uid"])
        _libc.prctl(_PARENT_DEATH, signal.SIGKILL)
        _reach(spec["workspace"], workspace)
        _libc.prctl(_NO_NEW_RIGHTS, 1, 0, 0, 0)
        landlock.restrict(rules)
        _send(theirs, _filter(bytes.fromhex(spec["filter"])))
        os.closerange(_PRECIOUS, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        act(spec)
    except OSError as error:
        print(f"{error.filename or 'the sandbox does not start'}: {error.strerror}", file=sys.stderr, flush=True)
    os._exit(127)


def _reach(workspace: str, opened: int) -> None:
    """The rules hold for the folder that was opened: at its path there could be another one by now."""
    try:
        if not os.path.samestat(os.stat(workspace), os.fstat(opened)):
            raise OSError(errno.ESTALE, "the workspace was replaced while it was in use", workspace)
    except PermissionError as error:
        raise OSError(error.errno, "the sandbox's user may not pass the folders above it", workspace) from None


def _become(spec: Mapping[str, Any]) -> None:
    try:
        os.execvpe(spec["argv"][0], spec["argv"], spec["environment"])
    except OSError as error:
        raise OSError(error.errno, error.strerror, spec["argv"][0]) from None


def _filter(program: bytes) -> int:
    """Install the filter; the descriptor by which it asks."""
    data = ctypes.create_string_buffer(program, len(program))
    pointer = ctypes.create_string_buffer(struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.addressof(data)))
    listener = int(_libc.syscall(_SECCOMP[os.uname().machine], _SET_FILTER, _NEW_LISTENER, pointer))
    if listener < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"no filter: {os.strerror(code)}")
    return listener


def _send(pair: socket.socket, descriptor: int) -> None:
    socket.send_fds(pair, [b"!"], [descriptor])
    os.close(descriptor)
    pair.close()


def _received(pair: socket.socket) -> int:
    """-1 when the child ended before it had a filter."""
    _, descriptors, _, _ = socket.recv_fds(pair, 1, 1)
    return descriptors[0] if descriptors else -1


def _wake() -> int:
    """A descriptor that can be read when a child ended or we are told to end."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writing)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    return reading


def _reap(child: int) -> int | None:
    """Take the ended ones, adopted orphans among them; the command's code when it is one of them."""
    code = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                code = _code(ended[1])
    return code


def _wait(child: int) -> int:
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return _code(status)


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _sweep() -> None:
    """End every descendant. They are stopped first, so that none starts another while they are counted."""
    stopped: set[int] = set()
    while new := set(_descendants()) - stopped:
        for process in new:
            _signal(process, signal.SIGSTOP)
        stopped |= new
    while True:
        for process in _descendants():
            _signal(process, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:  # all that ended: to look for the rest takes long in a crowd
                pass
        except ChildProcessError:
            return


def _signal(process: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)


def _descendants() -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
                if state != b"Z":
                    children.setdefault(int(parent), []).append(int(name))
    found = [os.getpid()]
    while found:
        below = children.get(found.pop(), [])
        yield from below
        found += below


def _processes_of(uid: int) -> int:
    """Threads that this user has now: the kernel's limit counts all of them."""
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == uid:
                    count += len(os.listdir(f"/proc/{name}/task"))
    return count


def _adopt() -> None:
    _libc.prctl(_ADOPT, 1, 0, 0, 0)


def _clean(spec: Mapping[str, Any]) -> None:
    if spec["scratch"]:
        shutil.rmtree(spec["scratch"], ignore_errors=True)


def _whole(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        return file.read()
