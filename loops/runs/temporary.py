"""The temporary folder of a worker, named by its process: what one that was killed left there goes when the next one
begins (SPEC J4)."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

from loops.storage import owners

_PREFIX = "agentops-worker-"
_MODE = 0o711
"""The user of the sandbox passes through to the folders that are given to commands."""


def begin() -> None:
    """Whatever this process puts among temporary files lies in a folder of its own from now on."""
    clear()
    _, pid, _, boot, namespace, birth, _ = owners.me().rsplit(":", 6)
    folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{pid}-{boot}-{namespace}-{birth}-")
    Path(folder).chmod(_MODE)
    tempfile.tempdir = folder


def end() -> None:
    """The worker ends as it should."""
    if tempfile.tempdir and Path(tempfile.tempdir).name.startswith(_PREFIX):
        shutil.rmtree(tempfile.tempdir, ignore_errors=True)
        tempfile.tempdir = None


def clear() -> int:
    """Take away the folders of workers that are proven to be gone; how many."""
    gone = [folder for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*") if _is_left(folder)]
    for folder in gone:
        shutil.rmtree(folder, ignore_errors=True)
    return len(gone)


def _is_left(folder: Path) -> bool:
    """Not where the name says less, and not what somebody else called so."""
    with suppress(ValueError, OSError):
        pid, boot, namespace, birth, _ = folder.name.removeprefix(_PREFIX).split("-", 4)
        owner = ":".join((socket.gethostname(), pid, "0", boot, namespace, birth))
        return folder.lstat().st_uid == os.geteuid() and owners.is_dead(owner)
    return False
