"""What a command leaves that would act on whoever uses the folder afterwards is taken away again (SPEC I7, ADR 0048).

Everything is done by the descriptor of the folder in which it was found: no name that a command chose is resolved.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from loops.tools.output import clean_text
from loops.tools.sandbox import programs
from loops.tools.sandbox.command import WORKSPACE
from loops.tools.sandbox.safe_paths import SafeDirectory, kind
from loops.tools.sandbox.workspace_guard import git_settings
from loops.tools.sandbox.workspace_guard.git_settings import HARMLESS_ENDING
from loops.tools.sandbox.workspace_guard.survey import DEEPEST, Found, Names, Survey, walk

MOST_KEPT = 50
"""Files of one command whose bytes are kept when they are taken away."""
MOST_KEPT_BYTES = 4 << 20
"""Of one command, all of them together."""
_OF_THE_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/dev/null", "/etc/alternatives")
"""Where a link may lead: nobody but the system's owner writes there."""
_LONGEST_LINK = 3_000
_KEPT_LEVELS = 20
_STEERS = "people's tools or agents would obey it"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Taken:
    """One thing that a command left. ``data`` are its bytes as far as they were kept. ``stays``: it could not be taken
    away, or put back, and a person has to look."""

    path: str
    why: str
    data: bytes | None = None
    stays: bool = False


