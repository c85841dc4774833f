"""The words for bwrap: what a command sees of the world, and nothing else (SPEC I7, RELIABILITY 4)."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from loops.tools.limits import MIB, Limits
from loops.tools.sandbox.seccomp import filter_bytes
from loops.tools.sandbox.user import INSIDE_UID, SandboxUser

WORKSPACE = "/workspace"
REPORT = "/report"
_HOME = "/home/agent"
_TMP = "/tmp"  # noqa: S108  # the sandbox's own, a tmpfs of a fixed size
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  # as well
_SYSTEM = ("/usr", "/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime")
_LINKS = ("bin", "sbin", "lib", "lib64")
_IGNORED = "/etc/gitignore"
_DATA = {
    "/etc/passwd": f"root:x:0:0::/:/bin/false\nagent:x:{INSIDE_UID}:{INSIDE_UID}::{_HOME}:/bin/bash\n",
    "/etc/group": f"root:x:0:\nagent:x:{INSIDE_UID}:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
_NEVER_PASSED = ("LD_", "PYTHON", "GIT_", "BASH_", "PERL5", "RUBY", "NODE_", "DYLD_", "GLIBC_", "MALLOC_", "PYTEST_")
_NEVER_PASSED_NAMES = frozenset({"PATH", "ENV", "IFS", "HOME", "SHELL", "SHELLOPTS", "PS4", "PROMPT_COMMAND", "TMPDIR"})


@dataclass(frozen=True, slots=True)
class Sandboxed:
    """One command to run. ``argv`` is run as it is, without a shell; ``workspace`` is an absolute real path.

    ``sealed`` are bytes that replace workspace files for this command (relative path -> bytes): what was approved is
    what runs. ``report`` is a host folder that becomes writable as /report.
    """

    argv: tuple[str, ...]
    workspace: str
    directory: str = "."
    environment: Mapping[str, str] = field(default_factory=dict)
    binds: Sequence[str] = ()
    masks: Sequence[str] = ()
    sealed: Mapping[str, bytes] = field(default_factory=dict)
    report: str = ""


@dataclass(slots=True)
class Prepared:
    """A command line and the descriptors that it needs; ``close`` them once the process has started."""

    argv: list[str]
    descriptors: list[int]
    kept: list[int] = field(default_factory=list)
    """Descriptors that outlive the command: passed on, never closed here."""

    def close(self) -> None:
        for descriptor in self.descriptors:
            with suppress(OSError):
                os.close(descriptor)
        self.descriptors = []


def bwrap_path() -> str:
    """The system's bwrap (Ubuntu grants user namespaces to that path only), "" when there is none."""
    return "/usr/bin/bwrap" if os.access("/usr/bin/bwrap", os.X_OK) else shutil.which("bwrap") or ""


def interpreter_paths() -> list[str]:
    """Where the worker's own Python and its packages are, outside /usr, readable by bwrap."""
    wanted = dict.fromkeys(os.path.realpath(path) for path in (sys.base_prefix, sys.prefix))
    return [path for path in wanted if not path.startswith("/usr") and os.access(path, os.R_OK | os.X_OK)]


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a command: fixed names plus the project's allow-list, less names that run code."""
    python = os.path.join(os.path.realpath(sys.prefix), "bin")
    fixed = {
        "PATH": f"{python}:/usr/local/bin:/usr/bin:/bin",
        "HOME": _HOME,
        "TMPDIR": _TMP,
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TEMPLATE_DIR": "",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.excludesFile",
        "GIT_CONFIG_VALUE_0": _IGNORED,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": "agent",
        "GIT_AUTHOR_EMAIL": "agent@localhost",
        "GIT_COMMITTER_NAME": "agent",
        "GIT_COMMITTER_EMAIL": "agent@localhost",
    }
    return {name: value for name, value in extra.items() if passable(name) and "\0" not in value} | fixed


def passable(name: str) -> bool:
    """False for names by which an environment runs code or changes what a command means."""
    plain = name.isascii() and name.replace("_", "a").isalnum()
    return plain and name not in _NEVER_PASSED_NAMES and not name.startswith(_NEVER_PASSED)


