"""The anchor file: signed heads of all chains of seals, in the state folder, where no role of the database writes.

One JSON line each, ``{"at", "began", "heads": {table: [number, hash (hex)]}, "mac"}``; ``mac`` is HMAC-SHA256 (RFC
2104) with a key that is derived from the installation's secret. Appended and flushed to disk by the clock, thinned so
that it stays bounded: a newer head vouches for everything below it.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings

from agentops.embedded.paths import Paths

FOLDER, FILE = "anchors", "heads.jsonl"
LOGGED = "anchored {"
"""How an anchor begins in a log."""
MOST_LINES, NEWEST_LINES, DAILY_LINES = 2000, 1000, 400
TAIL_BYTES = 1 << 16
log = logging.getLogger(__name__)
Heads = dict[str, tuple[int, bytes]]


class AnchorError(Exception):
    """The file cannot be believed. The text says why."""


@dataclass(frozen=True)
class Anchor:
    """Heads as they were at a time. ``began``: history is judged from here on only; why is in the audit log."""

    at: datetime
    heads: Heads
    began: bool = False


def file() -> Path:
    """Where anchors lie."""
    folder: Path = settings.PATHS.state / FOLDER
    return folder / FILE


def key(paths: Paths | None = None) -> bytes:
    """What anchors are signed with: derived from the stored secret, never in the database."""
    return (paths or settings.PATHS).secret("anchors").encode()


def signed(anchor: Anchor, secret: bytes | None = None) -> str:
    """One line, without its end."""
    heads = {table: [number, digest.hex()] for table, (number, digest) in anchor.heads.items()}
    plain = {"at": anchor.at.isoformat(), "began": anchor.began, "heads": heads}
    return json.dumps({**plain, "mac": _mac(plain, secret or key())}, sort_keys=True)


def parsed(line: str, secret: bytes | None = None) -> Anchor:
    """Raises AnchorError for a line that is none, or signed by somebody else."""
    try:
        plain = json.loads(line)
        mac = plain.pop("mac")
        if not hmac.compare_digest(str(mac), _mac(plain, secret or key())):
            raise AnchorError("is not signed with this installation's key")
        heads = {table: (int(number), bytes.fromhex(digest)) for table, (number, digest) in plain["heads"].items()}
        return Anchor(datetime.fromisoformat(plain["at"]), heads, bool(plain["began"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AnchorError(f"is unreadable ({error})") from error


def read(path: Path | None = None) -> list[Anchor]:
    """All anchors, oldest first, from the last beginning on; empty when there is no file. Raises AnchorError.

    ``path`` is a copy of the file, or a log of the clock kept elsewhere: its other lines are passed over.
    """
    lines = _lines(path or file(), whole=True)
    if path:
        lines = [told for told in map(_told, lines) if told]
    return _since_beginning(_parse(path or file(), lines))


def newest() -> Anchor | None:
    """The last anchor, by the end of the file alone. Raises AnchorError."""
    found = _lines(file(), whole=False)
    return _parse(file(), found[-1:])[0] if found else None


def append(anchor: Anchor) -> None:
    """Add a line that is on disk when this returns. Raises OSError, and leaves no part of a line that is read."""
    line = signed(anchor)
    with _locked() as descriptor:
        stream = os.fdopen(os.dup(descriptor), "r+b")
        with stream:
            whole = stream.read()
            kept = whole[: whole.rfind(b"\n") + 1]
            stream.truncate(len(kept))  # what a full disk left of a line that was never written whole
            stream.seek(0, os.SEEK_END)
            stream.write(f"{line}\n".encode())
            stream.flush()
            os.fsync(stream.fileno())
        lines = kept.decode(errors="replace").splitlines()
        if len(lines) > MOST_LINES:
            _thin([*lines, line])
    if settings.LOG_ANCHORS:
        log.info("%s%s", LOGGED, line.removeprefix("{"))


def set_aside() -> None:
    """Put a file that cannot be believed beside its place, for whoever looks into it."""
    path = file()
    if path.exists():
        path.rename(path.with_name(f"{FILE}.{datetime.now(UTC):%Y%m%d-%H%M%S}"))


def _mac(plain: dict[str, Any], secret: bytes) -> str:
    return hmac.new(secret, json.dumps(plain, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def _lines(path: Path, *, whole: bool) -> list[str]:
    """Lines that were finished."""
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            begin = 0 if whole else max(0, size - TAIL_BYTES)
            stream.seek(begin)
            found = stream.read().decode(errors="replace").split("\n")[:-1]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise AnchorError(f"{path} cannot be read ({error.strerror})") from error
    return found[1:] if begin else found


def _told(line: str) -> str:
    """The anchor in a line of a copy, or of a log of either format; "" where there is none."""
    try:
        said = json.loads(line)
    except ValueError:
        said = {"message": line}
    if not isinstance(said, dict):
        return ""
    if "message" not in said:
        return line
    begin = str(said["message"]).find(LOGGED)
    return str(said["message"])[begin + len(LOGGED) - 1 :] if begin >= 0 else ""


def _parse(path: Path, lines: list[str]) -> list[Anchor]:
    secret, found = key(), []
    for place, line in enumerate(lines, start=1):
        try:
            found.append(parsed(line, secret))
        except AnchorError as error:
            raise AnchorError(f"a line of {path} ({place} of {len(lines)} read) {error}") from error
    return found


def _since_beginning(anchors: list[Anchor]) -> list[Anchor]:
    places = [place for place, anchor in enumerate(anchors) if anchor.began]
    return anchors[places[-1] :] if places else anchors


@contextmanager
def _locked() -> Iterator[int]:
    """The open file, held against other writers; made when it is not there, for its owner only."""
    path = file()
    path.parent.mkdir(mode=0o700, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):  # not thinned meanwhile
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _thin(lines: list[str]) -> None:
    """Keep the newest lines, and of older ones the last of each day, and beginnings."""
    older, new = lines[:-NEWEST_LINES], lines[-NEWEST_LINES:]
    daily: dict[str, str] = {}
    begun = [line for line in older if json.loads(line)["began"]][-1:]
    for line in older:
        daily[json.loads(line)["at"][:10]] = line
    kept = [line for line in older if line in begun or line in set([*daily.values()][-DAILY_LINES:])]
    path = file()
    draft = path.with_name(f".{FILE}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        stream.write("".join(f"{line}\n" for line in [*kept, *new]))
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(path)