@dataclass(slots=True)
class Cleanup:
    """``known`` are the protected paths that are compared, and put back, by others (protected_files.py)."""

    root: SafeDirectory
    names: Names
    before: Survey
    known: Collection[str]
    taken: list[Taken] = field(default_factory=list)
    kept: int = 0
    kept_bytes: int = 0

    def run(self) -> list[Taken]:
        """Walk the workspace once, take away what was planted, and say what that was."""
        walk(self.root.fd, self.names, self._enters, self._unseen)
        return self.taken

    def keep(self, data: bytes) -> bytes | None:
        """``data``, or None where no more is kept of this command."""
        if self.kept >= MOST_KEPT or self.kept_bytes + len(data) > MOST_KEPT_BYTES:
            return None
        self.kept += 1
        self.kept_bytes += len(data)
        return data

    @contextmanager
    def attempt(self, path: str, what: str, lost: Mapping[str, bytes] | None = None) -> Iterator[None]:
        """Note that ``path`` could not be ``what`` instead of raising: the command keeps its result, and everything
        else is looked at. ``lost``: what a person may not have any more then, by path."""
        try:
            yield
        except Exception as error:  # of a disk, of a name, or a fault of ours
            said = getattr(error, "strerror", None) or str(error) or type(error).__name__
            self.note_left(path, f"it could not be {what} ({said})")
            for name, data in (lost or {}).items():
                self.note_left(name, "what stood here before the command", self.keep(data))

    def note(self, path: str, why: str, data: bytes | None = None) -> None:
        self.taken.append(Taken(clean_text(path), clean_text(why), None if data is None else self.keep(data)))

    def note_left(self, path: str, why: str, data: bytes | None = None) -> None:
        said = clean_text(f"{why}: look before you use the folder")
        self.taken.append(Taken(clean_text(path), said, data, stays=True))

    def _unseen(self, path: str) -> None:
        if path not in self.before.shut:
            self.note_left(path, "it could not be looked into")

    def _enters(self, found: Found) -> bool:
        if found.path in self.known or found.path in self.before.shut:
            return False
        with self.attempt(found.path, "taken away"):
            return changing(found.directory, lambda: self._looked_at(found))
        return False

    def _looked_at(self, found: Found) -> bool:
        if found.steers:
            self._take_steering(found)
            return False
        if found.settings and not found.is_folder:
            self._take_orders(found)
        elif stat.S_ISLNK(found.status.st_mode) or found.points:
            self._take_link(found)
        elif self.before.marks.get(found.path) != found.mark:
            self._take_odd(found)
        if found.is_folder:
            open_up(found)
        return found.is_folder and not found.too_deep

    # --- each kind --------------------------------------------------------------------------------------------------

    def _take_steering(self, found: Found) -> None:
        """A file, a link, or a folder with all in it but what never runs."""
        if not found.is_folder:
            self._take(found.directory, found.name, found.path)
            return
        open_up(found)
        inner = os.open(found.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=found.directory)
        try:
            names = [name for name in sorted(os.listdir(inner)) if not name.endswith(HARMLESS_ENDING)]
            for name in names:
                self._take(inner, name, f"{found.path}/{name}")
        finally:
            os.close(inner)
        if names:
            with suppress(OSError):  # what never runs is still in it
                os.rmdir(found.name, dir_fd=found.directory)

    def _take(self, directory: int, name: str, path: str) -> None:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            found = Found(directory, os.path.dirname(path), name, status, True, False, False)
            self.note(path, _STEERS, found.read())
        else:
            _reopen(name, directory)
            for inside, data in _files(name, directory):
                self.note(f"{path}/{inside}", _STEERS, data)
            self.note(f"{path}/", _STEERS)
        remove(name, directory)

    def _take_orders(self, found: Found) -> None:
        folder, name = found.folder, found.name.casefold()
        was, now = self.before.settings.get(found.path, b""), found.read()
        old, given = git_settings.orders(name, was, folder), git_settings.orders(name, now, folder)
        is_link = stat.S_ISLNK(found.status.st_mode)
        if given == old and not (is_link and self.before.targets.get(found.path) != found.target()):
            return
        said = "; ".join(one for one in given if one not in old) or "a person's own was removed"
        left = b"" if now is None else git_settings.without_orders(name, now, folder)
        if name not in git_settings.FIT_TO_BE_EMPTY and not (was or left):
            self.note(found.path, f"git would obey it ({said})", now)
            remove(found.name, found.directory)
        elif was or now is None:
            self.note(found.path, f"git would obey what was set ({said}): the whole file is as it was", now)
            replace(found, was or b"", self.before.statuses.get(found.path, found.status))
        else:
            self.note(found.path, f"git would obey what was set ({said}): these lines are gone", now)
            replace(found, left, found.status)

    def _take_link(self, found: Found) -> None:
        """A link, and a file that leads git like one."""
        target = found.target()
        if self.before.targets.get(found.path) == target:
            return
        if found.points and not target:
            self.note(found.path, "git would be led nowhere", found.read())
        elif not leads_out(self.root.root, found.path, target):
            return
        elif found.points:
            self.note(found.path, f"git would be led out of the workspace, to {target}")
        else:
            self.note(found.path, f"a link that leads out of the workspace, to {target}")
        remove(found.name, found.directory)

    def _take_odd(self, found: Found) -> None:
        if found.is_special:
            self.note(found.path, f"{kind(found.status.st_mode)} was left")
            remove(found.name, found.directory)
        elif found.is_raised:
            self.note(found.path, "it would run with the rights of its owner: that mark is off")
            change_mode(found, found.status.st_mode & 0o777)
        elif found.too_deep:
            self.note(found.path, f"folders that are nested more than {DEEPEST} times cannot be looked into")
            remove(found.name, found.directory)


def leads_out(root: str, path: str, target: str) -> bool:
    """Does the link ``path`` with this ``target`` lead a person to somewhere that neither the workspace nor the system
    is? What a command calls ``/workspace`` is the workspace."""
    if target == WORKSPACE or target.startswith(f"{WORKSPACE}/"):
        target = root + target[len(WORKSPACE) :]
    place = os.path.join(root, os.path.dirname(path), target)
    if len(place) > _LONGEST_LINK:
        return True
    real = os.path.realpath(place)
    allowed = (root, *_OF_THE_SYSTEM, *filter(None, [programs.elsewhere()]))
    return not any(real == one or real.startswith(f"{one}/") for one in allowed)


