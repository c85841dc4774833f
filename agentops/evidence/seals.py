"""Seal what was written since the last round: flat in the length of history, and nothing for whoever writes the rows.

No writer waits for a chain. One round at a time holds an advisory lock, reads rows of the last minutes that have no
seal, and appends seals in batches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction

from agentops.evidence import tables

SLACK = timedelta(minutes=10)
"""How long a transaction may take to commit, and clocks may differ. A row that is dated earlier is never sealed: it was
not there when it says that it was, and verification names it."""
AT_ONCE = 2000
LOCK = 0x5EA1
Row = tuple[str, bytes]
"""(key, digest)."""


class Busy(Exception):
    """Another round is under way."""


@contextmanager
def session() -> Iterator[Any]:
    """A cursor in a transaction that prints rows as every other one does, and may take its time."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('TimeZone', 'UTC', true), set_config('bytea_output', 'hex', true), "
            "set_config('extra_float_digits', '1', true), set_config('statement_timeout', '0', true)"
        )
        yield cursor


def seal(since: Mapping[str, datetime]) -> int:
    """Seal every new row of every table; how many. ``since``: table -> its last round; of others, all. Raises Busy."""
    bounds = {table: at - SLACK for table, at in since.items()}
    return sum(_seal(table, statement, bounds.get(table)) for table, statement in _unsealed().items())


def link(prev: bytes, table: str, number: int, key: str, at: datetime, digest: bytes) -> bytes:
    """Hash of a seal."""
    said = f"{table}\n{number}\n{key}\n{at.timestamp():.6f}\n".encode()
    return hashlib.sha256(prev + said + digest).digest()


def heads() -> dict[str, tuple[int, bytes]]:
    """Number and hash of the last seal of every chain that has one."""
    with connection.cursor() as cursor:
        cursor.execute(_HEADS, [tables.chains()])
        return {table: (number, bytes(digest)) for table, number, digest in cursor.fetchall()}


def newest() -> dict[str, datetime]:
    """When the last seal of every chain was made, as the database says; chains without one are missing."""
    with connection.cursor() as cursor:
        cursor.execute(_NEWEST, [tables.chains()])
        return dict(cursor.fetchall())


def _unsealed() -> dict[str, str]:
    """Table -> query of (key, digest) of rows that have no seal; parameters: bound, bound, at most."""
    found = {
        one.table: f"""
            SELECT {one.key}, {one.digest} FROM {one.table} t
            WHERE (%s::timestamptz IS NULL OR {one.at} >= %s) AND NOT EXISTS (
                SELECT 1 FROM loops_seal s WHERE s."table" = '{one.table}' AND s.key = {one.key})
            ORDER BY {one.at}, {one.key} LIMIT %s
        """  # noqa: S608 - names of our own
        for one in tables.sealed()
    }
    return {tables.HEADS: _JOURNALS, **found}


def _seal(table: str, statement: str, bound: datetime | None) -> int:
    sealed = 0
    while True:
        with session() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])
            if not cursor.fetchone()[0]:
                raise Busy
            cursor.execute(statement, [bound, bound, AT_ONCE])
            rows = [(key, bytes(digest)) for key, digest in cursor.fetchall()]
            if rows:
                _append(cursor, table, rows)
        sealed += len(rows)
        if len(rows) < AT_ONCE:
            return sealed


def _append(cursor: Any, table: str, rows: list[Row]) -> None:
    cursor.execute(_HEADS, [[table]])
    _, number, prev = cursor.fetchone() or (table, 0, b"")
    cursor.execute("SELECT clock_timestamp()")
    at = cursor.fetchone()[0]
    prev, hashes = bytes(prev), []
    for place, (key, digest) in enumerate(rows, start=number + 1):
        prev = link(prev, table, place, key, at, digest)
        hashes.append(prev)
    numbers = list(range(number + 1, number + 1 + len(rows)))
    keys, digests = [key for key, _ in rows], [digest for _, digest in rows]
    cursor.execute(_INSERT, [table, at, numbers, keys, digests, hashes])


_HEADS = """
    SELECT t.name, s.number, s.hash FROM unnest(%s::text[]) AS t(name), LATERAL (
        SELECT number, hash FROM loops_seal WHERE "table" = t.name ORDER BY number DESC LIMIT 1) s
"""
_NEWEST = """
    SELECT t.name, s.at FROM unnest(%s::text[]) AS t(name), LATERAL (
        SELECT at FROM loops_seal WHERE "table" = t.name ORDER BY number DESC LIMIT 1) s
"""
_JOURNALS = """
    SELECT concat_ws(':', t.id, t.head_seq), t.head_hash FROM agent_execution_history t
    WHERE (%s::timestamptz IS NULL OR t.id IN (SELECT run_id FROM loops_fact WHERE at >= %s))
      AND t.head_seq > 0 AND NOT EXISTS (
        SELECT 1 FROM loops_seal s WHERE s."table" = 'loops_fact' AND s.key = concat_ws(':', t.id, t.head_seq))
    ORDER BY t.id LIMIT %s
"""
_INSERT = """
    INSERT INTO loops_seal ("table", number, key, digest, at, hash)
    SELECT %s, n.number, n.key, n.digest, %s, n.hash
    FROM unnest(%s::bigint[], %s::text[], %s::bytea[], %s::bytea[]) AS n(number, key, digest, hash)
"""
