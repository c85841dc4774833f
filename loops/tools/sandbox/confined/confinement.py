"""A command held by Landlock and seccomp, where no namespaces can be made (SPEC I7, reliability#sandbox).

It sees the host's own paths: the workspace where it lies, programs read-only, a folder of its own for what is
temporary. It has no network at all, not even to itself: the one socket that it reaches is that of the worker to which
its test runners report. Who may ask whether a path exists is not limited.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from signal import SIGTERM

from loops.tools.limits import Limits
from loops.tools.sandbox import programs
from loops.tools.sandbox.command import IGNORED, REPORTS, WORKSPACE, Prepared, Sandboxed
from loops.tools.sandbox.confined import landlock
from loops.tools.sandbox.namespaces.user import file_owner
from loops.tools.sandbox.safe_paths import PathRefused, SafeDirectory
from loops.tools.sandbox.seccomp import METADATA, alone_bytes
from loops.tools.test_sessions import reporters

_READABLE = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime"),
    "/etc/ssl/openssl.cnf",  # without it Node does not start
    "/etc/ssl/certs",  # nor npm, where its settings name one
)
_TOLD = ("/proc/cpuinfo", "/proc/meminfo", "/proc/filesystems", "/proc/sys/vm/overcommit_memory")
_USABLE = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../../../.."))
_MAIN = "import sys; sys.path.insert(0, {root!r}); from loops.tools.sandbox.confined.{module} import main; main()"
_OWN = ("home", "tmp")
_LARGEST = 64 << 20


def missing() -> str:
    """What this machine lacks for it, "" when nothing."""
    if platform.machine() not in METADATA:
        return f"no system call filter for {platform.machine()}"
    version = landlock.version()
    if version < landlock.NEEDED:
        return f"Landlock is {'missing' if not version else f'version {version}'}, version {landlock.NEEDED} is needed"
    return ""


def prepare(
    command: Sandboxed, limits: Limits, inner: Mapping[str, str], *, module: str = "keeper", **more: object
) -> Prepared:
    """Build the command line of its keeper. Raises PathRefused when approved bytes are not those of the workspace."""
    _check_sealed(command)
    prepared = Prepared([], [], ended_by=SIGTERM, scratch=_scratch())
    try:
        spec = json.dumps(_spec(command, limits, inner, prepared) | more).encode()
        main = _MAIN.format(root=_ROOT, module=module)
        prepared.argv = [sys.executable, "-ISc", main, str(prepared.pipe(spec))]
    except BaseException:
        prepared.close()
        shutil.rmtree(prepared.scratch, ignore_errors=True)
        raise
    return prepared


def _spec(command: Sandboxed, limits: Limits, inner: Mapping[str, str], prepared: Prepared) -> dict[str, object]:
    workspace, owner = command.workspace, file_owner()
    return {
        "argv": command.argv,
        "workspace": workspace.root,
        "directory": command.directory,
        "environment": _environment(command, inner, prepared.scratch),
        "readable": [*_programs(), *_TOLD, *filter(None, [command.tests])],
        "usable": _USABLE,
        "writable": {workspace.root: prepared.copy(workspace.fd), **dict(_ours(command, prepared))},
        "scratch": prepared.scratch,
        "filter": alone_bytes().hex(),
        "report_socket": f"{command.tests}/socket" if command.tests else "",
        "uid": os.geteuid() if owner is None else owner[0],
        "processes": limits.processes,
        "limits": {
            "cpu": limits.cpu_s,
            "as": limits.address_space_bytes,
            "fsize": limits.largest_file_bytes,
            "nofile": limits.open_files,
            "core": 0,
        },
    }


def _ours(command: Sandboxed, prepared: Prepared) -> Iterator[tuple[str, int]]:
    """The folders of AgentOps that the command may fill, each with its descriptor."""
    for path in filter(None, (prepared.scratch, command.report)):
        with SafeDirectory(path, links=True) as folder:
            yield path, prepared.copy(folder.fd)


def _programs() -> Iterator[str]:
    for path in (*_READABLE, programs.elsewhere()):
        if path and os.path.exists(path):
            yield from programs.around(os.path.realpath(path))


def _environment(command: Sandboxed, inner: Mapping[str, str], scratch: str) -> dict[str, str]:
    """The same words as in a namespace, with the paths that are real here."""
    here = {
        "PATH": inner.get("PATH", "").replace(WORKSPACE, command.workspace.root),
        "HOME": f"{scratch}/{_OWN[0]}",
        "TMPDIR": f"{scratch}/{_OWN[1]}",
        "USER": "agent",
        "LOGNAME": "agent",
        "GIT_CEILING_DIRECTORIES": os.path.dirname(command.workspace.root),
    }
    if inner.get("GIT_CONFIG_VALUE_0") == IGNORED:
        here["GIT_CONFIG_VALUE_0"] = "/dev/null"
    if command.report:
        here[REPORTS] = command.report
    if command.tests:
        here |= reporters.variables(command.tests, here["PATH"])
    return {**inner, **here}


def _scratch() -> str:
    folder = tempfile.mkdtemp(prefix="agentops-command-")
    owner = file_owner()
    for path in (folder, *(f"{folder}/{name}" for name in _OWN)):
        os.makedirs(path, 0o700, exist_ok=True)
        if owner is not None:
            os.chown(path, *owner)
    return os.path.realpath(folder)


def _check_sealed(command: Sandboxed) -> None:
    """Nothing can be mounted over a file here, so what was approved has to be what lies there when it starts."""
    for path, data in command.sealed.items():
        if command.workspace.read(path, _LARGEST)[0] != data:
            raise PathRefused(f"{path!r} changed since it was approved; ask again", escape=True)


def over_scratch(scratch: str, limits: Limits) -> str:
    """Why a command's own temporary folder is too large, or ""; a sparse file counts with its full size."""
    total = files = 0
    for base, folders, names in os.walk(scratch) if scratch else ():
        files += len(folders) + len(names)
        for name in names:
            with suppress(OSError):
                total += os.lstat(f"{base}/{name}").st_size
    if files > limits.workspace_files:
        return f"more than {limits.workspace_files} files in its temporary folders"
    most = limits.tmp_bytes
    return f"{total} bytes in its temporary folders; they may have {most}" if total > most else ""
