"""The folders of a commit (trees of git), read as far as they are looked into and written anew where they changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loops.workspaces.git.repository import Unusable, object_name

FILE, PROGRAM, LINK, FOLDER, SUBMODULE = 0o100644, 0o100755, 0o120000, 0o040000, 0o160000
IN_A_SUBMODULE = "it lies in a submodule, which has a repository of its own"
IN_THE_WAY = "the last commit has a file where it has a folder, or the other way round"
Read = Callable[[str], bytes]
"""The body of a tree by its name."""


class Obstructed(Exception):
    """A path that cannot be in the tree as it is; the message says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, a link or a folder by the name of its object."""

    mode: int
    name: str

    @property
    def is_file(self) -> bool:
        return self.mode not in (LINK, FOLDER, SUBMODULE)


class Tree:
    """One folder. ``entries`` are by the last part of the path, and a folder that was looked into is a Tree."""

    def __init__(self, read: Read, name: str = "") -> None:
        self._read = read
        self.entries: dict[bytes, Entry | Tree] = dict(_parsed(read(name))) if name else {}

    def find(self, parts: list[bytes]) -> Entry | None:
        """What stands at a path; None also behind a file or a link. Raises Obstructed in a submodule."""
        folder, last = self, parts[-1]
        for part in parts[:-1]:
            inner = folder._into(part)
            if inner is None:
                return None
            folder = inner
        found = folder.entries.get(last)
        return Entry(FOLDER, "") if isinstance(found, Tree) else found

    def remove(self, parts: list[bytes]) -> None:
        """A file or a link; folders go when they are empty, since git keeps none."""
        first, rest = parts[0], parts[1:]
        if not rest:
            self.entries.pop(first, None)
        elif (inner := self._into(first)) is not None:
            inner.remove(rest)
            if not inner.entries:
                del self.entries[first]

    def put(self, parts: list[bytes], entry: Entry) -> None:
        """Raises Obstructed where something else stands in its way."""
        first, rest = parts[0], parts[1:]
        there = self.entries.get(first)
        if rest:
            if there is None:
                self.entries[first] = Tree(self._read)
            if (inner := self._into(first)) is None:
                raise Obstructed(IN_THE_WAY)
            inner.put(rest, entry)
        elif isinstance(there, Tree) or (there is not None and there.mode in (FOLDER, SUBMODULE)):
            raise Obstructed(IN_THE_WAY)
        else:
            self.entries[first] = entry

    def written(self, into: dict[str, bytes]) -> str:
        """Its name; the bodies of trees that were looked into go ``into`` by theirs."""
        rows = list[tuple[bytes, bytes]]()
        for part, found in self.entries.items():
            entry = Entry(FOLDER, found.written(into)) if isinstance(found, Tree) else found
            key = part + b"/" if entry.mode == FOLDER else part
            rows.append((key, b"%o %s\0%s" % (entry.mode, part, bytes.fromhex(entry.name))))
        body = b"".join(row for _, row in sorted(rows))
        name = object_name("tree", body)
        into[name] = body
        return name

    def _into(self, part: bytes) -> Tree | None:
        found = self.entries.get(part)
        if isinstance(found, Entry):
            if found.mode == SUBMODULE:
                raise Obstructed(IN_A_SUBMODULE)
            if found.mode != FOLDER:
                return None
            found = self.entries[part] = Tree(self._read, found.name)
        return found


def _parsed(body: bytes) -> list[tuple[bytes, Entry]]:
    found, at = list[tuple[bytes, Entry]](), 0
    while at < len(body):
        end = body.find(b"\0", at)
        mode, _, part = body[at:end].partition(b" ")
        if end < 0 or not part or len(body) < end + 21 or not mode.isdigit() or b"8" in mode or b"9" in mode:
            raise Unusable("A folder of the last commit is damaged: `git fsck` says more.")
        found.append((part, Entry(int(mode, 8), body[end + 1 : end + 21].hex())))
        at = end + 21
    return found
