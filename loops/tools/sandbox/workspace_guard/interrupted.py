"""What stood in a workspace before a command is on disk while it runs: were its worker killed, what the command had
planted is taken away by whoever comes next, another command or the sweep of lost workers (SPEC I7, J4, ADR 0048).

One file a workspace, in a folder that no command reaches, by the path of the workspace. It is written before a command
starts and removed after its cleaning up, both by whoever holds the workspace alone. What a later cleaning up took away
is kept in it until the result of a command has told of it.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from loops.tools.sandbox.safe_paths import PathRefused, SafeDirectory
from loops.tools.sandbox.workspace_guard.kept_files import Entry
from loops.tools.sandbox.workspace_guard.planted_files import Taken
from loops.tools.sandbox.workspace_guard.protected_files import Guard
from loops.tools.sandbox.workspace_guard.survey import HeldFolder, Names, Survey

log = logging.getLogger(__name__)
_WHOSE = "by a command whose worker was lost"
_UNKNOWN = (
    "a worker was lost during a command, and the record of what stood here cannot be read: look before you use it"
)
_STATUS_FIELDS = 10
"""Of ``os.stat_result``: whole seconds, as a tuple has them."""


@dataclass(frozen=True, slots=True)
class Late:
    """What a command had changed whose worker was killed, by the run that had asked for it: put right after all."""

    run: str
    workspace: str
    restored: tuple[str, ...] = ()
    taken: tuple[Taken, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.restored or self.taken)

    def with_(self, restored: Sequence[str], taken: Sequence[Taken]) -> Late:
        found = (replace(one, why=f"{one.why} ({_WHOSE})") for one in taken)
        return replace(self, restored=(*self.restored, *restored), taken=(*self.taken, *found))

    def plain(self) -> dict[str, Any]:
        taken = [[one.path, one.why, _text(one.data), one.stays] for one in self.taken]
        return {"restored": self.restored, "taken": taken}


DRAFT = ".tmp"


class Record:
    """The file about one workspace in ``folder``; without a folder nothing is remembered. Every method is for whoever
    holds the workspace alone."""

    def __init__(self, folder: str, root: SafeDirectory) -> None:
        self._root, self._path = root, _file(folder, root.root) if folder else None
        self._late = Late("", root.root)

    def begin(self, guard: Guard, run: str) -> None:
        """Remember ``guard``: the next thing to happen is a command of ``run``. Raises OSError where the disk
        refuses it, and then nothing may run."""
        self._write(run, guard)

    def ended_after(self, guard: Guard) -> list[str]:
        """Undo what the command changed, see ``Guard.restore``, and forget what stood here."""
        changed = guard.restore(self._root)
        self.end()
        return changed

    def end(self, *, told: bool = False) -> None:
        """Whatever the command left was taken away. ``told``: its result tells of what ``put_right`` found too."""
        if self._late and not told:
            with suppress(OSError):  # the audit log has it, and what is put right is not to be put right once more
                self._write(self._late.run)
                return
        if self._path:
            self._path.unlink(missing_ok=True)

    def put_right(self) -> Late:
        """Clean up after a command that was not cleaned up after; all that no result has told of so far. A record that
        cannot be read is told of too: nobody knows then what is a person's."""
        try:
            self._late, guard = self._read()
        except (ValueError, LookupError, TypeError, AttributeError):
            self._late = replace(self._late, taken=(Taken(".", _UNKNOWN, stays=True),))
            self.end()
            return self._late
        if guard:
            self._late = self._late.with_(guard.restore(self._root), guard.taken)
            self.end()
        return self._late

    def _read(self) -> tuple[Late, Guard | None]:
        if not self._path or not self._path.exists():
            return self._late, None
        head, body = map(json.loads, self._path.read_bytes().split(b"\n"))
        if head["inode"] != self._root.inode:  # a folder of before, of the same name
            return self._late, None
        taken = tuple(Taken(path, why, _bytes(data), stays) for path, why, data, stays in body["taken"])
        late = replace(self._late, run=body["run"], restored=tuple(body["restored"]), taken=taken)
        return late, _guard(body["guard"], os.fstat(self._root.fd)) if body["guard"] else None

    def _write(self, run: str, guard: Guard | None = None) -> None:
        """In one step, durably. The first line is for whoever looks through all records again and again."""
        if not self._path:
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._path.with_suffix(DRAFT)
        head = {"path": self._root.root, "inode": self._root.inode, "open": guard is not None}
        body = {"run": run, "guard": guard and _plain(guard), **self._late.plain()}
        try:
            with open(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
                file.write(f"{json.dumps(head)}\n{json.dumps(body)}")
                file.flush()
                os.fsync(file.fileno())
            draft.rename(self._path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


def forget(folder: str, workspace: str) -> None:
    """What stood in a folder that is taken away, with all that a command left in it. A worker may have died while it
    wrote that down."""
    record = _file(folder, workspace)
    for path in (record, record.with_suffix(DRAFT)):
        path.unlink(missing_ok=True)


def _file(folder: str, workspace: str) -> Path:
    return Path(folder, f"{hashlib.sha256(os.fsencode(workspace)).hexdigest()}.json")


def put_right_all(folder: str) -> Iterator[Late]:
    """Clean up wherever a worker was killed during a command and none runs now; those where something was found."""
    for path in sorted(Path(folder).glob("*.json")):
        try:
            with path.open("rb") as file:
                head = json.loads(file.readline())
            if head["open"] and (late := _put_right_at(folder, head["path"])):
                yield late
        except FileNotFoundError:  # the command has ended, or the workspace is gone
            continue
        except (OSError, PathRefused, ValueError, LookupError, TypeError) as error:
            _say_once(path, str(error))


@cache
def _say_once(path: Path, error: str) -> None:
    log.warning("%s: what a command left in its workspace could not be looked at (%s)", path, error)


def _put_right_at(folder: str, workspace: str) -> Late | None:
    with SafeDirectory(workspace) as root, root.opened(".", os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        return Record(folder, root).put_right()


# --- a guard as JSON: names may be any bytes, which json writes as it does any text --------------------------------


def _plain(guard: Guard) -> dict[str, Any]:
    looked = guard.looked
    return {
        "names": [sorted(guard.names.alone), sorted(guard.names.below)],
        "settings": {path: _text(data) for path, data in looked.settings.items()},
        "statuses": {path: tuple(status)[:_STATUS_FIELDS] for path, status in looked.statuses.items()},
        "marks": looked.marks,
        "targets": looked.targets,
        "shut": sorted(looked.shut),
        "held": {path: folder.number for path, folder in looked.held.items()},
        "masks": guard.masks,
        "before": {
            path: {inside: [entry.mode, _text(entry.data), *entry.owner] for inside, entry in files.items()}
            for path, files in guard.before.items()
        },
    }


def _guard(found: Mapping[str, Any], root: os.stat_result) -> Guard:
    """As it was. The number of a device may be another one after a start of the machine: it is that of ``root``."""
    alone, below = found["names"]
    looked = Survey(
        settings={path: _bytes(data) for path, data in found["settings"].items()},
        statuses={path: os.stat_result(status) for path, status in found["statuses"].items()},
        marks={path: (root.st_dev, *mark[1:]) for path, mark in found["marks"].items()},
        targets=dict(found["targets"]),
        shut=set(found["shut"]),
        held={path: HeldFolder((root.st_dev, number)) for path, (_, number) in found["held"].items()},
    )
    before = {
        path: {
            inside: Entry(mode, _bytes(data) or b"", (user, group))
            for inside, (mode, data, user, group) in files.items()
        }
        for path, files in found["before"].items()
    }
    names = Names(frozenset(alone), frozenset((folder, name) for folder, name in below))
    return Guard(names, looked, masks=list(found["masks"]), before=before)


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
