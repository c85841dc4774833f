"""Turns at the endpoints of models, in Postgres, shared by all workers (SPEC E6).

A row is a run that asks, or waits to. A turn counts as long as its run is owned by who took it: a worker that is killed
gives its turn back with its lease. A place in the line counts as long as its run comes back for it: it is parked with a
timer of ``LOOK_AGAIN_S``, and rung for when it is its turn.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import psycopg

from loops.ids import new_id
from loops.storage.dispatch import ring_now

LOOK_AGAIN_S = 20
GONE_AFTER_S = 3 * LOOK_AGAIN_S
"""A place in the line whose run was not seen for so long is nobody's."""

_ALIVE = """(
    EXISTS (SELECT 1 FROM agent_execution_history r WHERE r.id = t.run AND r.owner <> '' AND r.epoch = t.epoch
            AND r.lease_until > clock_timestamp())
    OR (t.taken_at IS NULL AND t.seen_at > clock_timestamp() - make_interval(secs => %(gone)s)
        AND EXISTS (SELECT 1 FROM agent_execution_history r WHERE r.id = t.run AND r.waiting_kind = 'turn'))
)"""
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('turns at ' || %(seat)s, 0))"
_CLEAN = f"DELETE FROM loops_modelturn t WHERE t.seat = %(seat)s AND t.run <> %(run)s AND NOT {_ALIVE}"  # noqa: S608
_COME = """
    INSERT INTO loops_modelturn AS t (id, seat, model, run, epoch, asked_at, seen_at)
    VALUES (%(id)s, %(seat)s, %(model)s, %(run)s, %(epoch)s, clock_timestamp(), clock_timestamp())
    ON CONFLICT (run) DO UPDATE SET
        seat = excluded.seat, model = excluded.model, epoch = excluded.epoch, seen_at = excluded.seen_at,
        asked_at = CASE WHEN t.seat = excluded.seat THEN t.asked_at ELSE excluded.asked_at END,
        taken_at = CASE WHEN t.seat = excluded.seat AND t.epoch = excluded.epoch THEN t.taken_at END
"""
_BEFORE = """
    SELECT mine.taken_at IS NOT NULL,
           (SELECT count(*) FROM loops_modelturn t WHERE t.seat = mine.seat AND t.run <> mine.run
            AND (t.taken_at IS NOT NULL OR (t.asked_at, t.id) < (mine.asked_at, mine.id)))
    FROM loops_modelturn mine WHERE mine.run = %(run)s
"""
_BUSY = f"""
    SELECT count(*) FILTER (WHERE t.taken_at IS NOT NULL), count(*) FILTER (WHERE t.taken_at IS NULL)
    FROM loops_modelturn t WHERE t.seat = %(seat)s AND {_ALIVE}
"""  # noqa: S608
_TAKE = "UPDATE loops_modelturn SET taken_at = clock_timestamp() WHERE run = %(run)s"
_LEAVE = "DELETE FROM loops_modelturn WHERE run = %(run)s AND epoch = %(epoch)s RETURNING seat, model"
_NEXT = """
    SELECT t.run, row_number() OVER (ORDER BY t.asked_at, t.id) - 1 + taken.number, t.model
    FROM loops_modelturn t, (SELECT count(*) AS number FROM loops_modelturn
                             WHERE seat = %(seat)s AND taken_at IS NOT NULL) taken
    WHERE t.seat = %(seat)s AND t.taken_at IS NULL ORDER BY t.asked_at, t.id
"""
_TELL = """
    UPDATE agent_execution_history SET waiting_on = left(%(told)s, 200),
        wake_at = CASE WHEN %(called)s THEN clock_timestamp() ELSE wake_at END
    WHERE id = %(run)s AND owner = '' AND waiting_kind = 'turn' RETURNING project_id
"""


class PgTurns:
    """Port Turns for one owned run, on its connection. ``seats``: model -> (its endpoint, calls at once; 0 any)."""

    def __init__(
        self,
        connection: Any,
        run: uuid.UUID,
        epoch: int,
        seats: Callable[[str], tuple[str, int]],
        ring: Callable[[uuid.UUID], None] = ring_now,
        show: Callable[[uuid.UUID, str], None] = lambda run, project: None,
    ) -> None:
        self._connection, self._run, self._epoch = connection, run, epoch
        self._seats, self._ring, self._show = seats, ring, show
        self._most = 0
        self._in_line = False

    def take(self, model: str) -> int:
        seat, most = self._seats(model)
        if most <= 0:
            self.leave()
            return 0
        given = {"id": new_id(), "seat": seat, "model": model, "run": self._run, "epoch": self._epoch}
        given |= {"gone": GONE_AFTER_S}
        self._most, self._in_line = most, True
        with self._connection.transaction():
            cursor = psycopg.Cursor(self._connection)
            cursor.execute(_LOCK, given)
            cursor.execute(_CLEAN, given)
            cursor.execute(_COME, given)
            mine, before = cursor.execute(_BEFORE, given).fetchone() or (False, 0)
            if mine:
                return 0
            if before < most:
                cursor.execute(_TAKE, given)
                return 0
        return int(before)

    def parked(self) -> None:
        found = psycopg.Cursor(self._connection).execute(_BEFORE, {"run": self._run}).fetchone()
        if found is not None and found[1] < self._most:
            self._ring(self._run)

    def leave(self) -> None:
        if not self._in_line:
            return
        self._in_line = False
        with self._connection.transaction():
            cursor = psycopg.Cursor(self._connection)
            left = cursor.execute(_LEAVE, {"run": self._run, "epoch": self._epoch}).fetchone()
            told = self._tell(cursor, left[0]) if left else []
        for run, is_next, project in told:
            if is_next:
                self._ring(run)
            if project:
                self._show(run, project)

    def _tell(self, cursor: psycopg.Cursor[Any], seat: str) -> list[tuple[uuid.UUID, bool, str]]:
        """Everybody in the line learns how many come first. Of each: the run, whether it is its turn, and its project
        if its row was told."""
        told = []
        for run, before, model in cursor.execute(_NEXT, {"seat": seat}).fetchall():
            is_next = before < self._most
            given = {"run": run, "told": waiting_at(model, before), "called": is_next}
            row = cursor.execute(_TELL, given).fetchone()
            told.append((run, is_next, row[0] if row else ""))
        return told


def busy(connection: Any, seat: str) -> tuple[int, int]:
    """How many runs are being answered at an endpoint, and how many wait for their turn there."""
    found = psycopg.Cursor(connection).execute(_BUSY, {"seat": seat, "gone": GONE_AFTER_S}).fetchone()
    return (int(found[0]), int(found[1])) if found else (0, 0)


def waiting_at(model: str, before: int) -> str:
    """What the row of a run in the line says; ``journal_waiting`` reads these very words."""
    return f"turn at {model}: {before} before it" if before else f"turn at {model}: it is next"


def place(waiting: str) -> str:
    """What people read of such words: "3 ahead", or "next"."""
    number = waiting.rpartition(": ")[2].partition(" ")[0]
    return f"{number} ahead" if number.isdecimal() else "next"
