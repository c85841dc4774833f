"""Rows against their seals, seals against the anchors: what was changed, removed or inserted, table by table.

Reads all of history: for `verify_chain` and restoring, not for a page.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from django.db import connection

from agentops.evidence import anchors, rounds, seals, tables
from agentops.evidence.anchors import Anchor, AnchorError
from loops.models import Seal

CHUNK = 2000
CHANGED, REMOVED, CUT, INSERTED = "was changed", "was removed", "was removed at the end", "was inserted afterwards"


@dataclass(slots=True)
class Evidence:
    """``rows`` with a seal; ``waiting`` for one, too young to be missed; ``anchored``: when, None without an anchor."""

    rows: int = 0
    waiting: int = 0
    anchored: datetime | None = None
    problems: list[str] = field(default_factory=list)


def verify(path: Path | None = None, run: uuid.UUID | None = None) -> Evidence:
    """Check all tables, or the journal of one run, by the installation's own anchors, or by a copy of that file kept
    elsewhere."""
    try:
        history = anchors.read(path)
    except AnchorError as error:
        found = judge([], run)
        found.problems.insert(0, f"the anchor: {error}; cut ends cannot be found without it")
        return found
    found = judge(history, run)
    if not history and (path or rounds.was_begun()):
        found.problems.insert(0, f"the anchor {path or anchors.file()} is missing: cut ends cannot be found without it")
    return found


def judge(history: list[Anchor], run: uuid.UUID | None = None) -> Evidence:
    """Check all tables, or the journal of one run, by the anchors given, oldest first."""
    last = history[-1] if history else None
    found = Evidence(anchored=last.at if last else None)
    for table in [tables.HEADS] if run else tables.chains():
        found.problems += _chain_faults(table, history)
    bounds = {table: at - seals.SLACK for table, at in rounds.since(last).items()}
    if run:
        found.problems += journals(bounds.get(tables.HEADS), run)
        return found
    with seals.session() as cursor:
        for one in tables.sealed():
            cursor.execute(_COMPARED.format(key=one.key, digest=one.digest, at=one.at, table=one.table), [one.table])
            _take(found, one.table, cursor.fetchall(), bounds.get(one.table))
        cursor.execute(_NUMBER, [tables.HEADS])
        found.rows += cursor.fetchone()[0]
    found.problems += journals(bounds.get(tables.HEADS))
    if last and (broken := rounds.breaks(last)):
        found.problems.append(_told(history, broken))
    return found


def journals(bound: datetime | None, run: uuid.UUID | None = None) -> list[str]:
    """Journals that do not hold what was sealed of them, or go on after it without having been active since."""
    with connection.cursor() as cursor:
        cursor.execute(_CUT, [run, run])
        found = [
            f"{tables.HEADS}: the journal of run {name} was cut or rewritten: fact {seq} is not the one sealed "
            f"{at:%Y-%m-%d %H:%M:%S} UTC"
            for name, seq, at in cursor.fetchall()
        ]
        if bound is not None:
            cursor.execute(_BEYOND, [bound, run, run])
            found += [
                f"{tables.HEADS}: {seq} facts of run {name}: the last ones were inserted afterwards"
                for name, seq in cursor.fetchall()
            ]
    return found


def _chain_faults(table: str, history: list[Anchor]) -> Iterator[str]:
    pins = {anchor.heads[table][0]: anchor for anchor in history if table in anchor.heads}
    prev, last, sealed = b"", 0, Seal.objects.filter(table=table).order_by("number")
    rows = sealed.values_list("number", "key", "digest", "at", "hash")
    rewritten = False
    for number, key, digest, at, hash_ in rows.iterator(chunk_size=CHUNK):
        if number != last + 1:
            yield f"loops_seal: {table} {last + 1} to {number - 1} were removed"
        if bytes(hash_) != seals.link(prev, table, number, key, at, bytes(digest)):
            yield f"loops_seal: {table} {number} (of {key}) does not fit the chain"
        pinned = pins.get(number)
        if pinned and not rewritten and pinned.heads[table][1] != bytes(hash_):
            rewritten = True
            yield f"{table}: history up to entry {number} is not the one anchored {pinned.at:%Y-%m-%d %H:%M:%S} UTC"
        prev, last = bytes(hash_), number
    most = max(pins, default=0)
    if most > last:
        yield f"{table}: the newest {most - last} entries were removed at the end, with their seals"


def _take(
    found: Evidence, table: str, rows: list[tuple[str, int | None, bool, datetime | None, bool]], bound: datetime | None
) -> None:
    for key, number, there, at, last in rows:
        if number is None:
            if bound is not None and at is not None and at < bound:
                found.problems.append(f"{table}: {key} {INSERTED}")
            else:
                found.waiting += 1
        elif not there:
            found.problems.append(f"{table}: {key} {CUT if last else REMOVED}")
        else:
            found.problems.append(f"{table}: {key} {CHANGED}")
    with connection.cursor() as cursor:
        cursor.execute(_NUMBER, [table])
        found.rows += cursor.fetchone()[0]


def _told(history: list[Anchor], broken: list[str]) -> str:
    """What does not go on, and since when, so that whoever restored a backup recognises it."""
    said = (
        f"the database does not go on from the anchor of {history[-1].at:%Y-%m-%d %H:%M:%S} UTC ({'; '.join(broken)})"
    )
    if fits := rounds.fitting(history):
        said += f"; it goes on from the one of {fits.at:%Y-%m-%d %H:%M:%S} UTC"
    return f'{said}: was an older backup restored? Then begin anew with `manage.py anchor --anew "why"`'


_COMPARED = """
    WITH sealed AS (SELECT key, number, digest FROM loops_seal WHERE "table" = %s),
    there AS (SELECT {key} AS key, {digest} AS digest, {at} AS at FROM {table} t)
    SELECT coalesce(s.key, t.key), s.number, t.key IS NOT NULL, t.at, s.number > coalesce((
        SELECT max(o.number) FROM sealed o JOIN there p USING (key)), 0)
    FROM sealed s FULL JOIN there t ON t.key = s.key
    WHERE s.digest IS DISTINCT FROM t.digest ORDER BY s.number, t.key
"""
_NUMBER = 'SELECT count(*) FROM loops_seal WHERE "table" = %s'
_CUT = """
    SELECT DISTINCT ON (s.run) s.run, s.seq, s.at FROM (
        SELECT split_part(key, ':', 1)::uuid AS run, split_part(key, ':', 2)::bigint AS seq, digest, at
        FROM loops_seal WHERE "table" = 'loops_fact') s
    LEFT JOIN loops_fact f ON f.run_id = s.run AND f.seq = s.seq
    WHERE f.hash IS DISTINCT FROM s.digest AND (%s::uuid IS NULL OR s.run = %s) ORDER BY s.run, s.seq
"""
_BEYOND = """
    SELECT r.id, r.head_seq FROM agent_execution_history r
    WHERE r.head_seq > 0 AND r.last_activity_at < %s AND (%s::uuid IS NULL OR r.id = %s) AND NOT EXISTS (
        SELECT 1 FROM loops_seal s WHERE s."table" = 'loops_fact' AND s.key = concat_ws(':', r.id, r.head_seq))
"""
