"""One child process: started in its own session, and never outliving its parent."""

import ctypes
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from agentops.embedded.children import environment
from agentops.embedded.paths import BASE_DIR, SANDBOXED

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True)
class Command:
    """What to run and how to end it."""

    name: str
    argv: Sequence[str | Path]
    stop_signal: signal.Signals = signal.SIGTERM
    unprivileged: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)
    before: Callable[[], None] | None = None
    user: tuple[int, int] | None = None


def start(command: Command, output: int | IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a command. Ctrl-C in the terminal reaches only the supervisor, which ends its children in order."""
    if command.before:
        command.before()
    user, group = command.user or (None, None)
    return subprocess.Popen(
        [str(part) for part in command.argv],
        cwd="/" if command.unprivileged else BASE_DIR,
        env={**environment(command.name), "PYTHONUNBUFFERED": "1", "LC_ALL": "C.UTF-8", **command.environ},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        user=user,
        group=group,
        extra_groups=[SANDBOXED] if command.user else None,
        preexec_fn=_detached(os.getpid(), command.stop_signal),  # runs after the change of user
    )


def nobody() -> tuple[int, int]:
    """User and group that own the embedded Postgres when we are root."""
    entry = pwd.getpwnam("nobody")
    return entry.pw_uid, entry.pw_gid


def stop(process: subprocess.Popen[bytes], with_signal: signal.Signals, patience: float = 15) -> None:
    """End a process politely, then not."""
    if process.poll() is not None:
        return
    process.send_signal(with_signal)
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _detached(parent: int, stop_signal: signal.Signals) -> Callable[[], None]:
    """Between fork and exec: leave the terminal's group; on Linux ask to be ended when the parent dies."""

    def child() -> None:
        os.setsid()
        if _libc is not None:
            _libc.prctl(PR_SET_PDEATHSIG, int(stop_signal))
            if os.getppid() != parent:  # it died before we asked
                os._exit(1)

    return child
