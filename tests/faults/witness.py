"""What a worker was told is durable: one line outside the database for each commit that came back."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def _file() -> Path:
    from django.conf import settings

    return Path(settings.PATHS.state) / "acknowledged.jsonl"


def attend() -> None:
    """Note every append of this process after it returned."""
    from loops.storage.journal import PgJournal

    append = PgJournal.append

    def noted(self: Any, entries: Sequence[Any], within: Sequence[Any] = ()) -> None:
        append(self, entries, within)
        if entries:
            note(str(self._run), self._seq, bytes(self._head).hex())

    PgJournal.append = noted  # type: ignore[method-assign]


def note(run_id: str, seq: int, head: str) -> None:
    line = json.dumps([run_id, seq, head]).encode() + b"\n"
    descriptor = os.open(_file(), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def acknowledged() -> list[tuple[str, int, str]]:
    file = _file()
    return [tuple(json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


def missing() -> list[str]:
    """What was acknowledged and is not in the database (any more)."""
    from django.db import connection

    told = acknowledged()  # before the database is read: others go on meanwhile
    stored: dict[str, dict[int, str]] = defaultdict(dict)
    with connection.cursor() as cursor:
        cursor.execute("SELECT run_id::text, seq, encode(hash, 'hex') FROM loops_fact")
        for run_id, seq, digest in cursor.fetchall():
            stored[run_id][seq] = digest
    return [
        f"{run_id}: fact {seq} was acknowledged and is {'other' if seq in stored[run_id] else 'gone'}"
        for run_id, seq, head in told
        if stored[run_id].get(seq) != head
    ]


def forget() -> None:
    _file().unlink(missing_ok=True)
