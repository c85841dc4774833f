"""One look over every name of a workspace, by descriptor, right before a command and right after it (SPEC I7).

Names and statuses only: no contents but those of git's settings. It costs the same whatever the files hold, about as
much as counting them for the quota does.
"""

from __future__ import annotations

import os
import stat
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from loops.tools.sandbox.safe_paths import is_shut
from loops.tools.sandbox.workspace_guard.git_settings import HOOKS, UNFINISHED, is_repository, obeys

DEEPEST = 100
"""Folder levels that are entered."""
LARGEST_SETTINGS = 1 << 20
LEADS = "gitdir: "
"""How a file ``.git`` begins that leads to a repository."""
COMMON = "commondir"
REPOSITORY = GIT, STORE = ".git", ".git/objects"
"""The folder of a repository, and the one that its commits are in."""
_RAISED = stat.S_ISUID | stat.S_ISGID
_SPECIAL = (stat.S_ISFIFO, stat.S_ISSOCK, stat.S_ISCHR, stat.S_ISBLK)


@dataclass(frozen=True, slots=True)
class Names:
    """Protected names as a walk needs them: alone, or below a folder of another name; case is ignored."""

    alone: frozenset[str]
    below: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, protected: Iterable[str]) -> Names:
        parts = [os.path.split(name.casefold()) for name in protected]
        below = frozenset((os.path.basename(folder), name) for folder, name in parts if folder)
        return cls(frozenset(name for folder, name in parts if not folder), below)


@dataclass(frozen=True, slots=True)
class Found:
    """One name: ``directory`` is an open descriptor of ``folder`` ("" for the workspace itself)."""

    directory: int
    folder: str
    name: str
    status: os.stat_result
    steers: bool
    """Is it protected, whole, by its name or its place?"""
    settings: bool
    """Does git take orders from it?"""
    too_deep: bool
    points: bool = False
    """Is it a file by which git goes to a repository elsewhere, as it would by a link? (gitrepository-layout(5))"""

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}" if self.folder else self.name

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_special(self) -> bool:
        return any(test(self.status.st_mode) for test in _SPECIAL)

    @property
    def is_raised(self) -> bool:
        """Would it run as its owner or group, whoever starts it?"""
        return stat.S_ISREG(self.status.st_mode) and bool(self.status.st_mode & _RAISED)

    @property
    def mark(self) -> tuple[int, ...]:
        """The same as long as it is the same thing, not merely one of the same name."""
        status = self.status
        return status.st_dev, status.st_ino, status.st_mode, status.st_ctime_ns if self.is_raised else 0

    def target(self) -> str:
        """Where a link, or what ``points``, leads; "" for a file that leads nowhere."""
        if not self.points:
            return os.readlink(self.name, dir_fd=self.directory)
        text = os.fsdecode(self.read() or b"").removesuffix("\n")
        return text if self.name.casefold() == COMMON else text.removeprefix(LEADS) if text.startswith(LEADS) else ""

    def read(self) -> bytes | None:
        """Its bytes; None for anything but a plain file of at most ``LARGEST_SETTINGS``."""
        with suppress(OSError):
            descriptor = os.open(self.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self.directory)
            with os.fdopen(descriptor, "rb") as file:
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    data = file.read(LARGEST_SETTINGS + 1)
                    return data if len(data) <= LARGEST_SETTINGS else None
        return None


class HeldFolder:
    """A folder known again by ``number`` (st_dev, st_ino), wherever it was moved. A file system gives the number of a
    deleted folder to the next one, but not while somebody holds it open, as this does where it is ``of`` one."""

    def __init__(self, number: tuple[int, int]) -> None:
        self.number = number

    @classmethod
    def of(cls, found: Found) -> HeldFolder:
        """Raises OSError where it is gone by now."""
        descriptor = os.open(found.name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=found.directory)
        status = os.fstat(descriptor)
        held = cls((status.st_dev, status.st_ino))
        weakref.finalize(held, os.close, descriptor)
        return held


Enters = Callable[[Found], bool]
"""Says of each name whether, if it is a folder, the walk goes in."""


