"""What lies in a person's folder, by everything that they could notice: contents, owner, mode, when it was changed."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

Look = Mapping[str, "Entry"]
OURS = (".git/objects", ".git/refs/heads/agentops")
"""Where a commit may add something, and takes nothing away."""


@dataclass(frozen=True, slots=True)
class Entry:
    """``holds`` is the hash of a file, the target of a link, or "" for a folder."""

    mode: int
    owner: tuple[int, int]
    holds: str
    changed_ns: int

    @property
    def lasting(self) -> Entry:
        """Without the moment."""
        return replace(self, changed_ns=0)


def look(folder: Path) -> dict[str, Entry]:
    """All that is in it, and itself as "."."""
    return {str(path.relative_to(folder)): _entry(path) for path in (folder, *sorted(folder.rglob("*")))}


def _entry(path: Path) -> Entry:
    found, holds = path.lstat(), ""
    if stat.S_ISLNK(found.st_mode):
        holds = str(path.readlink())
    elif stat.S_ISREG(found.st_mode):
        holds = hashlib.sha256(path.read_bytes()).hexdigest()
    return Entry(found.st_mode, (found.st_uid, found.st_gid), holds, found.st_mtime_ns)


def differing(before: Look, now: Look) -> list[str]:
    """Paths that are not as they were, the moment of their last change included."""
    return sorted(path for path in {*before, *now} if before.get(path) != now.get(path))


def without(found: Look, places: Iterable[str]) -> dict[str, Entry]:
    """But for what lies there, and the moment of the folder in which it does."""
    places = tuple(places)
    above = {str(Path(place).parent) for place in places}
    rest = {path: entry for path, entry in found.items() if not path.startswith(places)}
    return {path: entry.lasting if path in above else entry for path, entry in rest.items()}


def halves(before: Look, whole: Look, now: Look) -> list[str]:
    """Paths that are neither as they were nor as they shall be. What nobody is to touch keeps its moment; folders have
    that of their latest change."""
    odd = []
    for path in sorted({*before, *whole, *now}):
        was, shall, found = before.get(path), whole.get(path), now.get(path)
        is_touched = was != shall or (found is not None and stat.S_ISDIR(found.mode))
        either = [entry and entry.lasting for entry in (was, shall)] if is_touched else [was]
        if (found.lasting if found and is_touched else found) not in either:
            odd.append(path)
    return odd


def is_whole(whole: Look, now: Look) -> bool:
    return {path: entry.lasting for path, entry in whole.items()} == {
        path: entry.lasting for path, entry in now.items()
    }


def git(folder: Path, *words: str) -> str:
    """As the person of the folder, whoever that is for the system."""
    person = ("-c", "safe.directory=*", "-c", "user.name=Ana", "-c", "user.email=ana@example.com")
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    environment |= {"GIT_OPTIONAL_LOCKS": "0"}
    done = subprocess.run(
        ["git", *person, "-c", "init.defaultBranch=main", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout if not done.returncode else f"{done.stdout}{done.stderr}").strip()
