"""Who a sandboxed command is, for the kernel (SPEC I7).

An ordinary worker maps itself to 65534 inside. A root worker must not: uid 0 would stay real root outside, and root
is exempt from the process limit. So a root worker prepares a user namespace with two ids (0 for bwrap's own set-up,
65534 for the command, which outside is an id that owns nothing else), and gives the folder that AgentOps made for the
run to that id. A folder of people stays theirs: they let the id in, or its commands cannot work there.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from loops.tools.sandbox.safe_paths import SafeDirectory

INSIDE_UID = 65534
OUTSIDE_UID = 62534
"""The host's id of sandboxed commands under a root worker; must fit a container's usual 65,536 ids."""

_PREPARE = """
import ctypes, sys
if ctypes.CDLL(None).unshare(0x10000000): sys.exit(1)
print("unshared", flush=True); sys.stdin.readline()
open("/proc/sys/user/max_user_namespaces", "w").write("0")
print("ready", flush=True); sys.stdin.readline()
"""


class NoUserNamespace(Exception):
    """This machine does not let the worker make user namespaces; the message is the kernel's reason."""


@dataclass(frozen=True, slots=True)
class SandboxUser:
    """``namespace`` is a descriptor for ``bwrap --userns``, the caller's to close, None for an ordinary worker;
    ``owner`` is (uid, gid) for files that the worker makes in a workspace, None when they belong to the right user."""

    namespace: int | None = None
    owner: tuple[int, int] | None = None


def sandbox_user() -> SandboxUser:
    """The scheme for one command of this worker. Raises NoUserNamespace.

    Each has a namespace of its own: the kernel counts processes by namespace and user, so that in one that all commands
    share, one project's processes would be the other's limit.
    """
    if os.geteuid() != 0:
        return SandboxUser()
    return SandboxUser(_make_namespace(), (OUTSIDE_UID, OUTSIDE_UID))


def file_owner() -> tuple[int, int] | None:
    """(uid, gid) for files that file tools make, without needing a working sandbox."""
    return (OUTSIDE_UID, OUTSIDE_UID) if os.geteuid() == 0 else None


def _make_namespace() -> int:
    """A descriptor of it; further namespaces inside are forbidden."""
    command = [sys.executable, "-ISc", _PREPARE]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env={}) as helper:
        try:
            _expect(helper, "unshared")
            for table in ("uid_map", "gid_map"):
                with open(f"/proc/{helper.pid}/{table}", "w") as file:
                    file.write(f"0 0 1\n{INSIDE_UID} {OUTSIDE_UID} 1\n")
            _say(helper)
            _expect(helper, "ready")
            return os.open(f"/proc/{helper.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise NoUserNamespace(f"no user namespace with two ids: {error}") from error
        finally:
            with suppress(OSError):
                _say(helper)


def _expect(helper: subprocess.Popen[str], word: str) -> None:
    assert helper.stdout is not None
    if helper.stdout.readline().strip() != word:
        raise OSError(f"the kernel refused before {word!r}")


def _say(helper: subprocess.Popen[str]) -> None:
    assert helper.stdin is not None
    helper.stdin.write("\n")
    helper.stdin.flush()


def give_tree(root: SafeDirectory, owner: tuple[int, int]) -> None:
    """Give a workspace that AgentOps made, and all in it, to ``owner``, links not followed; only what is not theirs yet
    is touched, and never what has another name elsewhere."""
    if os.fstat(root.fd).st_uid != owner[0]:
        os.fchown(root.fd, *owner)
    for _, directories, files, directory in os.fwalk(".", dir_fd=root.fd, follow_symlinks=False):
        _give(directory, (*directories, *files), owner)


def _give(directory: int, names: Iterable[str], owner: tuple[int, int]) -> None:
    for name in names:
        with suppress(FileNotFoundError):
            descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
            try:
                found = os.fstat(descriptor)
                if found.st_uid != owner[0] and (stat.S_ISDIR(found.st_mode) or found.st_nlink == 1):
                    os.chown(f"/proc/self/fd/{descriptor}", *owner)  # itself, were it a link
            finally:
                os.close(descriptor)
