"""Keep protected paths as they are while a command runs: mounted read-only, and put back if changed (SPEC I7).

Mounts stop the plain case with an error the command sees. They cannot stop ``mv .git elsewhere``, so the bytes are
compared and restored afterwards, and what is new at any depth is taken away (planted_files.py). All of this happens
while no
other command lives in the workspace.

A mount needs something to stand on, so a file of known bytes is made where a protected path is missing. A worker that
is killed leaves it: whoever looks at the workspace next knows it by its bytes, takes it for nothing and removes it.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from loops.tools.limits import PROTECTED
from loops.tools.output import clean_text
from loops.tools.sandbox.command import ENVIRONMENT
from loops.tools.sandbox.safe_paths import STRICT, PathRefused, SafeDirectory, relative
from loops.tools.sandbox.workspace_guard import git_folder, git_named, kept_files
from loops.tools.sandbox.workspace_guard.git_settings import HARMLESS_ENDING, SETTINGS
from loops.tools.sandbox.workspace_guard.kept_files import Files
from loops.tools.sandbox.workspace_guard.planted_files import Cleanup, Taken
from loops.tools.sandbox.workspace_guard.survey import Names, Survey, survey

MOST_PROTECTED = 5_000
"""Files and folders at protected paths, below the root of a workspace too; with more of them no command runs."""
MOST_PROTECTED_BYTES = 64 << 20
MOST_MOUNTS = 200
"""Protected paths that are read-only while a command runs; further ones are put back after it."""
MOST_LINKED = 200
"""Files with another name outside; with more of them whole folders of packages are read-only, or no command runs."""
_PACKAGES = frozenset({"node_modules", ".venv", "venv", "site-packages"})

PLACEHOLDER = b"# AgentOps holds this place while a command runs. Nobody needs this file: it may be deleted.\n"


@dataclass(slots=True)
class Guard:
    """What stood in a workspace before a command. ``binds`` and ``masks`` are for bwrap; ``taken`` says what the
    command had left and is gone again, or could not be helped."""

    names: Names
    looked: Survey = field(default_factory=Survey)
    binds: list[str] = field(default_factory=list)
    masks: list[str] = field(default_factory=list)
    before: dict[str, Files] = field(default_factory=dict)
    taken: list[Taken] = field(default_factory=list)

    def restore(self, root: SafeDirectory) -> list[str]:
        """Undo every change to a protected path; the paths that had been changed and are as they were.

        It raises nothing, for the command has run and its result is worth something: what could not be put back or
        taken away is among ``taken``, marked as such, and does not keep the rest from being looked at.
        """
        root = root.listed()
        cleaning = Cleanup(root, self.names, self.looked, self.before)
        self.taken = cleaning.taken
        changed = []
        with cleaning.attempt(git_folder.GIT, "put back"):
            if git_folder.bring_back(root, self.looked, cleaning):
                changed.append(git_folder.GIT)
        with cleaning.attempt(".", "tidied up"):
            remove_placeholders(root, self.masks)
        with cleaning.attempt(".", "looked into"):
            cleaning.run()
        for path, files in [*_lost_settings(root, cleaning), *self.before.items()]:
            with cleaning.attempt(path, "put back", kept_files.bytes_of(path, files)):
                if _is_put_back(root, path, files, cleaning):
                    changed.append(clean_text(path))
        with cleaning.attempt(git_folder.GIT, "looked at"):
            git_folder.tell(root, self.looked, cleaning)
        return changed


def _lost_settings(root: SafeDirectory, cleaning: Cleanup) -> Iterator[tuple[str, Files]]:
    """Settings of git that are gone, of repositories that are still there. At the root they are put back in any case:
    that repository is the workspace's own."""
    before = cleaning.before
    for path, data in before.settings.items():
        folder, name = os.path.split(path)
        if name.casefold() not in SETTINGS or _is_kept(root, path):
            continue
        if folder != ".git" and not _is_folder(root, folder or "."):
            continue
        status, target = before.statuses[path], before.targets.get(path)
        if data is None and target is None:
            cleaning.note_left(path, "it is gone, and was too large to be kept")
        else:
            content = os.fsencode(target or "") if data is None else data
            yield path, {"": kept_files.Entry(status.st_mode, content, (status.st_uid, status.st_gid))}


