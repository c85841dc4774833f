"""The folder ``.git`` of a workspace after a command: put back where it was, and told of where it is gone (SPEC I7).

Git keeps too much there to be remembered before each command. So the folder is held open, known again by its number
and put back from wherever a command moved it in the workspace; of one that was deleted, the settings and what else is
protected are written again (protected_files.py), and a person is told of the rest.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress

from loops.tools.sandbox.safe_paths import SafeDirectory
from loops.tools.sandbox.workspace_guard.planted_files import Cleanup, changing, open_up, remove
from loops.tools.sandbox.workspace_guard.survey import GIT, STORE, Found, Names, Survey, walk

_NONE = Names.of(())


def bring_back(root: SafeDirectory, before: Survey, cleaning: Cleanup) -> bool:
    """Put the folder back that stood at ``.git`` and does no more; was there need and could it be done? What the
    command put in its place takes the name that the folder had, and is judged there like everything else."""
    if GIT not in before.held or _number(root.fd, GIT) == before.held[GIT].number:
        return False
    number, moved = before.held[GIT].number, list[str]()

    def enters(found: Found) -> bool:
        if found.is_folder and found.path not in before.shut:
            open_up(found)
        if not moved and found.is_folder and (found.status.st_dev, found.status.st_ino) == number:
            aside = f".agentops-{secrets.token_hex(8)}.tmp"
            changing(root.fd, lambda: changing(found.directory, lambda: _exchange(root.fd, found, aside)))
            moved.append(found.path)
        return not moved

    walk(root.fd, _NONE, enters, lambda _: None)
    if not moved:
        _take_place(root, cleaning)
    return bool(moved)


def tell(root: SafeDirectory, before: Survey, cleaning: Cleanup) -> None:
    """Where the commits of a repository are not what they were: nothing here could bring them back."""
    if STORE in before.held and _number(root.fd, STORE) != before.held[STORE].number:
        cleaning.note_left(GIT, "what was committed here is gone; settings and hooks are as they were")


def _exchange(root: int, found: Found, aside: str) -> None:
    with suppress(FileNotFoundError):
        os.rename(GIT, aside, src_dir_fd=root, dst_dir_fd=root)
    with suppress(FileNotFoundError):  # done, when this is done again for want of leave
        os.rename(found.name, GIT, src_dir_fd=found.directory, dst_dir_fd=root)
    try:
        os.rename(aside, found.name, src_dir_fd=root, dst_dir_fd=found.directory)
    except FileNotFoundError:
        pass
    except OSError:  # it had been moved into what took its place
        remove(aside, root)


def _take_place(root: SafeDirectory, cleaning: Cleanup) -> None:
    """What is no folder goes; another folder is judged like every other one."""
    with suppress(FileNotFoundError):
        status = os.stat(GIT, dir_fd=root.fd, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            found = Found(root.fd, "", GIT, status, False, False, False)
            cleaning.note(GIT, "it stood in the place of the repository", found.read())
            changing(root.fd, lambda: remove(GIT, root.fd))


def _number(root: int, path: str) -> tuple[int, int] | None:
    """(st_dev, st_ino) of a folder; None where none is."""
    with suppress(OSError):
        status = os.stat(path, dir_fd=root, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            return status.st_dev, status.st_ino
    return None
