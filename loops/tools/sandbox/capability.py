"""Which sandbox is really in force, found by trying what it must forbid (SPEC I7, reliability#sandbox).

Level 3: bwrap with namespaces, limits and a seccomp filter; commands run under the matrix.
Level 2: no bwrap or no user namespaces, but Landlock and a stricter filter; every command asks a person.
Level 1: neither, or a wall that leaks: file tools only, commands are refused.
Level 0: the kernel has no openat2: not even file tools.
Nothing ever runs outside the sandbox because the sandbox failed.

The answer is kept, and looked for anew when bwrap comes or goes, and every minute while it is not the full one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from loops.engine.text.truncation import shortened
from loops.engine.values import Json
from loops.tools.limits import Limits
from loops.tools.sandbox.command import Prepared, Sandboxed, environment
from loops.tools.sandbox.confined import confinement
from loops.tools.sandbox.installation import bwrap_path, remedy
from loops.tools.sandbox.namespaces.bubblewrap import prepare
from loops.tools.sandbox.namespaces.user import NoUserNamespace, file_owner, sandbox_user
from loops.tools.sandbox.safe_paths import SafeDirectory, openat2_works
from loops.tools.sandbox.seccomp import filter_bytes

FULL, CONFINED, FILES_ONLY, NOTHING = 3, 2, 1, 0
_AGAIN_S = 30.0
_PROBE_TIMEOUT_S = 60.0
"""Of a busy machine: a sandbox that was not found in time ends runs that cannot do without it."""

_PROBE = r"""
try() { name=$1; shift; if "$@" >/dev/null 2>&1; then echo "$name open"; else echo "$name shut"; fi; }
connect() { exec 3<>"/dev/tcp/127.0.0.1/$PROBE_PORT"; }
strange_env() { env | cut -d= -f1 | grep -qvxF "$PROBE_NAMES"; }
pids() { [ "$(ls -d /proc/[0-9]* | wc -l)" -gt 12 ]; }
unlimited() { [ "$(ulimit -u)" = unlimited ] || [ "$(ulimit -v)" = unlimited ] || [ "$(ulimit -f)" = unlimited ]; }
capable() { grep -qE 'Cap(Prm|Eff|Bnd|Amb):.*[1-9a-f]' /proc/self/status; }
unfiltered() { ! grep -q 'Seccomp:.*2' /proc/self/status; }
sockets() { ls /run/docker.sock /var/run/docker.sock /run/dbus /run/user /run/systemd; }
try network connect
try host_files cat /etc/shadow
try host_folder ls "$PROBE_OUTSIDE"
try write_outside touch /usr/probe /etc/probe /probe
try host_processes pids
try host_environment strange_env
try init_environment grep -q = /proc/1/environ
try user_namespaces unshare -U true
try kernel_mounts mount -t tmpfs none /tmp
try limits_missing unlimited
try capabilities capable
try system_calls unfiltered
try host_sockets sockets
touch ./owner
if touch ./probe && rm ./probe; then echo "workspace shut"; else echo "workspace open"; fi
echo "end shut"
"""
_DETAIL = {
    "network": "connect to a listener on the host's loopback",
    "host_files": "read /etc/shadow",
    "host_folder": "list a folder of the host",
    "write_outside": "create a file in /usr, /etc or /",
    "host_processes": "see processes of the host",
    "host_environment": "see environment variables that are not on the list",
    "init_environment": "see a variable in the environment of process 1",
    "user_namespaces": "make another user namespace",
    "kernel_mounts": "mount a file system",
    "limits_missing": "find a limit of processes, memory or file size missing",
    "capabilities": "hold a capability",
    "system_calls": "run without the system call filter",
    "host_sockets": "reach the container or message bus sockets of the host",
    "real_root": "be root on the host",
    "workspace": "be unable to write in the workspace",
    "end": "stop the probe before its end",
}
_CONFINED_DETAIL = {
    "network": "open a connection or a socket of the network",
    "datagrams": "send to a listener on the host's loopback",
    "sockets": "reach a socket of the host by its path",
    "abstract_sockets": "reach a socket of the host by its abstract name",
    "host_files": "read files of the host",
    "host_folder": "list a folder of the host",
    "write_outside": "change, move or make a file outside",
    "metadata_outside": "change the mode, the owner or the times of a file outside",
    "host_processes": "see processes of the host",
    "signals": "signal processes of the host",
    "memory_of_others": "reach the memory of another process",
    "limits_of_others": "change limits or priority of another process",
    "shared_memory": "reach shared memory of the host",
    "kernel_calls": "make namespaces, mounts, or use other doors of the kernel",
    "limits_missing": "find a limit of processes, memory, time or file size missing",
    "capabilities": "hold a capability",
    "real_root": "be root on the host",
    "workspace": "be unable to work in the workspace",
    "end": "stop the probe before its end",
}
_PERMITTED_ENV = ("_", "PWD", "SHLVL", "OLDPWD")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing tried from inside; ``passed`` means it was refused."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True)
class SandboxLevel:
    """``warning`` is empty at full strength, else a sentence for the banner and the health page; ``remedy`` is what
    somebody can do about it."""

    level: int
    name: str
    checks: tuple[Check, ...] = ()
    warning: str = ""
    remedy: str = ""


@dataclass(slots=True)
class _Cache:
    lock: threading.Lock = field(default_factory=threading.Lock)
    level: SandboxLevel | None = None
    seen: tuple[object, ...] = ()
    """What bwrap was when it was looked for."""
    at: float = 0.0


_cache = _Cache()


def probe(*, fresh: bool = False) -> SandboxLevel:
    """The level of this machine and worker as it is now; trying takes about 0.2 s and is seldom needed."""
    with _cache.lock:
        seen = _installed()
        old = _cache.level is None or seen != _cache.seen
        weak = _cache.level is not None and _cache.level.level < FULL and time.monotonic() - _cache.at > _AGAIN_S
        if old or weak or fresh:
            _cache.level, _cache.seen, _cache.at = _find_level(), seen, time.monotonic()
        assert _cache.level is not None
        return _cache.level


def _installed() -> tuple[object, ...]:
    path = bwrap_path()
    try:
        status = os.stat(path)
    except OSError:
        return ("",)
    return (path, status.st_dev, status.st_ino, status.st_mtime_ns)


def _find_level(
    trial: Callable[[], Mapping[str, bool]] | None = None, second: Callable[[], Mapping[str, bool]] | None = None
) -> SandboxLevel:
    if not openat2_works():
        return SandboxLevel(NOTHING, "none", (), "The kernel has no openat2: file tools and commands are refused.")
    checks, why = _tried(trial or _try_everything, _DETAIL, "" if bwrap_path() else "bubblewrap is not installed")
    if not why:
        known = next(check for check in checks if check.name == "system_calls").passed
        weak = "" if filter_bytes() and known else "No system call filter on this architecture."
        return SandboxLevel(FULL, "bubblewrap", checks, weak)
    others, lacking = _tried(second or _try_confined, _CONFINED_DETAIL, confinement.missing())
    if not lacking:
        said = f"Landlock holds commands, the weaker of two sandboxes: {why}."
        return SandboxLevel(CONFINED, "landlock", others, said, remedy())
    said = f"Commands are refused: {why}, and for the weaker sandbox {lacking}. File tools still work."
    return SandboxLevel(FILES_ONLY, "files only", checks or others, said, remedy())


def _tried(
    trial: Callable[[], Mapping[str, bool]], detail: Mapping[str, str], lacking: str
) -> tuple[tuple[Check, ...], str]:
    """What was tried, and why it does not hold; "" when it does."""
    if lacking:
        return (), lacking
    try:
        results = trial()
    except (NoUserNamespace, OSError, subprocess.SubprocessError) as error:
        return (), f"the sandbox does not start ({error})"
    checks = tuple(Check(name, results.get(name, False), text) for name, text in detail.items())
    failed = [check.name for check in checks if not check.passed and check.name != "system_calls"]
    return checks, f"the sandbox leaks ({', '.join(failed)})" if failed else ""


def _try_confined() -> Mapping[str, bool]:
    """As ``_try_everything``, without namespaces: on a file and a process of the command's own user."""
    owner = file_owner()
    with tempfile.TemporaryDirectory(prefix="agentops-probe-") as folder, contextlib.ExitStack() as stack:
        os.chmod(folder, 0o755)  # noqa: S103  # the command's user has to pass
        workspace, file = os.path.join(folder, "workspace"), os.path.join(folder, "file")
        os.mkdir(workspace)
        with open(file, "w") as made:
            made.write("of the host")
        if owner:
            os.chown(workspace, *owner)
            os.chown(file, *owner)
        words = ["/bin/sleep", "60"]
        other = stack.enter_context(subprocess.Popen(words, env={}, user=owner[0] if owner else None))
        stack.callback(other.kill)
        places = _listeners(stack, folder) | {"file": file, "folder": folder, "process": other.pid}
        command = Sandboxed(("true",), stack.enter_context(SafeDirectory(workspace, links=True)))
        prepared = confinement.prepare(command, Limits(), environment({}), module="trial", places=places)
        return _results(prepared)


