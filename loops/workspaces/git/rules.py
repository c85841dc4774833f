"""What git would leave out (.gitignore), and what it would pass through programs (.gitattributes), by libgit2.

The rules are those of the work tree, as the run left them where it changed them. libgit2 reads them in a folder of ours
with nothing else in it, so neither settings nor programs of the repository are in reach.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import pygit2

import loops.tools.patches  # noqa: F401 - which keeps settings of the machine away from libgit2
from loops.workspaces.git.repository import Repository

MOST_BYTES = 64 * 1024
"""Of one file of rules: what is beyond is read by nobody here."""
MOST_STARS = 3
"""Double stars in one rule: each more multiplies what a match costs."""
IGNORE, ATTRIBUTES = ".gitignore", ".gitattributes"
_OWN = {".git/info/exclude": "info/exclude", ".git/info/attributes": "info/attributes"}
_PROGRAMS = ("filter", "working-tree-encoding")


class Rules:
    """Of one work tree; ``of`` makes it."""

    def __init__(self, repository: pygit2.Repository) -> None:
        self._repository = repository

    def ignores(self, path: str) -> bool:
        """Does git leave it out while it is in no commit?"""
        return bool(self._repository.path_is_ignored(path))

    def converts(self, path: str) -> str:
        """The attribute by which git would keep something else than the file's bytes, or ""."""
        for name in _PROGRAMS:
            if isinstance(value := self._repository.get_attr(path, name), str):
                return f"{name}={value}"
        return ""


@contextmanager
def of(repository: Repository, paths: Iterable[str], left: Mapping[str, bytes]) -> Iterator[Rules]:
    """Those that say something about ``paths``. ``left``: files of rules as the run left them, by path."""
    folders = {parent for path in paths for parent in PurePosixPath(path).parents}
    with tempfile.TemporaryDirectory(prefix="agentops-rules-") as place:
        throwaway = pygit2.init_repository(place)
        for source, name in _OWN.items():
            _write(Path(place, ".git", name), repository.texts(source, MOST_BYTES))
        for path in (str(folder / name) for folder in folders for name in (IGNORE, ATTRIBUTES)):
            text = os.fsdecode(left[path]) if path in left else repository.texts(path, MOST_BYTES)
            if text:
                _write(Path(place, path), text[:MOST_BYTES])
        yield Rules(throwaway)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = (line for line in text.split("\n") if line.count("**") <= MOST_STARS)
    path.write_bytes(os.fsencode("\n".join(kept)))
