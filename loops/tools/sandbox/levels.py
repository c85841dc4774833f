"""Which sandbox is really in force, found by trying what it must forbid (SPEC I7, RELIABILITY 4).

Level 3: bwrap with namespaces, limits and a seccomp filter; commands run under the matrix.
Level 1: no user namespaces (or a wall that leaks): file tools only, commands are refused.
Level 0: the kernel has no openat2: not even file tools.
Level 2 (Landlock alone) does not exist yet: a machine that could give it is treated as level 1.
Nothing ever runs outside the sandbox because the sandbox failed.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from loops.engine.values import Json
from loops.tools.limits import Limits
from loops.tools.sandbox.beneath import openat2_works
from loops.tools.sandbox.bubblewrap import Prepared, Sandboxed, bwrap_path, environment, prepare
from loops.tools.sandbox.seccomp import filter_bytes
from loops.tools.sandbox.user import NoUserNamespace, sandbox_user

FULL, FILES_ONLY, NOTHING = 3, 1, 0
_PROBE_TIMEOUT_S = 20.0

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
_PERMITTED_ENV = ("_", "PWD", "SHLVL", "OLDPWD")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing tried from inside; ``passed`` means it was refused."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True)
class SandboxLevel:
    """``warning`` is empty at full strength, else a sentence for the banner and the health page."""

    level: int
    name: str
    checks: tuple[Check, ...] = ()
    warning: str = ""

    def as_json(self) -> dict[str, Json]:
        checks: list[Json] = [{"name": c.name, "passed": c.passed, "detail": c.detail} for c in self.checks]
        return {"level": self.level, "name": self.name, "checks": checks, "warning": self.warning}


@dataclass(slots=True)
class _Cache:
    lock: threading.Lock = field(default_factory=threading.Lock)
    level: SandboxLevel | None = None


_cache = _Cache()


def probe(*, fresh: bool = False) -> SandboxLevel:
    """The level of this machine and worker, tested once per process (about 0.1 s) unless ``fresh``."""
    with _cache.lock:
        if _cache.level is None or fresh:
            _cache.level = _find_level()
        return _cache.level


def _find_level(trial: Callable[[], Mapping[str, bool]] | None = None) -> SandboxLevel:
    if not openat2_works():
        return SandboxLevel(NOTHING, "none", (), "The kernel has no openat2: file tools and commands are refused.")
    if not bwrap_path():
        return _files_only("bubblewrap is not installed", ())
    try:
        results = (trial or _try_everything)()
    except (NoUserNamespace, OSError, subprocess.SubprocessError) as error:
        return _files_only(f"the sandbox does not start ({error})", ())
    checks = tuple(Check(name, results.get(name, False), detail) for name, detail in _DETAIL.items())
    failed = [check.name for check in checks if not check.passed and check.name != "system_calls"]
    if failed:
        return _files_only(f"the sandbox leaks ({', '.join(failed)})", checks)
    weak = "" if filter_bytes() and results.get("system_calls") else "No system call filter on this architecture."
    return SandboxLevel(FULL, "bubblewrap", checks, weak)


def _files_only(reason: str, checks: tuple[Check, ...]) -> SandboxLevel:
    return SandboxLevel(FILES_ONLY, "files only", checks, f"Commands are refused: {reason}. File tools still work.")


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
        command = Sandboxed(("/bin/bash", "-c", _PROBE), workspace)
        results = _results(prepare(command, user, Limits(), inner))
        return results | {"real_root": os.stat(os.path.join(workspace, "owner")).st_uid != 0}


def _results(prepared: Prepared) -> dict[str, bool]:
    try:
        finished = subprocess.run(
            prepared.argv,
            env={},
            pass_fds=(*prepared.descriptors, *prepared.kept),
            capture_output=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
            start_new_session=True,
        )
    finally:
        prepared.close()
    lines = [line.split() for line in finished.stdout.decode(errors="replace").splitlines()]
    results = {line[0]: line[1] == "shut" for line in lines if len(line) == 2}
    if not results.get("end"):
        raise OSError(finished.stderr.decode(errors="replace").strip()[:300] or "no answer")
    return results