def _is_kept(root: SafeDirectory, path: str) -> bool:
    """Does a file stand there? What it says is judged where it is found (planted_files.py)."""
    with suppress(OSError, PathRefused):
        status = root.stat(path)
        return status is not None and not stat.S_ISDIR(status.st_mode)
    return False


def _is_folder(root: SafeDirectory, path: str) -> bool:
    with suppress(OSError, PathRefused):
        status = root.stat(path)
        return status is not None and stat.S_ISDIR(status.st_mode)
    return False


def _is_put_back(root: SafeDirectory, path: str, files: Files, cleaning: Cleanup) -> bool:
    """False where it is as it was."""
    try:
        now = kept_files.snapshot(root, path)
    except (OSError, PathRefused, RecursionError):
        now = {"": kept_files.UNREADABLE}
    if now == files:
        return False
    kept_files.remove_escape(root, path)
    kept_files.put_back(root, path, files)
    cleaning.taken += _replaced(path, now, files, cleaning)
    return True


def _replaced(path: str, now: Files, before: Files, cleaning: Cleanup) -> Iterator[Taken]:
    """The versions that are not put back, for whoever wants them."""
    for name, entry in now.items():
        if stat.S_ISREG(entry.mode) and entry != before.get(name):
            place = clean_text(f"{path}/{name}" if name else path)
            yield Taken(place, "what the command made of it; it is as it was", cleaning.keep(entry.data))


def placeholders(root: SafeDirectory, paths: Iterable[str]) -> list[str]:
    """Those of ``paths`` where nothing stands but what a command's mount needed."""
    found = []
    for path in paths:
        with suppress(OSError, PathRefused):  # nearly always nothing is there, or something of another size
            glance = os.stat(path, dir_fd=root.fd, follow_symlinks=False)
            if glance.st_size == len(PLACEHOLDER) and root.read(path, len(PLACEHOLDER))[0] == PLACEHOLDER:
                found.append(path)
    return found


def remove_placeholders(root: SafeDirectory, protected: Iterable[str]) -> None:
    """Take them away; for whoever holds the workspace alone."""
    for path in placeholders(root, protected):
        with suppress(OSError, PathRefused), root.opened(os.path.dirname(path) or ".", os.O_RDONLY) as parent:
            os.unlink(os.path.basename(path), dir_fd=parent)


