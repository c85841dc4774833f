"""Bytes by their hash: whole tool outputs and file contents (SPEC C5)."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import psycopg
from django.db import connection

_INSERT = "INSERT INTO loops_blob (sha256, size, body) VALUES (%s, %s, %b) ON CONFLICT DO NOTHING"
_INSERT_MANY = (
    "INSERT INTO loops_blob (sha256, size, body) SELECT b.name, length(b.body), b.body "
    "FROM unnest(%s::text[], %b::bytea[]) AS b(name, body) ON CONFLICT DO NOTHING"
)
_HOLD = "LOCK TABLE loops_blob IN ROW EXCLUSIVE MODE"
_THERE = "SELECT sha256 FROM loops_blob WHERE sha256 = ANY(%s)"
LARGE_BLOB = 1_000_000
STAGED_BYTES = 16_000_000
"""Of what is staged for one append; more is sent ahead, so that no worker holds a whole workspace."""
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


class Gone(Exception):
    """What was sent ahead was pruned before a fact named it."""


class Staged:
    """Bodies that the next append stores with the facts that name them; ``sent`` are stored already, and bind nobody:
    a blob is what its name says, and counts only once a fact names it."""

    def __init__(self, cursor: Callable[[], psycopg.Cursor[Any]]) -> None:
        self.bodies, self.sent = dict[str, bytes](), set[str]()
        self._bytes, self._cursor, self._thread = 0, cursor, threading.get_ident()

    def add(self, data: bytes) -> str:
        """SHA-256 (hex) of ``data``. Safe from any thread; the owner's own sends ahead what becomes too much."""
        sha256 = hashlib.sha256(data).hexdigest()
        if sha256 not in self.sent and sha256 not in self.bodies:
            self.bodies[sha256] = data
            self._bytes += len(data)
            if self._bytes > STAGED_BYTES and threading.get_ident() == self._thread:
                self._send()
        return sha256

    def clear(self) -> None:
        self.bodies.clear()
        self.sent.clear()
        self._bytes = 0

    def _send(self) -> None:
        names = list(self.bodies)  # other threads may add to it meanwhile
        self._cursor().execute(_INSERT_MANY, [names, [self.bodies[name] for name in names]])
        self.sent.update(names)
        self._bytes = 0
        for name in names:
            del self.bodies[name]


def send_ahead(cursor: psycopg.Cursor[Any], blobs: Mapping[str, bytes]) -> None:
    """Large ones, outside of any transaction: who takes long to send within one looks like an owner that froze."""
    for name, body in blobs.items():
        if len(body) >= LARGE_BLOB:
            cursor.execute(_INSERT, [name, len(body), body])


def store(cursor: psycopg.Cursor[Any], blobs: Mapping[str, bytes], sent: Collection[str]) -> None:
    """What the facts name is there when they are; large ones, and those ``sent``, are stored already, unless somebody
    pruned them since. Raises Gone."""
    large = [name for name, body in blobs.items() if len(body) >= LARGE_BLOB]
    missing = dict(blobs)
    if large or sent:
        cursor.execute(_HOLD)
        there = {name for (name,) in cursor.execute(_THERE, [[*large, *sent]]).fetchall()}
        missing = {name: body for name, body in blobs.items() if name not in there}
        if gone := set(sent) - there:
            raise Gone(f"{len(gone)} bodies")
    if missing:
        cursor.execute(_INSERT_MANY, [list(missing), list(missing.values())])