@dataclass(slots=True)
class Survey:
    """What stands in a workspace and matters. ``elsewhere``: files that have another name outside of it."""

    steering: list[str] = field(default_factory=list)
    settings: dict[str, bytes | None] = field(default_factory=dict)
    statuses: dict[str, os.stat_result] = field(default_factory=dict)
    """Of the files in ``settings``."""
    marks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    targets: dict[str, str] = field(default_factory=dict)
    elsewhere: list[str] = field(default_factory=list)
    shut: set[str] = field(default_factory=set)
    """Folders that cannot be looked into."""
    ours: list[str] = field(default_factory=list)
    """Of these the ones that a command, being who we are, can open, fill and shut again."""
    held: dict[str, HeldFolder] = field(default_factory=dict)
    """``REPOSITORY`` of the workspace itself, as far as it is there."""


def survey(directory: int, names: Names) -> Survey:
    """The workspace as a person left it."""
    result, twice = Survey(), dict[tuple[int, int], tuple[int, list[str]]]()

    def enters(found: Found) -> bool:
        status = found.status
        if found.is_folder and found.path in REPOSITORY:
            with suppress(OSError):
                result.held[found.path] = HeldFolder.of(found)
        if found.steers and not any(found.path.startswith(f"{top}/") for top in result.steering[-1:]):
            result.steering.append(found.path)
        if is_shut(status):
            result.ours.append(found.path)
        if found.settings:
            result.settings[found.path], result.statuses[found.path] = found.read(), status
        if stat.S_ISLNK(status.st_mode) or found.points:
            with suppress(OSError):
                result.targets[found.path] = found.target()
        elif found.is_special or found.is_raised or found.too_deep:
            result.marks[found.path] = found.mark
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            twice.setdefault((status.st_dev, status.st_ino), (status.st_nlink, []))[1].append(found.path)
        return True

    walk(directory, names, enters, result.shut.add)
    result.elsewhere = sorted(path for links, paths in twice.values() if links > len(paths) for path in paths)
    return result


def walk(directory: int, names: Names, enters: Enters, shut: Callable[[str], None], folder: str = "") -> None:
    """Show ``enters`` every name that could matter, a folder before what lies in it; links are not followed. ``shut``
    is told of folders that cannot be entered. Raises OSError where ``directory`` itself cannot be."""
    with os.scandir(directory) as listed:
        entries = sorted(listed, key=lambda entry: entry.name)
    present = {entry.name.casefold() for entry in entries}
    parent = os.path.basename(folder).casefold()
    of_git = is_repository(folder, present)
    too_deep = folder.count("/") >= DEEPEST
    for entry in entries:
        name = entry.name.casefold()
        steers = name in names.alone or (parent, name) in names.below or (of_git and name == HOOKS)
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        mode = status.st_mode
        settings = obeys(parent, name, of_git) or (of_git and name in UNFINISHED and stat.S_ISLNK(mode))
        points = stat.S_ISREG(mode) and (name == ".git" or (of_git and name == COMMON))
        if stat.S_ISREG(mode) and not (steers or settings or points or mode & _RAISED) and status.st_nlink == 1:
            continue
        deep = too_deep and stat.S_ISDIR(mode)
        found = Found(directory, folder, entry.name, status, steers, settings, deep, points)
        if enters(found) and found.is_folder and not too_deep:
            with _entered(found, shut) as inner:
                if inner >= 0:
                    _walk_within(inner, names, enters, shut, found.path)


def _walk_within(directory: int, names: Names, enters: Enters, shut: Callable[[str], None], folder: str) -> None:
    """A folder that the disk does not list is passed by: what lies beside it is shown all the same."""
    try:
        walk(directory, names, enters, shut, folder)
    except OSError:
        shut(folder)


@contextmanager
def _entered(found: Found, shut: Callable[[str], None]) -> Iterator[int]:
    """A descriptor of the folder, -1 where it cannot be had."""
    descriptor = -1
    try:
        descriptor = os.open(found.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=found.directory)
    except FileNotFoundError:
        pass
    except OSError:
        shut(found.path)
    try:
        yield descriptor
    finally:
        if descriptor >= 0:
            os.close(descriptor)
