"""What a check in a clean checkout is to find as it was when the run began (SPEC L2, ADR 0079)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from loops.tools import snapshots
from loops.tools.canary.canary import Canary, canary
from loops.tools.registry import ToolRun
from loops.tools.reviewed_files import files_of_scripts, other_tests
from loops.tools.sandbox.safe_paths import PathRefused
from loops.tools.snapshot_trees import FOLDER, NOTHING, Read, differences
from loops.tools.snapshots import hash_of
from loops.tools.suspicion.changes import Change, is_in_tests
from loops.tools.suspicion.judges import judging
from loops.tools.suspicion.scripts import started

_FILE, _LARGE = "file", "large"
READ_BYTES = 64 << 20
"""Of all changed files together, before and after."""


class NotSealed(Exception):
    """No check can be sealed; the message says why, for people."""


@dataclass(frozen=True, slots=True)
class Original:
    """A file with its mode, or where a link leads to."""

    data: bytes = b""
    mode: int = 0o644
    link: str = ""


@dataclass(frozen=True, slots=True)
class Seal:
    """``originals`` by path, None for what was not there; ``work`` is every other changed file, ``before`` what stood
    in its place, None where that was not kept, and ``tests`` are sources of the tests that judge it."""

    originals: Mapping[str, Original | None] = field(default_factory=dict)
    work: Sequence[Change] = ()
    before: Mapping[str, Original | None] | None = None
    tests: Mapping[str, bytes] = field(default_factory=dict)

    def lay(self, folder: Path) -> None:
        """Over a copy of the workspace in which nothing else is at work."""
        _lay(folder, self.originals)

    def lay_start(self, folder: Path, *, own_tests: bool = False) -> None:
        """The same with the work too as it was when the run began; with ``own_tests`` that alone. Raises NotSealed."""
        if self.before is None:
            raise NotSealed("a file that the run changed was too large to be kept as it was")
        _lay(folder, self.before if own_tests else {**self.originals, **self.before})

    def changes(self) -> dict[str, tuple[bytes | None, bytes | None]]:
        """The work by path, before and after."""
        return {one.path: (one.before, one.after) for one in self.work}

    def broken(self) -> Canary:
        """The work with the functions that it changed made to raise."""
        return canary(self.changes(), self.tests)


def _lay(folder: Path, originals: Mapping[str, Original | None]) -> None:
    """What is not to be there goes first: a file may have been where a folder is now."""
    for path, original in sorted(originals.items(), key=lambda one: (one[1] is not None, one[0])):
        _clear(folder, path)
        if original is not None:
            _put(folder / path, original)


def lay_work(folder: Path, files: Mapping[str, bytes]) -> None:
    """Over a checkout that is just made; permissions stay."""
    for path, data in files.items():
        mode = os.lstat(folder / path).st_mode & 0o777 if os.path.lexists(folder / path) else 0o644
        _clear(folder, path)
        _put(folder / path, Original(data, mode))


def take_away(folder: Path, paths: Set[str]) -> None:
    """Out of a checkout that is just made; folders where nothing else is in them."""
    for path in sorted(paths, reverse=True):
        place = folder / path
        if place.is_dir() and not place.is_symlink():
            with suppress(OSError):
                place.rmdir()
        else:
            _clear(folder, path)


def seal(run: ToolRun, start: str, commands: Sequence[str], leftovers: Set[str]) -> Seal:
    """For the commands of criteria, with the workspace's kept snapshot ``start``; paths of ``leftovers`` are in no
    checkout. Raises NotSealed."""
    if not start:
        raise NotSealed("how the workspace was when the run began is not kept")
    try:
        now = snapshots.take(run.workspace)
        states = {path: (before, after) for path, before, after in differences(start, now.tree, run.read_blob)}
        states = {path: both for path, both in states.items() if path not in leftovers}
        changes = list(_read(run, states))
        commands = [*commands, *started(files_of_scripts(run.workspace, changes), commands)]
        those = {one.path for one in judging(changes, commands)}
        originals = {path: _original(states[path][0], run.read_blob) for path in those}
    except KeyError:
        raise NotSealed("how the workspace was when the run began is not kept any more") from None
    except (snapshots.TooLarge, PathRefused, OSError) as error:
        raise NotSealed(str(error)) from error
    tests = {path: original.data for path, original in originals.items() if original is not None}
    tests |= other_tests(run.workspace, [one.path for one in changes])
    work = [one for one in changes if one.path not in those]
    return Seal(originals, work, _before(work, states), tests)


def _before(work: Sequence[Change], states: Mapping[str, tuple[str, str]]) -> dict[str, Original | None] | None:
    if any(_kind(states[one.path][0]) == _LARGE for one in work):
        return None
    contents = {hash_of(states[one.path][0]): one.before or b"" for one in work}
    return {one.path: _original(states[one.path][0], contents.__getitem__) for one in work}


def _read(run: ToolRun, states: Mapping[str, tuple[str, str]]) -> Iterator[Change]:
    """Every change but of folders, as bytes; those of a link are what it leads to."""
    room = READ_BYTES
    for path, (before, after) in states.items():
        if {before, after} <= {FOLDER, NOTHING}:
            continue
        if _LARGE in (_kind(before), _kind(after)) and is_in_tests(path):
            raise NotSealed(f"{path} was changed, and is too large to be kept as it was")
        old = _content(before, run.read_blob)
        new = run.workspace.read(path) if _kind(after) == _FILE else _content(after, run.read_blob)
        room -= len(old or b"") + len(new or b"")
        if room < 0:
            raise NotSealed(f"the run changed more than {READ_BYTES >> 20} MB of files")
        yield Change(path, old, new)


def _kind(state: str) -> str:
    return state.partition(":")[0]


def _content(state: str, read: Read) -> bytes | None:
    """None of nothing and of a folder."""
    match _kind(state):
        case "file":
            return read(hash_of(state))
        case "link":
            return os.fsencode(state.removeprefix("link:"))
    return None if state in (FOLDER, NOTHING) else b""


def _original(state: str, read: Read) -> Original | None:
    match _kind(state):
        case "file":
            return Original(read(hash_of(state)), int(state.split(":")[1], 8) & 0o777)
        case "link":
            return Original(link=state.removeprefix("link:"))
    return None


def _clear(folder: Path, path: str) -> None:
    """Make room at ``path``; what stands in its way is the run's: a link, or a file where a folder was."""
    place = folder
    for part in Path(path).parts[:-1]:
        place /= part
        if place.is_symlink() or place.is_file():
            place.unlink()
    place /= Path(path).name
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def _put(place: Path, original: Original) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if original.link:
        place.symlink_to(original.link)
        return
    place.write_bytes(original.data)
    place.chmod(original.mode | 0o600)
