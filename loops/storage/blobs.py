"""Bytes by their hash: whole tool outputs and file contents (SPEC C5)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from django.db import connection

_INSERT = "INSERT INTO loops_blob (sha256, size, body) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"


_READ = "SELECT body FROM loops_blob WHERE sha256 = %s"
_STORED = (
    "SELECT sha256 FROM loops_blob b WHERE sha256 = ANY(%s) "
    "AND NOT EXISTS (SELECT 1 FROM loops_condemnedblob c WHERE c.sha256 = b.sha256)"
)


class Stored:
    """What is stored, read and added to on one plain connection: no ORM, since it is asked inside an event loop.

    It remembers what it found for as long as it lives, which is one stretch of work on one run.
    """

    def __init__(self, plain: Any) -> None:
        self._connection = plain
        self._found: set[str] = set()

    def read(self, sha256: str) -> bytes:
        """Raises KeyError for bytes that were never stored."""
        row = self._connection.execute(_READ, [sha256]).fetchone()
        if row is None:
            raise KeyError(sha256)
        return bytes(row[0])

    def among(self, names: Sequence[str]) -> set[str]:
        """Which of these are stored, and will stay."""
        unknown = [name for name in names if name not in self._found]
        if unknown:
            self._found.update(name for (name,) in self._connection.execute(_STORED, [unknown]).fetchall())
        return self._found.intersection(names)

    def save(self, data: bytes) -> str:
        """Store ``data`` once; returns its SHA-256 in hex."""
        sha256 = hashlib.sha256(data).hexdigest()
        self._connection.execute(_INSERT, [sha256, len(data), data])
        return sha256


def save(data: bytes) -> str:
    """The same on the connection of this thread; not inside an event loop."""
    with connection.cursor() as cursor:
        return Stored(cursor).save(data)
