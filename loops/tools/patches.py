"""Changed files as a patch that git applies: contents, binary files, links, moves, and what makes a file a program."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping

import pygit2
from pygit2.enums import ConfigLevel, DeltaStatus, DiffOption

from loops.engine.rollback.plan import FileChange
from loops.tools.snapshots import FOLDER, NOTHING, hash_of

_FILE, _PROGRAM, _LINK = 0o100644, 0o100755, 0o120000
for _level in (ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL):
    pygit2.settings.search_path[_level] = ""  # what somebody set for git on this machine changes no patch


def fits(state: str) -> bool:
    """Can git tell it? Folders come with what lies in them; what is no file, and whose bytes were not kept, cannot."""
    return state in (NOTHING, FOLDER) or bool(hash_of(state)) or state.startswith("link:")


def patch(changes: Iterable[FileChange], bytes_of: Mapping[str, bytes]) -> bytes:
    """From the states before to those after, as ``git diff --binary -M`` has it; b"" where git sees no difference.

    ``bytes_of`` has the bytes of each file by their SHA-256; all states fit.
    """
    listed = list(changes)
    with tempfile.TemporaryDirectory(prefix="agentops-patch-") as folder:
        repository = pygit2.init_repository(folder, bare=True)
        before = _tree(repository, {one.path: one.before for one in listed}, bytes_of)
        after = _tree(repository, {one.path: one.after for one in listed}, bytes_of)
        diff = repository.diff(before, after, flags=DiffOption.SHOW_BINARY)
        diff.find_similar()
        return b"".join(one.data for one in sorted(diff, key=_place))


def _place(one: pygit2.Patch) -> tuple[str, bool]:
    """By path; what goes from one comes before what takes its place, or git would not find it as it was."""
    return one.delta.new_file.path, one.delta.status != DeltaStatus.DELETED


def _tree(repository: pygit2.Repository, states: Mapping[str, str], bytes_of: Mapping[str, bytes]) -> pygit2.Tree:
    index = pygit2.Index()
    for path, state in states.items():
        if state not in (NOTHING, FOLDER):
            mode, body = _entry(state, bytes_of)
            index.add(pygit2.IndexEntry(path, repository.create_blob(body), mode))
    return repository[index.write_tree(repository)]


def _entry(state: str, bytes_of: Mapping[str, bytes]) -> tuple[int, bytes]:
    if not hash_of(state):
        return _LINK, os.fsencode(state.removeprefix("link:"))
    is_program = int(state.split(":")[1], 8) & 0o100
    return _PROGRAM if is_program else _FILE, bytes_of[hash_of(state)]
