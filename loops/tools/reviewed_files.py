"""The bytes behind ``suspicion``: what was kept of changed files, and the test files that stayed as they were."""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from loops.engine.state.remark import Level, Remark
from loops.tools.output import clean_text
from loops.tools.registry import ReadBlob
from loops.tools.sandbox.safe_paths import PathRefused
from loops.tools.snapshots import hash_of
from loops.tools.suspicion import review, scripts
from loops.tools.suspicion.changes import Change
from loops.tools.workspace import Workspace

TESTS_AT_MOST = 300
TEST_BYTES = 200_000
"""Of one test file that nobody changed."""
READ_BYTES = 40_000_000
"""Of all changed files together."""
LISTED = 20_000
"""Paths of the workspace that are passed by in search of tests."""


@dataclass(frozen=True, slots=True)
class Read:
    changes: Sequence[Change]
    unread: Sequence[str] = ()
    """Paths of files whose bytes were not kept, or are too many."""
    tests: Mapping[str, bytes] = field(default_factory=dict)
    scripts: Mapping[str, bytes] = field(default_factory=dict)
    """Where names of scripts and targets stand, as they were when the run began."""


def changed(changes: Mapping[str, tuple[str, str]], read: ReadBlob) -> Read:
    """Files alone: of folders and links there is nothing to be looked into."""
    found, unread, room = list[Change](), list[str](), READ_BYTES
    for path, (before, after) in changes.items():
        if not any(state.startswith(("file:", "large:")) for state in (before, after)):
            continue
        try:
            if room < 0 or any(state.startswith("large:") for state in (before, after)):
                raise KeyError(path)
            data = [read(name) if (name := hash_of(state)) else None for state in (before, after)]
        except KeyError:
            unread.append(path)
            continue
        room -= sum(map(len, filter(None, data)))
        found.append(Change(path, data[0], data[1]))
    return Read(found, unread)


def other_tests(workspace: Workspace, changed: Collection[str]) -> dict[str, bytes]:
    """The first of them, by path."""
    found = dict[str, bytes]()
    for number, (path, status) in enumerate(workspace.walk()):
        if number >= LISTED or len(found) >= TESTS_AT_MOST:
            break
        one = Change(path, b"", b"")
        is_wanted = one.is_test and (one.is_python or one.is_script) and path not in changed
        if is_wanted and stat.S_ISREG(status.st_mode) and status.st_size <= TEST_BYTES:
            with suppress(PathRefused, OSError):
                found[path] = workspace.read(path)
    return found


def files_of_scripts(workspace: Workspace, changes: Iterable[Change]) -> dict[str, bytes]:
    """As they were before the changes."""
    found = {one.path: one.before or b"" for one in changes if one.path in scripts.FILES}
    for path in scripts.FILES:
        if path not in found:
            with suppress(PathRefused, OSError):
                found[path] = workspace.read(path)
    return found


def looked_at(read: Read, commands: Sequence[str], goal: str) -> tuple[Remark, ...]:
    """Also where looking failed: then that is what a reviewer should know."""
    try:
        commands = [*commands, *scripts.started(read.scripts, commands)]
        found = review.remarks(read.changes, commands, goal, read.tests)
    except Exception as error:  # whatever an agent can write, its run goes on to a person
        found = (Remark("not_looked_at", "", f"The changes could not be looked at: {type(error).__name__}."),)
    text = "Not looked at: its contents were not kept, or are too large."
    unread = [Remark("not_looked_at", path, text, level=Level.TO_KNOW) for path in read.unread[: review.MOST]]
    return tuple(
        Remark(one.code, clean_text(one.path)[: review.PATH_CHARS], clean_text(one.text), one.line, one.level)
        for one in (*found, *unread)[: review.MOST]
    )
