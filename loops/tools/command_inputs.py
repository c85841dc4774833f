"""What a command obeys besides its words: the workspace as it stands, which its approval binds (SPEC Q5).

Which files a program reads cannot be told from its name, so all of them count: contents and modes of what lies in the
workspace, of what configures git and its submodules, and of branches; names, sizes, times and modes of installed
packages and of compiled Python.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from loops.engine.encoding import canonical
from loops.engine.values import Json
from loops.tools import snapshots
from loops.tools.output import clean_text, sha256_hex
from loops.tools.registry import ReadBlob, ToolRun
from loops.tools.sandbox.safe_paths import PathRefused
from loops.tools.workspace import SKIPPED, Workspace

MOST_INSTALLED = 20_000
"""Files in folders of packages and caches that are looked at; with more of them none is bound, and the card says so."""

NOT_LOOKED_AT = "programs and libraries outside the workspace; what git keeps besides settings, hooks and branches"
_OF_GIT = frozenset({"config", "config.worktree", "HEAD", "packed-refs", "commondir", "gitdir"})
_OF_GIT |= {"git-rebase-todo", "strategy", "opts"}
_INFO = ("info/attributes", "info/exclude")
_STORES = frozenset({"objects", "logs", "lfs"})
_NAMED = 10
"""Changed files that are named."""


@dataclass(frozen=True, slots=True)
class CommandInputs:
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


def whole(workspace: Workspace) -> str:
    """SHA-256 that a binding would have now; "" where not all of the workspace was looked at."""
    stands = look(workspace)
    return sha256_hex(stands.body) if stands.uncovered == (NOT_LOOKED_AT,) else ""


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


def look(workspace: Workspace) -> CommandInputs:
    """The workspace as a command would find it now. Raises PathRefused or OSError where it cannot be looked at."""
    try:
        states = snapshots.take(workspace).states
    except snapshots.TooLarge as why:
        return CommandInputs({}, (f"the files of the workspace: {why}", NOT_LOOKED_AT))
    installed: dict[str, list[str]] = {}
    count, unseen = 0, list[str]()
    for folder, path, status in _everything(workspace, unseen.append):
        if not folder:
            states |= _more(path, status, states.get(path) or _named_like_one(workspace, path))
            continue
        count += 1
        if count > MOST_INSTALLED:
            return CommandInputs(
                states, (f"installed packages and caches: more than {MOST_INSTALLED:,} files", NOT_LOOKED_AT)
            )
        if folder.endswith(".git"):
            states[path] = snapshots.state_of(workspace, path)
        else:
            installed.setdefault(folder, []).append(f"{path}\0{_signature(status)}")
    whole = {folder: f"installed:{sha256_hex(os.fsencode(chr(10).join(found)))}" for folder, found in installed.items()}
    uncovered = [f"folders that cannot be looked into: {clean_text(', '.join(in_words(unseen)))}"] if unseen else []
    bound = {clean_text(path): state for path, state in states.items()} | whole
    return CommandInputs(bound, (*uncovered, NOT_LOOKED_AT))


def _more(path: str, status: os.stat_result, state: str) -> dict[str, str]:
    """What an approval binds beyond the state that undoing goes by: who may enter a folder, and, of a file that is too
    large to be read or has a name that no tool accepts, that it was not written to. What holds the place of a protected
    file while a command runs is nothing."""
    if stat.S_ISDIR(status.st_mode):
        return {path: f"{snapshots.FOLDER}:{stat.S_IMODE(status.st_mode):o}"}
    if state == snapshots.OTHER:
        named = f"{clean_text(path)} {sha256_hex(os.fsencode(path))[:12]}"  # two of them may read the same
        return {named: f"{state}:{_signature(status)}"}
    if state == snapshots.NOTHING:
        return {}
    return {path: f"{state}:{status.st_ctime_ns}" if state.startswith("large:") else state}


def _named_like_one(workspace: Workspace, path: str) -> str:
    """The state of a link or a file that has the name of a folder which snapshots leave out, such as `.venv`."""
    try:
        return snapshots.state_of(workspace, path)
    except (PathRefused, OSError):
        return snapshots.OTHER


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


def _everything(workspace: Workspace, unseen: Callable[[str], None]) -> Iterator[tuple[str, str, os.stat_result]]:
    """(folder that a snapshot leaves out, or "", path, status), without what git keeps for itself."""
    for path, status in workspace.walk(hidden=True, unseen=unseen):
        parts = path.split("/")
        at = next((at for at, part in enumerate(parts[:-1]) if part in SKIPPED), None)
        if at is None and parts[-1] in SKIPPED - {".git"} and stat.S_ISDIR(status.st_mode):
            yield path, path, status
        elif at is None:
            yield "", path, status
        elif parts[at] == ".git" and (stat.S_ISDIR(status.st_mode) or not _configures(parts[at + 1 :])):
            continue
        else:
            yield "/".join(parts[: at + 1]), path, status


def _configures(parts: Sequence[str]) -> bool:
    """Does git, or a submodule of it, go by this file of its folder?"""
    if "refs" in parts[:-1]:
        return True
    if _STORES & set(parts[:-1]):
        return False
    hook = "hooks" in parts[:-1] and not parts[-1].endswith(".sample")
    return hook or parts[-1] in _OF_GIT or "/".join(parts[-2:]) in _INFO


def _signature(status: os.stat_result) -> str:
    if stat.S_ISDIR(status.st_mode):
        return f"{status.st_mode:o}"
    return f"{status.st_mode:o}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"