def tidy(root: SafeDirectory) -> None:
    """Remove what a killed worker left, unless a command runs in the workspace now, whose mounts stand on it."""
    if not (left := placeholders(root, PROTECTED)):
        return
    with suppress(OSError), root.opened(".", os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_placeholders(root, left)


def guard(root: SafeDirectory, protected: Iterable[str], mounts: bool = True, stated: Iterable[str] = ()) -> Guard:
    """Look at the workspace, remember what stands at protected paths and, for mounts, make a place where nothing does.
    ``stated`` are those that the workspace itself protects, each from its top.

    Raises PathRefused where that is too much, where a command could change files outside through another name, or hide
    something in a folder that is shut.
    """
    protected = tuple(protected)
    held = tuple(path for path in protected if path in PROTECTED)
    remove_placeholders(root, held)
    names = Names.of(protected)
    result = Guard(names, survey(root.fd, names))
    if shut := result.looked.ours:
        more = f" (and {len(shut) - 1:,} more)" if len(shut) > 1 else ""
        raise PathRefused(
            f"the folder {shut[0]!r}{more} is shut: a command could open it, and nobody could tell what it left there; "
            "let it be looked into (chmod u+rx), or move it out of the workspace"
        )
    _add_held(root, result, held, mounts)
    _add_deeper(root, result, mounts, frozenset(stated))
    _add_elsewhere(result, mounts)
    return result


def _add_held(root: SafeDirectory, result: Guard, held: Iterable[str], mounts: bool) -> None:
    """Those that are protected at the root also where they are missing."""
    for path in held:
        if path.split("/")[0] == git_folder.GIT and _leads_on(root, git_folder.GIT):
            path = git_folder.GIT  # its hooks are elsewhere: outside and unreachable, or a repository of their own
        try:
            result.before[path] = kept_files.snapshot(root, path)
        except PathRefused as error:
            if error.escape:
                continue  # a person linked it outside; nothing that runs here can follow it
            raise
        if not mounts:
            continue
        try:
            with root.opened(path, os.O_PATH, resolve=STRICT):
                result.binds.append(path)
        except FileNotFoundError:
            _add_mask(root, path, result)
        except (PathRefused, NotADirectoryError):
            continue  # a link stands in the way: never a mount target, restored afterwards


def _add_deeper(root: SafeDirectory, result: Guard, mounts: bool, stated: frozenset[str]) -> None:
    """Protected paths that are there already, at every depth, and what settings of git name or the workspace states,
    there or not; the first of them read-only."""
    entries = size = 0
    trees = [os.path.dirname(path) for path in result.looked.targets if os.path.basename(path) == git_folder.GIT]
    named = {*git_named.named(root, result.looked.settings, trees), *_reached(root, stated)}
    for path in sorted({*result.looked.steering, *named}, key=lambda path: (path.count("/"), path)):
        if path in result.before:
            continue
        files = kept_files.snapshot(root.listed(), path)
        if path not in named and _is_harmless(files):
            continue
        entries += len(files)
        size += sum(len(entry.data) for entry in files.values())
        if entries > MOST_PROTECTED or size > MOST_PROTECTED_BYTES:
            raise PathRefused(
                f"the workspace holds more than {MOST_PROTECTED:,} files with protected names, or more than "
                f"{MOST_PROTECTED_BYTES >> 20} MB of them, the last {path!r}: commands need a folder with fewer of them"
            )
        result.before[path] = files
        if mounts and files and len(result.binds) < MOST_MOUNTS and _usable(path) and not stat.S_ISLNK(files[""].mode):
            result.binds.append(path)


def _reached(root: SafeDirectory, stated: Iterable[str]) -> Iterator[str]:
    """Without those to which a link leads: what lies behind it has another path."""
    for path in stated:
        try:
            with suppress(OSError), root.opened(path, os.O_PATH | os.O_NOFOLLOW, resolve=STRICT):
                pass
        except PathRefused:
            continue
        yield path


def _add_elsewhere(result: Guard, mounts: bool) -> None:
    """Files with another name outside are read-only for commands, or nothing runs."""
    read_only = [*result.binds, ENVIRONMENT] if mounts else []
    paths = [path for path in result.looked.elsewhere if not _covered(path, read_only)]
    if mounts and len(paths) > MOST_LINKED:
        paths = sorted({_package(path) for path in paths})
    if paths and (not mounts or len(paths) > MOST_LINKED):
        more = f" (and of {len(paths) - 1:,} more)" if len(paths) > 1 else ""
        raise PathRefused(
            f"{paths[0]!r}{more} has another name outside of the workspace, by which a command would change the file "
            "there: put copies in their place (cp -a the folder; git clone --no-hardlinks for a clone of a folder), or "
            "let the workspace be copied for each run"
        )
    result.binds = sorted([*result.binds, *paths])


def _covered(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _package(path: str) -> str:
    """The folder of installed packages that holds ``path``, or ``path`` itself."""
    parts = path.split("/")
    at = next((at for at, part in enumerate(parts[:-1]) if part in _PACKAGES), None)
    return path if at is None else "/".join(parts[: at + 1])


def _usable(path: str) -> bool:
    """Does the path say to a mount, too, what it says to the disk?"""
    with suppress(PathRefused):
        return relative(path) == path
    return False


def _is_harmless(files: Files) -> bool:
    """Only folders, and hooks that never run."""
    return all(stat.S_ISDIR(entry.mode) or name.endswith(HARMLESS_ENDING) for name, entry in files.items())


def _leads_on(root: SafeDirectory, path: str) -> bool:
    """A file or a link: a linked work tree, a submodule, or a repository that a person keeps elsewhere."""
    status = root.stat(path)
    return status is not None and (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode))


def _add_mask(root: SafeDirectory, path: str, result: Guard) -> None:
    """A missing file is masked only where its folder exists; a folder made by the command is checked afterwards."""
    with suppress(FileNotFoundError, NotADirectoryError, PathRefused):
        parent, name = os.path.split(path)
        with root.opened(parent or ".", os.O_RDONLY | os.O_DIRECTORY, resolve=STRICT) as directory:
            _place(name, directory)
            result.masks.append(path)


def _place(name: str, directory: int) -> None:
    """Make a placeholder, whole from its first moment on where the file system can."""
    try:
        descriptor = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o444, dir_fd=directory)
    except OSError:
        descriptor = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o444, dir_fd=directory)
        os.write(descriptor, PLACEHOLDER)
        os.close(descriptor)
        return
    try:
        os.write(descriptor, PLACEHOLDER)
        os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=directory, follow_symlinks=True)
    finally:
        os.close(descriptor)
