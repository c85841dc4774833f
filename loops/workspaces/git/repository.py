"""What a repository has: its format, where HEAD and a branch point, and the commits and trees that lead there.

No link is followed, no setting is obeyed, and of what it borrows from other repositories (alternates) nothing is read.
Every object fits its name, or it is none.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from loops.engine.text.truncation import shortened
from loops.printable.text import printable
from loops.tools.sandbox.safe_paths import PathRefused, SafeDirectory
from loops.tools.sandbox.workspace_guard.git_named import entries
from loops.tools.sandbox.workspace_guard.survey import LARGEST_SETTINGS
from loops.workspaces.git.packs import MOST_BYTES, Damaged, Packs

OBJECTS, BRANCHES = ".git/objects", "refs/heads"
MOST_PACKED_REFS = 32 * 1024 * 1024
_HEADER_BYTES = 64
_NAMED_CHARS = 60
MOST_REF = 4096
_KNOWN = frozenset({"noop", "noop-v1", "objectformat", "partialclone", "preciousobjects", "refstorage"}) | {
    "relativeworktrees",
    "worktreeconfig",
}
_HASH = re.compile(r"[0-9a-f]{40}")
_REF = re.compile(r"refs/[^\x00-\x20\x7f~^:?*\[\\]+")
_SYMBOLIC_REFS = 5
"""git follows no more of them either (git-symbolic-ref(1))."""
NOT_HERE = "The folder is not the top of a git repository: a commit needs one, a patch does not."
ELSEWHERE = (
    "The folder is a linked worktree or a submodule, whose repository lies outside of it, where AgentOps does not "
    "write."
)
FORMAT = "The repository keeps {} (a setting of it), which AgentOps does not know."
TAKE_THE_PATCH = "Take the patch."


class Unusable(Exception):
    """No commit can be made in this repository; the message says ``why``, and what to do with a result ``instead``."""

    def __init__(self, why: str, instead: str = "") -> None:
        super().__init__(f"{why} {instead}".strip())
        self.why = why


@dataclass(frozen=True, slots=True)
class Head:
    """``branch`` is the full name of the ref that HEAD stands for, or "" when it is detached; ``commit`` is what that
    is, or "" before the first one."""

    branch: str
    commit: str


class Repository:
    """The one at the top of an opened folder. ``opened`` makes it; raises Unusable or OSError."""

    def __init__(self, folder: SafeDirectory, packs: Packs) -> None:
        self.folder, self._packs = folder, packs

    def head(self) -> Head:
        text = self._text(".git/HEAD", MOST_REF)
        if not text.startswith("ref:"):
            return Head("", _commit_named(text.strip()))
        branch = _checked(text.removeprefix("ref:").strip())
        return Head(branch, self.resolve(branch))

    def resolve(self, ref: str) -> str:
        """The commit that a ref stands for; "" where there is none."""
        for _ in range(_SYMBOLIC_REFS):
            text = self._ref(ref)
            if text is None:
                return self._packed().get(ref, "")
            if not text.startswith("ref:"):
                return _commit_named(text.strip())
            ref = _checked(text.removeprefix("ref:").strip())
        raise Unusable(f"The ref {printable(ref)} of the repository leads round in a circle.")

    def _ref(self, ref: str) -> str | None:
        """What the file of a ref says; None where there is none. Raises PathRefused where a link is."""
        try:
            return self._text(f".git/{ref}", MOST_REF)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PathRefused:
            status = self.folder.stat(f".git/{ref}")
            if status is not None and stat.S_ISDIR(status.st_mode):
                return None
            raise

    def tree_of(self, commit: str) -> str:
        """Of a commit. Raises Unusable."""
        first = self.read(commit, "commit").split(b"\n", 1)[0].decode("ascii", "replace")
        return _commit_named(first.removeprefix("tree "))

    def peeled(self, name: str) -> str:
        """What the tag called ``name`` leads to, else ``name``. Raises Unusable."""
        for _ in range(_SYMBOLIC_REFS):
            if self.kind(name) != "tag":
                break
            first = self.read(name, "tag").split(b"\n", 1)[0].decode("ascii", "replace")
            name = _commit_named(first.removeprefix("object "))
        return name

    def read(self, name: str, kind: str) -> bytes:
        """The body of an object. Raises Unusable where the repository does not have it."""
        found = self._object(name)
        if found is None:
            why = f"The {kind} {name[:12]} is not in the repository itself: it is gone, borrowed or was never fetched."
            raise Unusable(why, TAKE_THE_PATCH)
        its_kind, body = found
        if its_kind != kind or object_name(kind, body) != name:
            raise Unusable(f"The object {name[:12]} of the repository is damaged: `git fsck` says more.")
        return body

    def has(self, name: str) -> bool:
        """Any object, in the repository itself."""
        return self._packs.has(name) or self.folder.stat(f"{OBJECTS}/{name[:2]}/{name[2:]}") is not None

    def kind(self, name: str) -> str:
        """commit, tree, blob or tag; "" where the repository does not have it."""
        found = self._object(name)
        return found[0] if found is not None else ""

    def _object(self, name: str) -> tuple[str, bytes] | None:
        return self._loose(name) or self._packs.read(name)

    def _loose(self, name: str) -> tuple[str, bytes] | None:
        try:
            data = self._bytes(f"{OBJECTS}/{name[:2]}/{name[2:]}", MOST_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            return None
        reader = zlib.decompressobj()
        try:
            whole = reader.decompress(data, MOST_BYTES + _HEADER_BYTES)
        except zlib.error:
            whole = b""
        header, _, body = whole.partition(b"\0")
        return header.split(b" ")[0].decode("ascii", "replace"), body

    def _packed(self) -> dict[str, str]:
        try:
            text = self._text(".git/packed-refs", MOST_PACKED_REFS)
        except FileNotFoundError:
            return {}
        rows = (line.split(" ", 1) for line in text.splitlines() if not line.startswith(("#", "^")))
        return {row[1]: row[0] for row in rows if len(row) == 2 and _HASH.fullmatch(row[0])}

    def is_prefix(self, ref: str) -> bool:
        """Do names of other refs begin with this one, as with a folder?"""
        status = self.folder.stat(f".git/{ref}")
        beneath = any(name.startswith(f"{ref}/") for name in self._packed())
        return beneath or (status is not None and stat.S_ISDIR(status.st_mode))

    def texts(self, path: str, most: int) -> str:
        """A file of rules in ``.git`` or in the work tree; "" where there is none to be read."""
        try:
            return self._text(path, most)
        except (OSError, PathRefused):
            return ""

    def _text(self, path: str, most: int) -> str:
        return os.fsdecode(self._bytes(path, most))

    def _bytes(self, path: str, most: int) -> bytes:
        return self.folder.read(path, most)[0]


@contextmanager
def opened(folder: SafeDirectory) -> Iterator[Repository]:
    """The repository whose work tree is ``folder``. Raises Unusable, PathRefused or OSError."""
    folder = folder.listed()  # refs are called as their people like
    _refuse_others(folder)
    _refuse_formats(folder)
    try:
        with ExitStack() as files:
            yield Repository(folder, Packs(folder, files))
    except Damaged as error:
        raise Unusable(f"{error} `git fsck` says more.", TAKE_THE_PATCH) from None


def object_name(kind: str, body: bytes) -> str:
    """As git names its objects: the SHA-1 of their kind, their size and their bytes."""
    return hashlib.sha1(b"%s %d\0" % (kind.encode(), len(body)) + body, usedforsecurity=False).hexdigest()


def _refuse_others(folder: SafeDirectory) -> None:
    status = folder.stat(".git")
    if status is None:
        raise Unusable(NOT_HERE)
    if stat.S_ISREG(status.st_mode) or (stat.S_ISDIR(status.st_mode) and folder.stat(".git/commondir") is not None):
        raise Unusable(ELSEWHERE, TAKE_THE_PATCH)
    for path in (".git", ".git/refs", ".git/refs/heads", OBJECTS):
        found = folder.stat(path)
        if found is None or not stat.S_ISDIR(found.st_mode):
            raise Unusable(f"{path} in the folder is missing or leads through a link, which AgentOps does not follow.")


def _refuse_formats(folder: SafeDirectory) -> None:
    """As git does before it touches a repository (gitrepository-layout(5)): what is included does not count."""
    try:
        found = {
            (section, key): value for section, key, value in entries(folder.read(".git/config", LARGEST_SETTINGS)[0])
        }
    except FileNotFoundError:
        found = {}
    if found.get(("core", "bare"), "").lower() in ("true", "yes", "on", "1"):
        raise Unusable("The repository is a bare one: it has no work tree that a run could have worked on a copy of.")
    if found.get(("core", "repositoryformatversion"), "0") not in ("0", "1"):
        raise _unknown("a newer format")
    for (section, key), value in found.items():
        if section != "extensions":
            continue
        if key == "objectformat" and value.lower() != "sha1":
            raise _unknown(f"its objects by {printable(shortened(value, _NAMED_CHARS))}")
        if key == "refstorage" and value.lower() != "files":
            raise _unknown(f"its branches as {printable(shortened(value, _NAMED_CHARS))}")
        if key not in _KNOWN:
            raise _unknown(f"the extension {printable(shortened(key, _NAMED_CHARS))}")


def _unknown(what: str) -> Unusable:
    return Unusable(FORMAT.format(what), TAKE_THE_PATCH)


def _checked(ref: str) -> str:
    if not _REF.fullmatch(ref) or ".." in ref or "//" in ref:
        raise Unusable("HEAD or a branch of the repository names something that is no ref of git.")
    return ref


def _commit_named(text: str) -> str:
    if not _HASH.fullmatch(text):
        raise Unusable("HEAD or a branch of the repository names no commit by SHA-1: `git fsck` says more.")
    return text