def prepare(command: Sandboxed, user: SandboxUser, limits: Limits, inner: Mapping[str, str]) -> Prepared:
    """Build the command line. ``inner`` is the environment inside. Options travel through a pipe, not in ``ps``."""
    prepared = Prepared([], [])
    try:
        options = [*_namespaces(user, prepared), *_system(prepared, limits), *_interpreter(), *_places(command)]
        options += [*_sealed(command, prepared), *_ignored(command, prepared)]
        options += [*_finish(command, inner), *_seccomp(prepared), *_capabilities(user)]
        arguments = _pipe("\0".join(options).encode() + b"\0", prepared)
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
    prepared.kept.append(user.namespace)
    return ["--userns", str(user.namespace), *parts]


def _system(prepared: Prepared, limits: Limits) -> Iterator[str]:
    yield from ("--perms", "0755", "--dir", "/etc")
    for path in _SYSTEM:
        if os.path.exists(path):
            yield from ("--ro-bind", path, path)
    for name in _LINKS:
        if os.path.islink(f"/{name}"):
            yield from ("--symlink", os.readlink(f"/{name}"), f"/{name}")
        elif os.path.isdir(f"/{name}"):
            yield from ("--ro-bind", f"/{name}", f"/{name}")
    for path, text in _DATA.items():
        yield from ("--perms", "0444", "--ro-bind-data", str(_pipe(text.encode(), prepared)), path)
    yield from ("--proc", "/proc", "--dev", "/dev")
    for path in (_TMP, _HOME, _SHARED_MEMORY):
        size = limits.tmp_bytes if path == _TMP else min(limits.tmp_bytes, 64 * MIB)
        yield from ("--perms", "1777", "--size", str(size), "--tmpfs", path)
    yield from ("--remount-ro", "/dev")


def _interpreter() -> Iterator[str]:
    """bwrap would copy the mode of folders above a mount; 0755 lets the sandbox's user pass through /root."""
    for path in interpreter_paths():
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts)):
            yield from ("--perms", "0755", "--dir", "/" + "/".join(parts[:depth]))
        yield from ("--ro-bind", path, path)


def _places(command: Sandboxed) -> Iterator[str]:
    yield from ("--bind", command.workspace, WORKSPACE)
    for path in command.binds:
        yield from ("--ro-bind", f"{command.workspace}/{path}", f"{WORKSPACE}/{path}")
    for path in command.masks:
        yield from ("--ro-bind", "/dev/null", f"{WORKSPACE}/{path}")
    if command.report:
        yield from ("--bind", command.report, REPORT)


def _sealed(command: Sandboxed, prepared: Prepared) -> list[str]:
    words: list[str] = []
    for path, data in command.sealed.items():
        words += ["--perms", "0555", "--ro-bind-data", str(_memory(data, prepared)), f"{WORKSPACE}/{path}"]
    return words


def _ignored(command: Sandboxed, prepared: Prepared) -> list[str]:
    """git would trip over the placeholders of masked paths."""
    lines = "".join(f"/{path}\n" for path in command.masks)
    return ["--perms", "0444", "--ro-bind-data", str(_pipe(lines.encode(), prepared)), _IGNORED]


def _finish(command: Sandboxed, inner: Mapping[str, str]) -> Iterator[str]:
    for name, value in inner.items():
        yield from ("--setenv", name, value)
    yield from ("--remount-ro", "/", "--chdir", os.path.normpath(f"{WORKSPACE}/{command.directory}"))


def _seccomp(prepared: Prepared) -> list[str]:
    program = filter_bytes()
    return ["--seccomp", str(_pipe(program, prepared))] if program else []


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
    return ["/usr/bin/prlimit", *(f"--{name}={value}:{value}" for name, value in figures.items()), "--"]


def _pipe(data: bytes, prepared: Prepared) -> int:
    """A descriptor that yields ``data`` once; short data goes through a pipe, longer through memory."""
    if len(data) > 32_768:
        return _memory(data, prepared)
    reading, writing = os.pipe()
    prepared.descriptors.append(reading)
    os.write(writing, data)
    os.close(writing)
    return reading


def _memory(data: bytes, prepared: Prepared) -> int:
    descriptor = os.memfd_create("sandbox", os.MFD_CLOEXEC)
    prepared.descriptors.append(descriptor)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
