"""What a command obeys besides its words: the workspace as it stands, which its approval binds (SPEC Q5).

Which files a program reads cannot be told from its name, so all of them count: contents of what lies in the workspace
and of what configures git, and names, sizes, times and modes of installed packages and of compiled Python.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loops.engine import canonical
from loops.engine.values import Json
from loops.tools import snapshots
from loops.tools.clean import clean_text, sha256_hex
from loops.tools.registry import ReadBlob, ToolRun
from loops.tools.workspace import SKIPPED, Workspace

MOST_INSTALLED = 20_000
"""Files in folders of packages and caches that are looked at; with more of them none is bound, and the card says so."""

NOT_LOOKED_AT = "programs and libraries outside the workspace"
_IDLE = frozenset({".mypy_cache", ".pytest_cache", ".ruff_cache"})
"""Caches of tools that execute nothing from them."""
_OF_GIT = ("config", "config.worktree", "info/attributes", "info/exclude", "HEAD")
_HOOKS = "hooks/"
_NAMED = 10
"""Changed files that are named."""


@dataclass(frozen=True, slots=True)
class Obeyed:
    """``states`` by path; ``uncovered`` says in words what they do not reach."""

    states: Mapping[str, str]
    uncovered: tuple[str, ...]

    @property
    def body(self) -> bytes:
        """Canonical JSON, the same for the same workspace."""
        return canonical.encode(dict(self.states))


def binding(run: ToolRun) -> dict[str, Json]:
    """The part of a subject that binds the workspace. Its list is kept, so that what changes later can be named."""
    stands = look(run.workspace)
    sha256 = run.save_blob(stands.body)
    return {"workspace": {"sha256": sha256, "files": len(stands.states), "uncovered": list(stands.uncovered)}}


def shown(subject: Mapping[str, Json]) -> dict[str, Json]:
    """What a card says of ``subject``'s binding; nothing where there is none."""
    return {"covers": subject["workspace"]} if "workspace" in subject else {}


def changed(bound: Mapping[str, Json], run: ToolRun) -> list[str]:
    """What a command would obey and is not any more as it was approved; nothing for what binds no workspace."""
    approved = bound.get("workspace")
    if not isinstance(approved, dict):
        return []
    stands = look(run.workspace)
    if approved.get("sha256") == sha256_hex(stands.body):
        return []
    before = states_of(approved, run.read_blob)
    return in_words(differences(before, stands.states)) if before else ["the workspace"]


def look(workspace: Workspace) -> Obeyed:
    """The workspace as a command would find it now. Raises PathRefused or OSError where it cannot be looked at."""
    if why := snapshots.too_large(workspace):
        return Obeyed({}, (f"the files of the workspace: {why}", NOT_LOOKED_AT))
    states = dict(snapshots.take(workspace).states)
    installed: dict[str, list[str]] = {}
    for count, (folder, path, status) in enumerate(_hidden(workspace), 1):
        if count > MOST_INSTALLED:
            return Obeyed(states, (f"installed packages and caches: more than {MOST_INSTALLED:,} files", NOT_LOOKED_AT))
        if folder.endswith(".git"):
            states[path] = snapshots.state_of(workspace, path)
        else:
            installed.setdefault(folder, []).append(f"{path}\0{_signature(status)}")
    whole = {folder: f"installed:{sha256_hex(os.fsencode(chr(10).join(found)))}" for folder, found in installed.items()}
    return Obeyed({clean_text(path): state for path, state in states.items()} | whole, (NOT_LOOKED_AT,))


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Paths whose state differs, in order."""
    return sorted(path for path in {*before, *after} if before.get(path) != after.get(path))


def in_words(paths: Sequence[str]) -> list[str]:
    """The first few, and how many more."""
    more = len(paths) - _NAMED
    return [*paths[:_NAMED], *([f"and {more:,} more"] if more > 0 else [])]


def states_of(approved: Json, read: ReadBlob) -> dict[str, str]:
    """The list that a subject's ``workspace`` names; empty where it is not kept any more."""
    name = approved.get("sha256") if isinstance(approved, dict) else None
    try:
        return dict(canonical.decode(read(name))) if isinstance(name, str) else {}
    except (KeyError, ValueError):
        return {}


def _hidden(workspace: Workspace) -> Iterator[tuple[str, str, os.stat_result]]:
    """(folder that a snapshot leaves out, path in it, status), without what nothing is executed from."""
    for path, status in workspace.walk(hidden=True):
        parts = path.split("/")
        at = next((at for at, part in enumerate(parts[:-1]) if part in SKIPPED), None)
        if at is None or parts[at] in _IDLE or stat.S_ISDIR(status.st_mode):
            continue
        if parts[at] != ".git" or _configures("/".join(parts[at + 1 :])):
            yield "/".join(parts[: at + 1]), path, status


def _configures(path: str) -> bool:
    return path in _OF_GIT or (path.startswith(_HOOKS) and not path.endswith(".sample"))


def _signature(status: os.stat_result) -> str:
    return f"{status.st_mode:o}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"
