"""The repository in a folder as what runs get copies of: the commit that a name stands for, and its objects (ADR 0068).

Both are read without git, by descriptors and through no link. Nothing there is written or locked.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loops.engine.text.truncation import shortened
from loops.printable.text import printable
from loops.runs.composition import roots
from loops.tools.sandbox.safe_paths import SafeDirectory
from loops.workspaces.folder_copy import Copy, WorkspaceUnusable
from loops.workspaces.git import repository as git

OBJECTS, SHALLOW = "objects", "shallow"
"""What ``copy`` fills a folder with. Where a repository has only the end of its history, ``shallow`` says which."""
PLACES = (git.BRANCHES, "refs/tags", "refs/remotes")
TRIES = 3
REF_CHARS = 80
NO_REPOSITORY = (
    "The folder is not the top of a git repository: name the folder that has `.git` in it, or leave branch, tag and "
    "commit empty."
)
BARE = "The folder is a bare repository, which AgentOps does not read: clone it, and name the clone."
LINKED = (
    "The folder is a linked worktree or a submodule, and its repository lies elsewhere: name the folder of that one, "
    "and the branch."
)
BORROWS = (
    "The repository borrows objects from another one, which AgentOps does not read: `git repack -a -d` gives it its "
    "own, then remove `.git/objects/info/alternates`."
)
EMPTY = "The repository has no commit yet: make the first one."
NO_NAME = "The repository has no branch, tag or commit {}."
NO_COMMIT = "{} is no commit, and leads to none: name a branch, a tag or a commit."
KEEPS_CHANGING = "The repository was packed anew while it was copied. Fetch it again."
_WHOLE = re.compile(r"[0-9a-f]{40}")
_BEGINNING = re.compile(r"[0-9a-f]{7,39}")
_MOST_SHALLOW = 1024 * 1024


class NoSuchCommit(git.Unusable):
    """The repository is one, but has nothing of that name."""


def commit_of(path: str, ref: str) -> str:
    """The commit that ``ref`` stands for now in the repository at ``path``, or ``ref`` itself where it is the beginning
    of an id. Raises Unusable, PathRefused or OSError."""
    with _opened(path) as repository:
        names = (repository.resolve(f"{place}/{ref}") for place in PLACES)
        name = next(filter(None, names), "") or (ref if _WHOLE.fullmatch(ref) and repository.has(ref) else "")
        if name:
            return _commit(repository, name, ref)
        if _BEGINNING.fullmatch(ref):
            return ref
        if not _WHOLE.fullmatch(ref) and not repository.head().commit:
            raise NoSuchCommit(EMPTY)
        raise NoSuchCommit(NO_NAME.format(_shown(ref)))


def _commit(repository: git.Repository, name: str, ref: str) -> str:
    commit = repository.peeled(name)
    if repository.kind(commit) not in ("commit", ""):
        raise NoSuchCommit(NO_COMMIT.format(_shown(ref)))
    repository.read(commit, "commit")
    return commit


def copy(path: str, target: Path) -> None:
    """The objects of the repository at ``path``, and no name, setting or hook, into ``target``. Raises Unusable,
    WorkspaceUnusable, PathRefused or OSError."""
    with _opened(path) as repository:
        named = re.findall(r"^[0-9a-f]{40}$", repository.texts(f".git/{SHALLOW}", _MOST_SHALLOW), re.MULTILINE)
    if named:
        (target / SHALLOW).write_text("".join(f"{name}\n" for name in named))
    for _ in range(TRIES):
        try:
            return _copy_objects(Path(path, git.OBJECTS), target / OBJECTS)
        except FileNotFoundError:  # a `git gc` moved them meanwhile
            shutil.rmtree(target / OBJECTS)
    raise WorkspaceUnusable(KEEPS_CHANGING)


def _copy_objects(objects: Path, target: Path) -> None:
    """Packs come last: whatever goes from among the loose objects meanwhile is in one by then."""
    target.mkdir()
    Copy(objects, target, without=("pack", "info")).run()
    if os.path.lexists(objects / "pack"):
        (target / "pack").mkdir()
        Copy(objects / "pack", target / "pack").run()


@contextmanager
def _opened(path: str) -> Iterator[git.Repository]:
    with roots().opened(path) as top, SafeDirectory(f"/proc/self/fd/{top}", links=True) as folder:
        _refuse(folder)
        with git.opened(folder) as repository:
            yield repository


def _refuse(folder: SafeDirectory) -> None:
    status = folder.stat(".git")
    if status is None:
        is_bare = all(folder.stat(name) is not None for name in ("HEAD", "objects", "refs"))
        raise git.Unusable(BARE if is_bare else NO_REPOSITORY)
    if stat.S_ISREG(status.st_mode):
        raise git.Unusable(LINKED)
    if stat.S_ISDIR(status.st_mode) and folder.stat(f"{git.OBJECTS}/info/alternates") is not None:
        raise git.Unusable(BORROWS)


def _shown(ref: str) -> str:
    return printable(shortened(ref, REF_CHARS))
