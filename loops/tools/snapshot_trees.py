"""The files of a workspace as a tree of listings, each named by the SHA-256 of its bytes, as git keeps folders: what
did not change has the name it had, and is neither kept nor compared again (SPEC O3, X3).

A listing is a JSON object, name to state in the words of ``snapshots``; a folder with something in it is
``tree:<sha256>`` of its own listing. Earlier versions kept one listing of all paths, which is read as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from loops.engine.encoding import canonical
from loops.tools.output import sha256_hex

NOTHING, FOLDER = "", "directory"
_TREE = "tree:"
Read = Callable[[str], bytes]


@dataclass(slots=True, eq=False)
class Folder:
    """``entries`` by name: a state, or what lies in a folder that is not empty. Once it is named it stays as it is."""

    entries: dict[str, str | Folder]
    _body: bytes = b""
    _name: str = ""

    @property
    def body(self) -> bytes:
        """The listing: canonical JSON."""
        if not self._body:
            words = {
                name: entry if isinstance(entry, str) else _TREE + entry.name for name, entry in self.entries.items()
            }
            self._body = canonical.encode(words)
        return self._body

    @property
    def name(self) -> str:
        """SHA-256 (hex) of ``body``."""
        if not self._name:
            self._name = sha256_hex(self.body)
        return self._name

    def states(self) -> dict[str, str]:
        """Every path below with its state, a folder before what lies in it."""
        return dict(_flat(self, ""))

    def state_of(self, path: str) -> str:
        """Of one path below; "" where nothing is."""
        first, _, rest = path.partition("/")
        entry = self.entries.get(first, NOTHING)
        if not rest:
            return _word(entry)
        return entry.state_of(rest) if isinstance(entry, Folder) else NOTHING

    def folders(self) -> Iterator[Folder]:
        """Itself and every folder below that is not empty, the deepest first."""
        for entry in self.entries.values():
            if isinstance(entry, Folder):
                yield from entry.folders()
        yield self


def of_states(states: Mapping[str, str]) -> Folder:
    """The tree of a list of paths."""
    top = Folder({})
    for path, state in sorted(states.items()):
        *above, last = path.split("/")
        place = top
        for part in above:
            inner = place.entries.get(part)
            if not isinstance(inner, Folder):
                inner = place.entries[part] = Folder({})
            place = inner
        if state != FOLDER or last not in place.entries:
            place.entries[last] = state
    return top


def loaded(name: str, read_all: Callable[[Sequence[str]], Mapping[str, bytes]]) -> Folder:
    """The whole tree below a stored listing, one read for each level. Raises KeyError for what is not stored."""
    top = _parsed(read_all([name])[name])
    level = [top]
    while level := [*_unread(level)]:
        names = [tree for _, _, tree in level]
        bodies = read_all(names)
        level = [_replaced(parent, part, bodies[tree]) for parent, part, tree in level]
    return top


def differences(before: str, after: Folder, read: Read) -> Iterator[tuple[str, str, str]]:
    """(path, state before, state after) of what differs from the stored listing ``before``, a folder before what lies
    in it; only what differs is read. Raises KeyError for what is not stored."""
    if before != after.name:
        yield from _differences(_parsed(read(before)), after, read, "")


def changed_paths(before: str, after: str, read: Read) -> list[str]:
    """What differs between two stored listings, in order. Raises KeyError for what is not stored."""
    return [path for path, _, _ in differences(before, _parsed(read(after)), read)]


def _differences(old: str | Folder, new: str | Folder, read: Read, prefix: str) -> Iterator[tuple[str, str, str]]:
    before, after = _entries(old, read), _entries(new, read)
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name, NOTHING), after.get(name, NOTHING)
        if _reference(was) == _reference(now):
            continue
        if _word(was) != _word(now):
            yield f"{prefix}{name}", _word(was), _word(now)
        if _is_tree(was) or _is_tree(now):
            yield from _differences(was, now, read, f"{prefix}{name}/")


def _entries(one: str | Folder, read: Read) -> Mapping[str, str | Folder]:
    if isinstance(one, Folder):
        return one.entries
    return _parsed(read(one.removeprefix(_TREE))).entries if one.startswith(_TREE) else {}


def _reference(one: str | Folder) -> str:
    return one if isinstance(one, str) else _TREE + one.name


def _is_tree(one: str | Folder) -> bool:
    return isinstance(one, Folder) or one.startswith(_TREE)


def _word(one: str | Folder) -> str:
    return FOLDER if _is_tree(one) else cast("str", one)


def _flat(folder: Folder, prefix: str) -> Iterator[tuple[str, str]]:
    for name, entry in sorted(folder.entries.items()):
        yield f"{prefix}{name}", _word(entry)
        if isinstance(entry, Folder):
            yield from _flat(entry, f"{prefix}{name}/")


def _parsed(body: bytes) -> Folder:
    listed = {str(name): str(state) for name, state in dict(canonical.decode(body)).items()}
    if any("/" in name for name in listed):
        return of_states(listed)
    return Folder(dict(listed))


def _unread(level: Sequence[Folder]) -> Iterator[tuple[Folder, str, str]]:
    for folder in level:
        for part, entry in folder.entries.items():
            if isinstance(entry, str) and entry.startswith(_TREE):
                yield folder, part, entry.removeprefix(_TREE)


def _replaced(parent: Folder, part: str, body: bytes) -> Folder:
    found = parent.entries[part] = _parsed(body)
    return found
