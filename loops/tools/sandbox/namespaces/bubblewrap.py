"""The words for bwrap: what a command sees of the world, and nothing else (SPEC I7, reliability#sandbox)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from stat import S_ISDIR

from loops.tools.limits import MIB, Limits
from loops.tools.sandbox import programs
from loops.tools.sandbox.command import (
    ENVIRONMENT,
    HOME,
    IGNORED,
    NETWORK,
    REPORT,
    TESTS,
    TMP,
    WORKSPACE,
    Prepared,
    Sandboxed,
)
from loops.tools.sandbox.installation import bwrap_path
from loops.tools.sandbox.namespaces.user import INSIDE_UID, SandboxUser
from loops.tools.sandbox.safe_paths import STRICT
from loops.tools.sandbox.seccomp import filter_bytes

_SHARED_MEMORY = "/dev/shm"  # noqa: S108  # as well
_SYSTEM = ("/usr", "/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime")
TRUSTED = ("/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted")
"""The certificate authorities of the machine, for a command that may reach hosts."""
_LINKS = ("bin", "sbin", "lib", "lib64")
_DATA = {
    "/etc/passwd": f"root:x:0:0::/:/bin/false\nagent:x:{INSIDE_UID}:{INSIDE_UID}::{HOME}:/bin/bash\n",
    "/etc/group": f"root:x:0:\nagent:x:{INSIDE_UID}:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


def prepare(command: Sandboxed, user: SandboxUser, limits: Limits, inner: Mapping[str, str]) -> Prepared:
    """Build the command line. ``inner`` is the environment inside. Options travel through a pipe, not in ``ps``."""
    prepared = Prepared([], [], status_option="--json-status-fd")
    try:
        options = [*_namespaces(user, prepared), *_system(prepared, limits), *_elsewhere(), *_places(command, prepared)]
        options += [*_sealed(command, prepared), *_ignored(command, prepared)]
        options += [*_finish(command, inner), *_seccomp(prepared), *_capabilities(user)]
        arguments = prepared.pipe("\0".join(options).encode() + b"\0")
        prepared.argv = [bwrap_path(), "--args", str(arguments), "--", *_become(user), *_limited(limits), *command.argv]
    except BaseException:
        prepared.close()
        raise
    return prepared


def _namespaces(user: SandboxUser, prepared: Prepared) -> list[str]:
    parts = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup"]
    parts += ["--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"]
    if user.namespace is None:
        ids = ["--uid", str(INSIDE_UID), "--gid", str(INSIDE_UID)]
        return ["--unshare-user", "--disable-userns", *ids, *parts]
    prepared.descriptors.append(user.namespace)
    return ["--userns", str(user.namespace), *parts]


def _programs() -> Iterator[str]:
    for path in _SYSTEM:
        if os.path.exists(path):
            yield from ("--ro-bind", path, path)
    for path in programs.hidden():
        yield from ("--perms", "0555", "--size", "4096", "--tmpfs", path, "--remount-ro", path)
    for name in _LINKS:
        if os.path.islink(f"/{name}"):
            yield from ("--symlink", os.readlink(f"/{name}"), f"/{name}")
        elif os.path.isdir(f"/{name}"):
            yield from ("--ro-bind", f"/{name}", f"/{name}")


def _system(prepared: Prepared, limits: Limits) -> Iterator[str]:
    yield from ("--perms", "0755", "--dir", "/etc")
    yield from _programs()
    for path, text in _DATA.items():
        yield from ("--perms", "0444", "--ro-bind-data", str(prepared.pipe(text.encode())), path)
    yield from ("--proc", "/proc", "--dev", "/dev")
    for path in (TMP, HOME, _SHARED_MEMORY):
        size = prepared.folders[path] = limits.tmp_bytes if path == TMP else min(limits.tmp_bytes, 64 * MIB)
        yield from ("--perms", "1777", "--size", str(size), "--tmpfs", path)
    yield from ("--remount-ro", "/dev")


def _elsewhere() -> Iterator[str]:
    if path := programs.elsewhere():
        yield from _shown(path)


def _shown(path: str) -> Iterator[str]:
    """bwrap would copy the mode of folders above a mount; 0755 lets the sandbox's user pass through /root."""
    parts = path.strip("/").split("/")
    for depth in range(1, len(parts)):
        yield from ("--perms", "0755", "--dir", "/" + "/".join(parts[:depth]))
    yield from ("--ro-bind", path, path)