def _listeners(stack: contextlib.ExitStack, folder: str) -> dict[str, Json]:
    """Sockets of every kind that a command must not reach."""

    def listening(family: int, kind: int, address: tuple[str, int] | str) -> socket.socket:
        made = stack.enter_context(socket.socket(family, kind))
        made.bind(address)
        if kind == socket.SOCK_STREAM:
            made.listen()
        return made

    path, name = os.path.join(folder, "socket"), "\0agentops-probe-" + os.path.basename(folder)
    tcp = listening(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
    udp = listening(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
    listening(socket.AF_UNIX, socket.SOCK_STREAM, path)
    os.chmod(path, 0o777)  # noqa: S103  # it is the sandbox that has to refuse it
    listening(socket.AF_UNIX, socket.SOCK_STREAM, name)
    return {"port": tcp.getsockname()[1], "datagrams": udp.getsockname()[1], "socket": path, "abstract": name}


def _try_everything() -> Mapping[str, bool]:
    """Name of each check -> True when the forbidden thing was refused."""
    user = sandbox_user()
    with tempfile.TemporaryDirectory(prefix="agentops-probe-") as folder, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        workspace = os.path.join(folder, "workspace")
        os.mkdir(workspace)
        if user.owner is not None:
            os.chown(workspace, *user.owner)
        inner = environment({})
        names = "\n".join([*inner, *_PERMITTED_ENV, "PROBE_NAMES", "PROBE_PORT", "PROBE_OUTSIDE"])
        port = str(listener.getsockname()[1])
        inner |= {"PROBE_NAMES": names, "PROBE_PORT": port, "PROBE_OUTSIDE": folder}
        with SafeDirectory(workspace, links=True) as opened:
            command = Sandboxed(("/bin/bash", "-c", _PROBE), opened)
            results = _results(prepare(command, user, Limits(), inner))
        return results | {"real_root": os.stat(os.path.join(workspace, "owner")).st_uid != 0}


def _results(prepared: Prepared) -> dict[str, bool]:
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        finished = subprocess.run(
            prepared.argv if prepared.status_option else prepared.words(null),
            env={},
            pass_fds=(*prepared.descriptors, null),
            capture_output=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
            start_new_session=True,
        )
    finally:
        os.close(null)
        prepared.close()
    lines = [line.split() for line in finished.stdout.decode(errors="replace").splitlines()]
    results = {line[0]: line[1] == "shut" for line in lines if len(line) == 2}
    if not results.get("end"):
        raise OSError(shortened(finished.stderr.decode(errors="replace").strip(), 300) or "no answer")
    return results
