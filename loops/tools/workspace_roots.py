"""Where the folder of a workspace may lie, and how it is opened: no link on the way is followed (`docs/adr/0036`)."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from stat import S_ISLNK

from loops.tools.sandbox.safe_paths import PathRefused

PROJECT = "{project}"
"""Stands in a root for the address (slug) of the project, so that each has a folder of its own there."""
SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys", "/usr"),
    *("/var/backups", "/var/cache", "/var/db", "/var/lib", "/var/log", "/var/mail", "/var/run", "/var/spool"),
    *("/Applications", "/Library", "/System", "/private/etc"),
)
"""Nothing in these is a workspace."""
SHARED = ("/", "/home", "/media", "/mnt", "/opt", "/private", "/root", "/srv", "/tmp", "/Users", "/var", "/var/tmp")  # noqa: S108
"""These are none, but what lies below may be."""
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ThroughALink(OSError):
    """The way to a folder leads through a link. Where it leads is not said: links of the host are nobody's to read."""


@dataclass(frozen=True, slots=True)
class Roots:
    """``allowed`` are the roots as the installation names them. ``made`` are the folders in which AgentOps itself makes
    workspaces: the way to them is trusted. ``ours`` is what no workspace may hold or lie in: (path, what it is)."""

    allowed: Sequence[str]
    made: Sequence[str]
    ours: Sequence[tuple[str, str]]
    runs: str
    """Where AgentOps makes the folders of runs."""

    def why_misspelt(self, path: str) -> str:
        """Why ``path`` is not the one spelling of a folder; "" when it is."""
        if not path.startswith("/") or ".." in path.split("/"):
            return f"{path} is not an absolute path without '..'"
        if any(ord(sign) < 32 or 0xD800 <= ord(sign) <= 0xDFFF for sign in path):
            return "a path has no control characters and no broken text"
        return ""

    def why_forbidden(self, path: str) -> str:
        """Why nobody may open ``path`` to agents, not even a superuser; "" where somebody may."""
        if said := self.why_misspelt(path):
            return said
        if any(_below(path, made) for made in self.made):
            return ""
        for place, what in self.ours:
            for named in {place, os.path.realpath(place)}:
                if _within(path, named) or _within(named, path):
                    return f"{path} holds or lies in {what}: agents work elsewhere"
        if any(_within(path, system) for system in SYSTEM):
            return f"{path} belongs to the system: agents work elsewhere"
        if path in SHARED or path in _homes():
            return f"{path} is shared by too much: choose a folder in it"
        return ""

    def why_never(self, path: str) -> str:
        """Why it can be opened to nobody as things stand on this machine; "" where it can."""
        return self.why_forbidden(path) or self.why_unreachable(path)

    def covers(self, path: str, project: str, *, in_place: bool) -> bool:
        """Does it lie below a root, not hidden, or is it a copy of what AgentOps made? The project's admins choose."""
        if any(_below(path, made) for made in self.made):
            return not in_place
        for root in (os.path.normpath(root.replace(PROJECT, project)) for root in self.allowed):
            if _below(path, root) and not any(part.startswith(".") for part in os.path.relpath(path, root).split("/")):
                return True
        return False

    def why_unreachable(self, path: str) -> str:
        """What stands in the way to ``path`` on this machine; "" when nothing does, or when it is not here."""
        try:
            with self.opened(path) as folder:
                return self._why_ours(folder, path)
        except ThroughALink as error:
            return str(error)
        except OSError:
            return ""

    @contextmanager
    def opened(self, path: str) -> Iterator[int]:
        """A descriptor of the folder, reached one name after another. Raises ThroughALink, or OSError as ``open``."""
        start = next((made for made in (*self.made, self.runs) if _below(path, made)), "/")
        folder = os.open(start, _FOLDER & ~os.O_NOFOLLOW)
        try:
            for name in filter(None, os.path.relpath(path, start).split("/") if path != start else ()):
                try:
                    inner = os.open(name, _FOLDER, dir_fd=folder)
                except NotADirectoryError:
                    _refuse_link(name, folder, path)
                    raise
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)

    def _why_ours(self, folder: int, path: str) -> str:
        """By another name: a mount of it elsewhere."""
        if any(_below(path, made) for made in self.made):
            return ""
        for place, what in self.ours:
            with suppress(OSError):
                if os.path.samestat(os.fstat(folder), os.stat(place)):
                    return f"{path} is {what}: agents work elsewhere"
        return ""


@dataclass(frozen=True, slots=True)
class Folders:
    """``runs`` is the folder in which AgentOps makes those of runs; ``refused`` says why one may not be used, or "".
    ``records`` holds what stood in them before the commands that run now."""

    runs: str = ""
    refused: Callable[[str], str] = lambda path: ""
    records: str = ""

    def is_made(self, path: str) -> bool:
        """Did AgentOps make the folder? Raises PathRefused for one that may not be used."""
        if why := self.refused(path):
            raise PathRefused(why)
        return lies_in(path, self.runs)


def plain(path: str) -> str:
    """The spelling that is kept: without slashes that mean nothing. What is misspelt stays as it is."""
    return path if not path.startswith("/") or ".." in path.split("/") else f"/{os.path.normpath(path).strip('/')}"


def overlap(path: str, other: str) -> bool:
    """Is one the other, or in it? Nobody can tell of what is no absolute path: rows from before may have such."""
    return path.startswith("/") and other.startswith("/") and (_within(path, other) or _within(other, path))


def why_nested(name: str, path: str, others: Iterable[tuple[str, str]]) -> str:
    """Why the workspace ``name`` at ``path`` and one of ``others``, (name, path), may not both be used in place, or "".

    A run in the outer one could change the folder of the inner one under those who work there, and commands take turns
    in a folder, not with those in one around it.
    """
    path = plain(path)
    for its_name, its_path in others:
        other = plain(its_path)
        if other != path and overlap(path, other):
            pair = f"{name} and {its_name} lie in each other, both used in place"
            return f"{pair}: let one work on copies, in Admin > Workspaces"
    return ""


def lies_in(path: str, folder: str) -> bool:
    """Right in it, however the way to it is spelt."""
    return bool(folder) and os.path.realpath(os.path.dirname(path)) == os.path.realpath(folder)


def _refuse_link(name: str, folder: int, path: str) -> None:
    with suppress(FileNotFoundError):
        if S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise ThroughALink(f"{name} on the way to {path} is a link, and none is followed: name the folder itself")


def _within(path: str, folder: str) -> bool:
    return path == folder or _below(path, folder)


def _below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/") and path != folder


@cache
def _homes() -> frozenset[str]:
    return frozenset(os.path.normpath(user.pw_dir) for user in pwd.getpwall() if user.pw_dir)
