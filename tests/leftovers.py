"""Runs that are killed leave nothing behind: their processes die with them, the next run clears their folders.

A folder names the process that made it. It is cleared when that process is proven to be gone, and only then.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from loops.storage import owners

PLACE = Path("/tmp")  # short: socket paths are limited
OWNER = "owner"
PR_SET_PDEATHSIG = 1
IPC_RMID = 0
SEGMENTS = Path("/proc/sysvipc/shm")
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


@contextlib.contextmanager
def state_folder(prefix: str) -> Iterator[Path]:
    """A state folder of this run's own, and the end of those that killed runs left."""
    clear(prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=PLACE))
    folder.chmod(0o711)
    (folder / OWNER).write_text(owners.me())
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clear(prefix: str) -> list[Path]:
    """Folders of that name whose owner is proven to be dead: what still runs on them is ended, then they go."""
    dead = [folder for folder in PLACE.glob(f"{prefix}*") if _is_left_behind(folder)]
    for folder in dead:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("AGENTOPS_STATE") == str(folder):
                    process.kill()
        for mounted in _mounts_beneath(folder):
            subprocess.run(["umount", "-l", mounted], check=False)
        for server in folder.glob("*/postmaster.pid"):
            _let_go_of_memory(server)
        shutil.rmtree(folder, ignore_errors=True)
    return dead


def die_with_parent() -> None:
    """This process is killed when the one that started it is gone, even while it is frozen."""
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))


def tied() -> Callable[[], None]:
    """For ``Popen(preexec_fn=...)``: the child is killed when this process is gone."""
    parent = os.getpid()

    def child() -> None:
        die_with_parent()
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)

    return child


def end_on_sigterm() -> None:
    """Told to end, this process clears up as it does at its end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def _is_left_behind(folder: Path) -> bool:
    try:
        return folder.stat().st_uid == os.getuid() and owners.is_dead((folder / OWNER).read_text())
    except OSError:
        return False


def _let_go_of_memory(server: Path) -> None:
    """Postgres takes a segment of shared memory to tell whether it runs, and notes key and number on line 7. Killed, it
    leaves it to the machine."""
    with contextlib.suppress(OSError, IndexError):
        noted = server.read_text().splitlines()[6].split()
        if _libc is not None and noted in [line.split()[:2] for line in SEGMENTS.read_text().splitlines()]:
            _libc.shmctl(int(noted[1]), IPC_RMID, None)


def _mounts_beneath(folder: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines() if _libc is not None else []
    return [place for place in (line.split()[1] for line in lines) if place.startswith(f"{folder}/")]
