"""What git would leave out (.gitignore), and what it would pass through programs (.gitattributes).

The rules are those of the work tree, as the run left them where it changed them. Attributes are read by libgit2 in a
folder of ours with nothing else in it, so neither settings nor programs of the repository are in reach.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import pygit2

import loops.tools.patches  # noqa: F401 - which keeps settings of the machine away from libgit2
from loops.tools.git_ignore import EXCLUDE, IGNORE, MOST_BYTES, GitIgnore, TooLong
from loops.workspaces.git.repository import Repository, Unusable

MOST_STARS = 3
"""Double stars in one rule for attributes: each more multiplies what a match costs."""
LONGEST_S = 20.0
"""That all rules of .gitignore may take for the paths of one commit."""
TOO_LONG = "The rules of .gitignore take too long to be asked. Take the patch."
ATTRIBUTES = ".gitattributes"
FILES = (IGNORE, ATTRIBUTES)
_OWN_ATTRIBUTES = ".git/info/attributes"
_PROGRAMS = ("filter", "working-tree-encoding")


class Rules:
    """Of one work tree; ``of`` makes it."""

    def __init__(self, git_ignore: GitIgnore, attributes: pygit2.Repository) -> None:
        self._git_ignore, self._attributes = git_ignore, attributes

    def ignores(self, path: str) -> bool:
        """Does git leave it out while it is in no commit? Raises Unusable."""
        try:
            return self._git_ignore.ignores(path)
        except TooLong as error:
            raise Unusable(TOO_LONG) from error

    def converts(self, path: str) -> str:
        """The attribute by which git would keep something else than the file's bytes, or ""."""
        for name in _PROGRAMS:
            if isinstance(value := self._attributes.get_attr(path, name), str):
                return f"{name}={value}"
        return ""


@contextmanager
def of(repository: Repository, paths: Iterable[str], left: Mapping[str, bytes]) -> Iterator[Rules]:
    """Those that say something about ``paths``. ``left``: files of rules as the run left them, by path."""

    def read(path: str) -> bytes:
        data = left[path] if path in left else os.fsencode(repository.texts(path, MOST_BYTES))
        if len(data) > MOST_BYTES:
            raise TooLong(path)
        return data

    folders = {parent for path in paths for parent in PurePosixPath(path).parents}
    with tempfile.TemporaryDirectory(prefix="agentops-rules-") as place:
        throwaway = pygit2.init_repository(place)
        _write(Path(place, _OWN_ATTRIBUTES), repository.texts(_OWN_ATTRIBUTES, MOST_BYTES))
        for path in (str(folder / ATTRIBUTES) for folder in folders):
            text = os.fsdecode(left[path]) if path in left else repository.texts(path, MOST_BYTES)
            if text:
                _write(Path(place, path), text[:MOST_BYTES])
        yield Rules(GitIgnore(read, seconds=LONGEST_S), throwaway)


def files_about(paths: Iterable[str]) -> set[str]:
    """Those that may say something about ``paths``, there or not."""
    folders = {parent for path in paths for parent in PurePosixPath(path).parents}
    return {EXCLUDE, _OWN_ATTRIBUTES, *(str(folder / name) for folder in folders for name in FILES)}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = (line for line in text.split("\n") if line.count("**") <= MOST_STARS)
    path.write_bytes(os.fsencode("\n".join(kept)))
