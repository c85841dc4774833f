"""A folder copied by descriptor, bounded: links are copied, never followed, and none may lead out of the copy."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Iterator, Set
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from loops.runs.composition import roots
from loops.tools.sandbox.command import ENVIRONMENT
from loops.tools.workspace_roots import ThroughALink
from loops.workspaces import permissions

MAX_BYTES = 2 * 1024**3
MAX_FILES = 200_000
CHUNK = 1024 * 1024
EVERY_S = 4.0
_now_and_then: ContextVar[Callable[[], None]] = ContextVar("now_and_then", default=lambda: None)


class WorkspaceUnusable(Exception):
    """The folder cannot be used for a run; the message says what is wrong with it."""


class WorkspaceElsewhere(Exception):
    """Nothing is wrong with the run: it waits for its folder, which is not on this machine, which nobody has allowed
    yet or whose set-up is under way, and does not fail."""


@contextmanager
def meanwhile(act: Callable[[], object]) -> Iterator[None]:
    """``act`` is called every few seconds while folders are copied in this block, and at its end: a large one takes
    longer than a lease. What it raises ends the copy."""
    last = time.monotonic()

    def now_and_then() -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY_S:
            act()
            last = time.monotonic()

    before = _now_and_then.set(now_and_then)
    try:
        yield
        now_and_then()
    finally:
        _now_and_then.reset(before)


def _refused(error: OSError) -> None:
    """A folder that vanished is no part of the copy; one that may not be read must not be missing without a word."""
    if isinstance(error, PermissionError):
        raise error


class Copy:
    """Copies a tree by descriptor from the first name of its path on, so that a link swapped in while it runs is not
    followed either. Folders called as one of ``without`` are left out, but for the paths ``kept``, which are copied
    whole; with ``only`` they are those called so alone. ``beside`` what lies in the target already, it adds what is not
    there, and replaces nothing."""

    def __init__(
        self,
        source: Path,
        target: Path,
        *,
        without: Collection[str] = (),
        kept: Collection[str] = (),
        only: Set[str] = frozenset(),
        beside: bool = False,
    ) -> None:
        self.source, self.target = source, target
        self.without, self.kept, self.only, self.beside = without, kept, only, beside
        self.bytes = self.files = 0
        self.links: list[Path] = []
        self._now_and_then = _now_and_then.get()

    def run(self) -> None:
        try:
            self._walk()
        except ThroughALink as error:
            raise WorkspaceUnusable(str(error)) from error
        except PermissionError as error:
            raise WorkspaceUnusable(permissions.why_unreadable(self.source, str(error.filename))) from error

    def _walk(self) -> None:
        with roots().opened(str(self.source)) as top:
            self._walk_from(top)
        self._refuse_ways_out()
        self._let_scripts_find_their_python()

    def _walk_from(self, top: int) -> None:
        for folder, folders, files, descriptor in os.fwalk(".", dir_fd=top, onerror=_refused, follow_symlinks=False):
            here = Path(folder)
            folders[:] = [name for name in folders if name not in self.without or self._is_kept(here / name)]
            for name in folders:
                if self._is_wanted(here / name) and not self._is_there(here / name):
                    self._folder(here / name, name, descriptor)
            folders[:] = [name for name in folders if self._is_folder(here / name)]
            for name in files if self._is_wanted(here) else ():
                if not self._is_there(here / name):
                    self._file(here / name, name, descriptor)

    def _is_kept(self, folder: Path) -> bool:
        """Is it one of ``kept``, or in one? Those are copied whole."""
        return any(folder.is_relative_to(path) for path in self.kept)

    def _is_wanted(self, folder: Path) -> bool:
        return not self.only or not self.only.isdisjoint(folder.parts)

    def _is_there(self, place: Path) -> bool:
        return self.beside and os.path.lexists(self.target / place)

    def _is_folder(self, place: Path) -> bool:
        found = self.target / place
        return found.is_dir() and not found.is_symlink()

    def _folder(self, place: Path, name: str, parent: int) -> None:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            self._link(place, name, parent)
        else:
            (self.target / place).mkdir()

    def _file(self, place: Path, name: str, parent: int) -> None:
        self.files += 1
        if self.files > MAX_FILES:
            raise WorkspaceUnusable(f"The workspace has more than {MAX_FILES:,} files.")
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            self._link(place, name, parent)
        elif stat.S_ISREG(found.st_mode):
            self._content(place, name, parent)
        else:
            raise WorkspaceUnusable(f"{place} is no ordinary file (a pipe, socket or device).")

    def _link(self, place: Path, name: str, parent: int) -> None:
        (self.target / place).symlink_to(os.readlink(name, dir_fd=parent))
        self.links.append(place)

    def _refuse_ways_out(self) -> None:
        """A link may lead out by way of another link, so they are followed to the end, in the copy and by name only."""
        inside = self.target.resolve()
        for place in self.links:
            link = self.target / place
            leads_to = link.readlink()
            if self._is_of_an_environment(link):
                continue  # to the machine's Python: commands find what their sandbox shows of it, and we follow none
            if leads_to.is_absolute() or not Path(os.path.realpath(link)).is_relative_to(inside):
                raise WorkspaceUnusable(f"The link {place} leads out of the workspace, to {leads_to}.")

    def _is_of_an_environment(self, link: Path) -> bool:
        """Does it lie in a virtual environment of Python (PEP 405)?"""
        above = [folder for folder in link.parents if folder.is_relative_to(self.target)]
        return any((folder / "pyvenv.cfg").is_file() for folder in above)

    def _let_scripts_find_their_python(self) -> None:
        """Installed programs name the interpreter by where the environment was made; commands have it on their path."""
        was = b"#!" + os.fsencode(self.source / ENVIRONMENT / "bin") + b"/"
        folder = self.target / ENVIRONMENT / "bin"
        if not folder.is_dir() or folder.is_symlink() or folder.parent.is_symlink():
            return
        for script in folder.iterdir():
            if not script.is_symlink() and script.is_file() and script.stat().st_size <= CHUNK:
                data = script.read_bytes()
                if data.startswith(was):
                    script.write_bytes(b"#!/usr/bin/env " + data.removeprefix(was))

    def _content(self, place: Path, name: str, parent: int) -> None:
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        with os.fdopen(source, "rb") as reader, (self.target / place).open("xb") as writer:
            while chunk := reader.read(CHUNK):
                self._now_and_then()
                self.bytes += len(chunk)
                if self.bytes > MAX_BYTES:
                    raise WorkspaceUnusable(f"The workspace is larger than {MAX_BYTES // 1024**2:,} MB.")
                writer.write(chunk)
            writer.flush()
            found = os.fstat(source)
            os.fchmod(writer.fileno(), stat.S_IMODE(found.st_mode) & 0o777 | 0o600)
            # what was compiled or installed by the time of its source would be made anew, or not where it should be
            os.utime(writer.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))
