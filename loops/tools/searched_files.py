"""The files that a search goes through: all below a folder but what git would leave out there (SPEC I5).

It hides from searches alone: by name every file can be read, and what a run changed is shown and reviewed whatever a
``.gitignore`` says.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from loops.tools.git_ignore import MOST_BYTES, GitIgnore, TooLong
from loops.tools.output import clean_text
from loops.tools.sandbox.safe_paths import PathRefused, relative
from loops.tools.workspace import Workspace

LONGEST_S = 2.0
"""That all rules of one search may take together."""
_NAMED = 5
TOO_LONG = "[.gitignore has too many rules: from some point on nothing was left out by them]"


class SearchedFiles:
    """Of the folder ``top``. ``include_ignored``, or a ``top`` that is ignored itself: nothing is left out."""

    def __init__(
        self, workspace: Workspace, top: str, *, include_ignored: bool = False, recursive: bool = True
    ) -> None:
        self._workspace, self._top, self._recursive = workspace, relative(top), recursive
        self._listed = workspace.beneath.listed()
        self._git = GitIgnore(self._rules, seconds=LONGEST_S)
        self._in_time, self._asks = True, not include_ignored
        if self._top != "." and self._ignores(self._top, is_folder=True):
            self._asks = False
        self.left_out = 0
        """Paths; a folder counts once, with all that lies in it."""

    def __iter__(self) -> Iterator[tuple[str, os.stat_result]]:
        """(relative path, status), sorted."""
        return self._workspace.walk(self._top, skips=self._skips)

    @property
    def notes(self) -> list[str]:
        """What was left out, and how to have it, for who searched."""
        notes = []
        if self.left_out:
            paths = f"{self.left_out:,} path{'s' if self.left_out > 1 else ''}"
            notes.append(f"[.gitignore leaves out {paths}, a folder counting once; include_ignored shows them]")
        if unread := self._git.unread:
            more = f" and {len(unread) - _NAMED:,} more" if len(unread) > _NAMED else ""
            notes.append(f"[too long to be read whole: {', '.join(map(clean_text, unread[:_NAMED]))}{more}]")
        return notes if self._in_time else [*notes, TOO_LONG]

    def _skips(self, path: str, status: os.stat_result) -> bool:
        inside = path if self._top == "." else path[len(self._top) + 1 :]
        if not self._recursive and "/" in inside:
            return True
        ignored = self._ignores(path, is_folder=stat.S_ISDIR(status.st_mode))
        self.left_out += ignored
        return ignored

    def _ignores(self, path: str, *, is_folder: bool) -> bool:
        if not self._asks:
            return False
        try:
            return self._git.ignores(path, is_folder=is_folder)
        except TooLong:
            self._asks = self._in_time = False
            return False

    def _rules(self, path: str) -> bytes:
        """No link is followed to them, as git follows none."""
        with suppress(OSError, PathRefused):
            status = self._listed.stat(path)
            if status is not None and stat.S_ISREG(status.st_mode):
                if status.st_size > MOST_BYTES:
                    raise TooLong(path)
                return self._listed.read(path, MOST_BYTES)[0]
        return b""