def _places(command: Sandboxed, prepared: Prepared) -> Iterator[str]:
    """By descriptor: at a path there may be another folder, or a link, by the time it is mounted. bwrap compares them
    and ends where they differ."""
    root = command.workspace
    yield from ("--bind-fd", str(prepared.copy(root.fd)), WORKSPACE)
    own = root.stat(ENVIRONMENT)
    for path in (*command.binds, *([ENVIRONMENT] if own and S_ISDIR(own.st_mode) else [])):
        with root.opened(path, os.O_PATH, resolve=STRICT) as found:
            yield from ("--ro-bind-fd", str(prepared.copy(found)), f"{WORKSPACE}/{path}")
    for path in command.masks:  # an ordinary file: what copies or collects a whole folder fails at a device
        yield from ("--perms", "0444", "--ro-bind-data", str(prepared.pipe(b"")), f"{WORKSPACE}/{path}")
    if command.report:
        yield from ("--bind", command.report, REPORT)
    if command.tests:
        yield from ("--ro-bind", command.tests, TESTS)
    if command.network:
        yield from ("--ro-bind", command.network, NETWORK)
        for path in filter(os.path.isdir, TRUSTED):
            yield from _shown(path)


def _sealed(command: Sandboxed, prepared: Prepared) -> list[str]:
    words: list[str] = []
    for path, data in command.sealed.items():
        words += ["--perms", "0555", "--ro-bind-data", str(prepared.memory(data)), f"{WORKSPACE}/{path}"]
    return words


def _ignored(command: Sandboxed, prepared: Prepared) -> list[str]:
    """git would trip over the placeholders of masked paths."""
    lines = "".join(f"/{path}\n" for path in command.masks)
    return ["--perms", "0444", "--ro-bind-data", str(prepared.pipe(lines.encode())), IGNORED]


def _finish(command: Sandboxed, inner: Mapping[str, str]) -> Iterator[str]:
    for name, value in inner.items():
        yield from ("--setenv", name, value)
    yield from ("--remount-ro", "/", "--chdir", os.path.normpath(f"{WORKSPACE}/{command.directory}"))


def _seccomp(prepared: Prepared) -> list[str]:
    program = filter_bytes()
    return ["--seccomp", str(prepared.pipe(program))] if program else []


def _capabilities(user: SandboxUser) -> list[str]:
    if user.namespace is None:
        return ["--cap-drop", "ALL"]
    needed = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_DAC_READ_SEARCH")  # the last to enter a 0700 folder
    return ["--cap-drop", "ALL", *(word for name in needed for word in ("--cap-add", name))]


def _become(user: SandboxUser) -> list[str]:
    """Under a root worker: leave uid 0 for good before the command starts."""
    if user.namespace is None:
        return []
    ids = ["--reuid", str(INSIDE_UID), "--regid", str(INSIDE_UID), "--clear-groups"]
    return ["/usr/bin/setpriv", *ids, "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--no-new-privs"]


def _limited(limits: Limits) -> list[str]:
    figures = {
        "cpu": limits.cpu_s,
        "as": limits.address_space_bytes,
        "fsize": limits.largest_file_bytes,
        "nofile": limits.open_files,
        "nproc": limits.processes,
        "core": 0,
    }
    words = [f"--{name}={value}:{value + (name == 'cpu')}" for name, value in figures.items()]
    return ["/usr/bin/prlimit", *words, "--"]  # a second before the end the kernel says that it is processor time
