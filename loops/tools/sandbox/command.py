"""What a command is, whichever sandbox runs it: its words, its folder, its environment (SPEC I7)."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from loops.tools.sandbox.programs import elsewhere
from loops.tools.sandbox.safe_paths import SafeDirectory
from loops.tools.test_sessions import reporters

WORKSPACE = "/workspace"
REPORT = "/report"
REPORTS = "AGENTOPS_REPORTS"
"""Names the folder for reports in the environment of a command that has one."""
HOME = "/home/agent"
TMP = "/tmp"  # noqa: S108  # the sandbox's own, of a fixed size
IGNORED = "/etc/gitignore"
TESTS = "/tests"
"""Where a command whose tests are reported finds the socket and the reporters."""
NETWORK = "/network"
"""Where a command that was granted some network finds the socket of its proxy."""
ENVIRONMENT = ".venv"
"""The workspace's own Python environment, where it has one: first on the path, and only a person changes it."""
_PROGRAMS = "/usr/local/bin:/usr/bin:/bin"
_PIPE = 32_768
_NEVER_PASSED = ("LD_", "PYTHON", "GIT_", "BASH_", "PERL5", "RUBY", "NODE_", "DYLD_", "GLIBC_", "MALLOC_", "PYTEST_")
_PASSED = frozenset({"NODE_ENV", "NODE_AUTH_TOKEN"})
_NEVER_PASSED_NAMES = frozenset({"PATH", "ENV", "IFS", "HOME", "SHELL", "SHELLOPTS", "PS4", "PROMPT_COMMAND", "TMPDIR"})


@dataclass(frozen=True, slots=True)
class Sandboxed:
    """One command to run. ``argv`` is run as it is, without a shell, in ``workspace`` as it was opened, whatever stands
    at its path by the time it starts.

    ``sealed`` are bytes that replace workspace files for this command (relative path -> bytes): what was approved is
    what runs. ``report`` is a host folder that becomes writable as /report, ``network`` one with the socket of a proxy,
    ``tests`` one with the socket for single tests.
    """

    argv: tuple[str, ...]
    workspace: SafeDirectory
    directory: str = "."
    environment: Mapping[str, str] = field(default_factory=dict)
    binds: Sequence[str] = ()
    masks: Sequence[str] = ()
    sealed: Mapping[str, bytes] = field(default_factory=dict)
    report: str = ""
    network: str = ""
    tests: str = ""


@dataclass(slots=True)
class Prepared:
    """A command line and the descriptors that it needs; ``close`` them once the process has started."""

    argv: list[str]
    descriptors: list[int]
    folders: dict[str, int] = field(default_factory=dict)
    """In memory, and of this command alone: path inside -> its size in bytes."""
    status_option: str = ""
    """Comes before the descriptor at which the first process is told; "" where the words end with the descriptor."""
    ended_by: int = signal.SIGKILL
    """Ends the first process, and with it every other one."""
    scratch: str = ""
    """A host folder of this command alone, gone with it."""

    def words(self, status: int) -> list[str]:
        """The whole command line, with the descriptor at which it tells of its first process."""
        if not self.status_option:
            return [*self.argv, str(status)]
        return [self.argv[0], self.status_option, str(status), *self.argv[1:]]

    def pipe(self, data: bytes) -> int:
        """A descriptor that yields ``data`` once; short data goes through a pipe, longer through memory."""
        if len(data) > _PIPE:
            return self.memory(data)
        reading, writing = os.pipe()
        self.descriptors.append(reading)
        os.write(writing, data)
        os.close(writing)
        return reading

    def copy(self, descriptor: int) -> int:
        """A descriptor of the same open file or folder, for the process."""
        self.descriptors.append(os.dup(descriptor))
        return self.descriptors[-1]

    def memory(self, data: bytes) -> int:
        """A descriptor of a file in memory with these bytes."""
        descriptor = os.memfd_create("sandbox", os.MFD_CLOEXEC)
        self.descriptors.append(descriptor)
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def close(self) -> None:
        for descriptor in self.descriptors:
            with suppress(OSError):
                os.close(descriptor)
        self.descriptors = []


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a command: fixed names plus those of its workspace, less names that run code."""
    return {name: value for name, value in extra.items() if passable(name) and "\0" not in value} | _fixed()


def _fixed() -> dict[str, str]:
    return {
        "PATH": ":".join((f"{WORKSPACE}/{ENVIRONMENT}/bin", _PROGRAMS, *_more_programs())),
        "HOME": HOME,
        "TMPDIR": TMP,
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TEMPLATE_DIR": "",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.excludesFile",
        "GIT_CONFIG_VALUE_0": IGNORED,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": "agent",
        "GIT_AUTHOR_EMAIL": "agent@localhost",
        "GIT_COMMITTER_NAME": "agent",
        "GIT_COMMITTER_EMAIL": "agent@localhost",
    }


def _more_programs() -> list[str]:
    return [f"{place}/bin"] if (place := elsewhere()) else []


def passable(name: str) -> bool:
    """False for names by which an environment runs code or changes what a command means."""
    if name in _PASSED:
        return True
    plain = name.isascii() and name.replace("_", "a").isalnum()
    return plain and name not in _NEVER_PASSED_NAMES and not name.startswith(_NEVER_PASSED)


def settable(name: str) -> bool:
    """May a person set it for the commands of a workspace: is it passed, and not set by the sandbox itself?"""
    return passable(name) and name not in {*_fixed(), REPORTS, *reporters.VARIABLES}
