"""A path shall be in a state, unless others changed it meanwhile. To assert it twice comes to the same.

What undoing (SPEC O3) and delivering a result have in common.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from loops.tools.snapshots import FOLDER, NOTHING, OTHER, hash_of, state_of
from loops.tools.workspace import CACHES, Workspace

WHY = {
    "changed": "somebody else changed it since",
    "lost": "its former content is too large and was not kept",
}


@dataclass(frozen=True, slots=True)
class Assertion:
    """``path`` shall be ``wanted``, and may be ``expected`` until then: two states (snapshots). ``source`` is where
    that lies now which is too large to be kept, "" where it lies nowhere."""

    path: str
    wanted: str
    expected: str
    source: str = ""

    def standing(self, now: str) -> str:
        """ "restore", "already", "changed" (by somebody else) or "lost" (the bytes wanted were never kept)."""
        if now == self.wanted:
            return "already"
        kinds = {_kind(self.wanted), _kind(self.expected)}
        halfway = now == NOTHING and (len(kinds) > 1 or "link" in kinds)  # the old is gone, the new to come
        if now != self.expected and not halfway:
            return "changed"
        return "lost" if _kind(self.wanted) in ("large", OTHER) and not self.source else "restore"

    def make(self, workspace: Workspace, bytes_of: Mapping[str, bytes]) -> None:
        """``bytes_of`` has the bytes of a file by their hash. Raises KeyError, PathRefused, OSError or LeaseOver."""
        if _kind(self.wanted) != _kind(self.expected) and self.expected:
            _remove(self.path, workspace)
        match _kind(self.wanted):
            case "directory":
                workspace.make_directory(self.path)
            case "link":
                if self.expected.startswith("link:"):
                    _remove(self.path, workspace)
                workspace.link(self.path, self.wanted.partition(":")[2])
            case "large":
                workspace.move(self.source, self.path)
            case "file":
                mode = int(self.wanted.split(":")[1], 8)
                workspace.write(self.path, bytes_of[hash_of(self.wanted)], mode)


def with_sources(assertions: Sequence[Assertion]) -> list[Assertion]:
    """Those that bring back what is too large to be kept know where it was moved to: where else it shall not be."""
    going = {one.expected: one.path for one in assertions if one.wanted == NOTHING and _kind(one.expected) == "large"}
    return [replace(one, source=going.get(one.wanted, "")) for one in assertions]


def _kind(state: str) -> str:
    return state.partition(":")[0]


def _remove(path: str, workspace: Workspace) -> None:
    """A file, a link, or a folder in which nothing is left but caches."""
    if state_of(workspace, path) == FOLDER:
        inside = list(workspace.walk(path, hidden=True))
        if all(CACHES & set(below[len(path) :].split("/")) for below, _ in inside):
            for below, _ in reversed(inside):
                workspace.delete(below)
    with suppress(FileNotFoundError):
        workspace.delete(path)
