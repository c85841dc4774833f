"""What the user AgentOps runs as may do in a folder that people name, and what would let them (`docs/adr/0034`)."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path
from shlex import quote

from loops.tools.sandbox.namespaces.user import file_owner


def why_no_access(folder: Path, *, change: bool) -> str:
    """Why we cannot work in ``folder``, with what to type as its owner; "" when we can, or when it is not here."""
    for above in reversed(folder.parents):
        if above.is_dir() and not os.access(above, os.X_OK):
            let = f"`setfacl -m u:{_us()}:x {quote(str(above))}`"
            return f"AgentOps runs as {_us()}, who may not enter {above}, where {folder} lies: {let} lets them pass."
    if not folder.is_dir():
        return ""
    if not os.access(folder, os.R_OK | os.X_OK):
        return _refused(folder, "read", change)
    return _refused(folder, "write in", change) if change and not os.access(folder, os.W_OK) else ""


def why_unreadable(folder: Path, name: str) -> str:
    """The same for something inside that could not be copied."""
    return _refused(folder, f"read {name} in", change=False)


def why_no_access_for_commands(folder: Path) -> str:
    """The same for the commands of a worker that is root, who are somebody else: the folder is never given to them."""
    if (owner := file_owner()) is None or not folder.is_dir():
        return ""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:  # by its descriptor: the sandbox mounts it, so the folders above it do not matter
        words = ["/usr/bin/test", "-w", f"/proc/self/fd/{descriptor}"]
        ids = {"user": owner[0], "group": owner[1], "extra_groups": []}
        asked = subprocess.run(words, check=False, pass_fds=[descriptor], env={}, **ids)  # type: ignore[call-overload]
    finally:
        os.close(descriptor)
    if asked.returncode == 0:
        return ""
    acl = f"`setfacl -R -m u:{owner[0]}:rwX,d:u:{owner[0]}:rwX {quote(str(folder))}`"
    return f"Commands run as the user number {owner[0]}, who may not write in {folder}: {acl} lets them."


def _refused(folder: Path, what: str, change: bool) -> str:
    us, place, right = _us(), quote(str(folder)), "rwX" if change else "rX"
    acl = f"`setfacl -R -m u:{us}:{right},d:u:{us}:{right} {place}`"
    lets = f"`chown -R {us} {place}` lets them, and so does {acl} where it stays somebody else's"
    return f"AgentOps runs as {us}, who may not {what} {folder}: {lets}."


def _us() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