def replace(found: Found, data: bytes, status: os.stat_result) -> None:
    """Give the file these bytes in one step, and mode and owner of ``status``; a link or a folder goes."""
    plain = stat.S_ISREG(status.st_mode)
    temporary = f".agentops-{secrets.token_hex(8)}.tmp"
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
    with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=found.directory), "wb") as file:
        file.write(data)
        if os.geteuid() == 0:
            os.fchown(file.fileno(), status.st_uid, status.st_gid)
        os.fchmod(file.fileno(), status.st_mode & 0o777 if plain else 0o644)
    os.rename(temporary, found.name, src_dir_fd=found.directory, dst_dir_fd=found.directory)


def change_mode(found: Found, mode: int) -> None:
    """Of the very thing that was found, were its name swapped for a link meanwhile."""
    with suppress(OSError):
        descriptor = os.open(found.name, os.O_PATH | os.O_NOFOLLOW, dir_fd=found.directory)
        try:
            if os.path.samestat(os.fstat(descriptor), found.status):
                os.chmod(f"/proc/self/fd/{descriptor}", mode)
        finally:
            os.close(descriptor)


def remove(name: str, directory: int) -> None:
    """Remove a file, or a folder with all that is in it, however deep: folders in it are moved up first."""
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=directory)
            return
        _reopen(name, directory)
        waiting = [name]
        while waiting:
            last = waiting.pop()
            waiting += _emptied(last, directory)
            os.rmdir(last, dir_fd=directory)


def _emptied(name: str, directory: int) -> Iterator[str]:
    """Remove the files of a folder; the new names of its folders, which are moved beside it."""
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
    try:
        with os.scandir(inner) as listed:
            entries = list(listed)
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=inner)
                continue
            _reopen(entry.name, inner)
            moved = f".agentops-{secrets.token_hex(8)}.tmp"
            os.rename(entry.name, moved, src_dir_fd=inner, dst_dir_fd=directory)
            yield moved
    finally:
        os.close(inner)


def _files(name: str, directory: int, depth: int = 0) -> Iterator[tuple[str, bytes]]:
    """(path in it, bytes) of the plain files of a folder, as far as they would be kept."""
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
    try:
        with os.scandir(inner) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)[:MOST_KEPT]
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and depth < _KEPT_LEVELS:
                _reopen(entry.name, inner)
                yield from ((f"{entry.name}/{below}", data) for below, data in _files(entry.name, inner, depth + 1))
            elif stat.S_ISREG(status.st_mode):
                found = Found(inner, "", entry.name, status, False, False, False)
                if (data := found.read()) is not None:
                    yield entry.name, data
    finally:
        os.close(inner)


def _reopen(name: str, directory: int) -> None:
    """So that it can be emptied."""
    found = Found(directory, "", name, os.stat(name, dir_fd=directory, follow_symlinks=False), False, False, False)
    if found.status.st_uid == os.geteuid() and found.status.st_mode & 0o700 != 0o700:
        change_mode(found, found.status.st_mode & 0o777 | 0o700)


def open_up(found: Found) -> None:
    """Let whoever owns a folder look into it, where a command shut it."""
    if found.status.st_uid == os.geteuid() and found.status.st_mode & 0o500 != 0o500:
        change_mode(found, found.status.st_mode & 0o777 | 0o700)


def changing(directory: int, change: Callable[[], T]) -> T:
    """The result of ``change``, done again with leave to change names in the folder where it lacked that."""
    try:
        return change()
    except PermissionError:
        with _writable(directory):
            return change()


@contextmanager
def _writable(directory: int) -> Iterator[None]:
    """Let names in the folder change, where its owner is who we are."""
    mode = stat.S_IMODE(os.fstat(directory).st_mode)
    with suppress(PermissionError):
        os.fchmod(directory, mode | 0o700)
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.fchmod(directory, mode)
