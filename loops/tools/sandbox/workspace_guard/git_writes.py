"""What file tools may not write because git would obey it, in folders that are not called ``.git`` (SPEC I7).

The rule is that of the walk after a command (survey.py, planted_files.py): what git takes for a repository it tells by
its shape, and in one no hooks and no orders may appear. A command is cleaned up after; a file tool is refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from loops.tools.sandbox.safe_paths import PathRefused, SafeDirectory
from loops.tools.sandbox.workspace_guard.git_settings import (
    HARMLESS_ENDING,
    HOOKS,
    SETTINGS,
    SHAPE,
    UNFINISHED,
    is_repository,
    obeys,
    orders,
)
from loops.tools.sandbox.workspace_guard.survey import LARGEST_SETTINGS

_TELLING = SHAPE | SETTINGS | UNFINISHED | {HOOKS}


def refusal(root: SafeDirectory, path: str, *, moved: bool = False) -> str:
    """Why ``path`` may not be written, whatever is written; "" where it may. ``moved``: something that nobody looks
    into is to stand there."""
    parts = path.split("/")
    for at, part in enumerate(parts):
        name, folder, is_last = part.casefold(), "/".join(parts[:at]), at == len(parts) - 1
        if is_last and moved and obeys(os.path.basename(folder).casefold(), name, of_git=False):
            return f"git would obey it in {folder or '.'!r}"
        if name not in _TELLING:
            continue  # what is called otherwise costs no look at the folder
        present = _names(root, folder)
        if not is_repository(folder, {*map(str.casefold, present), name}):
            continue
        if name == HOOKS and (moved if is_last else not parts[-1].endswith(HARMLESS_ENDING)):
            return f"git would run it as a hook of {folder or '.'!r}"
        if name in SETTINGS | UNFINISHED and is_last and moved:
            return f"git would obey it in {folder or '.'!r}"
        if name in SHAPE and (why := next(_loaded(root, folder, present, name), "")):
            return f"it would make {folder or '.'!r} a repository of git {why}"
    return ""


def refusal_of_settings(root: SafeDirectory, path: str, data: bytes | None) -> str:
    """Why the file may not hold ``data``, or, with None, not be deleted: as after a command, git's orders there have to
    be what they were."""
    folder, name = os.path.split(path)
    is_settings = name.casefold() in SETTINGS
    of_git = is_settings and is_repository(folder, set(map(str.casefold, _names(root, folder))))
    if not obeys(os.path.basename(folder).casefold(), name.casefold(), of_git):
        return ""
    before, after = _orders(root, folder, name), orders(name.casefold(), data or b"", folder)
    if before == after:
        return ""
    said = "; ".join(one for one in after if one not in before) or "a person's own is removed"
    return f"git would obey what is set ({said})"


def _loaded(root: SafeDirectory, folder: str, present: set[str], new: str) -> Iterator[str]:
    """What a folder holds that git would obey if ``new`` made it a repository."""
    names = set(map(str.casefold, present))
    if is_repository(folder, names):
        return
    if "commondir" in {*names, new}:
        yield "that leads to another one"
    for name in sorted(present):
        if name.casefold() in SETTINGS and (said := _orders(root, folder, name)):
            yield f"with orders for git ({'; '.join(said)})"
        if name.casefold() in UNFINISHED:
            yield f"with work that is not finished ({name})"
        if name.casefold() == HOOKS and any(
            not hook.endswith(HARMLESS_ENDING) for hook in _names(root, f"{folder}/{name}".lstrip("/"))
        ):
            yield f"with hooks ({name})"


def _orders(root: SafeDirectory, folder: str, name: str) -> tuple[str, ...]:
    status = root.stat(path := f"{folder}/{name}".lstrip("/"))
    if status is None or stat.S_ISDIR(status.st_mode):
        return ()
    data: bytes | None = None
    with suppress(OSError, PathRefused):
        data = root.read(path, LARGEST_SETTINGS)[0] if stat.S_ISREG(status.st_mode) else None
    return orders(name.casefold(), data, folder)


def _names(root: SafeDirectory, folder: str) -> set[str]:
    with suppress(OSError), root.opened(folder or ".", os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        return set(os.listdir(descriptor))
    return set()
