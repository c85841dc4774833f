"""Circuit breakers in Postgres, shared by all workers (SPEC E5).

A healthy call costs nothing: what is known of the breakers is at most ``FRESH_S`` old, and only a failure, the first
success after one, and a probe write. A write is one statement that compares the version it was decided from and tells
the history; whoever loses looks again. The probe belongs to an ownership of a run (run and epoch), so that it is free
again as soon as that run's lease is over, by the database's clock.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from loops.engine.failures import breakers as b
from loops.engine.text.truncation import shortened
from loops.ids import new_id

FRESH_S = 1.0
TRIES = 50
LONGEST_WHY = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COLUMNS = (
    "b.kind, b.name, b.status, b.failed_at::text, b.why, b.opened_at, b.open_until, b.probes_failed, b.probe_run, "
    "b.probe_epoch, b.version, EXISTS (SELECT 1 FROM agent_execution_history r WHERE r.id = b.probe_run "
    "AND r.epoch = b.probe_epoch AND r.owner <> '' AND r.lease_until > clock_timestamp()), clock_timestamp()"
)
_ALL = f"SELECT {_COLUMNS} FROM loops_breaker b"  # noqa: S608 - a constant
_ONE = f"{_ALL} WHERE b.kind = %s AND b.name = %s"
_RULE = (
    "SELECT threshold, window_s, cooldown_s, enabled FROM loops_breakerrule WHERE kind = %s AND name IN (%s, '*') "
    "ORDER BY name = '*' LIMIT 1"
)
_NOW = "SELECT clock_timestamp()"
_CHANGE = """
    WITH changed AS (
        INSERT INTO loops_breaker AS b (id, kind, name, status, failed_at, why, opened_at, open_until, probes_failed,
                                        probe_run, probe_epoch, version, changed_at)
        VALUES (%(id)s::uuid, %(kind)s::text, %(name)s::text, %(status)s::text, %(failed_at)s::jsonb, %(why)s::text,
                %(opened_at)s::timestamptz, %(open_until)s::timestamptz, %(probes_failed)s::int, %(probe_run)s::uuid,
                %(probe_epoch)s::bigint, 1, clock_timestamp())
        ON CONFLICT (kind, name) DO UPDATE SET
            status = excluded.status, failed_at = excluded.failed_at, why = excluded.why,
            opened_at = excluded.opened_at, open_until = excluded.open_until,
            probes_failed = excluded.probes_failed, probe_run = excluded.probe_run,
            probe_epoch = excluded.probe_epoch, version = b.version + 1, changed_at = excluded.changed_at
        WHERE b.version = %(version)s::bigint
        RETURNING b.kind
    ), told AS (
        INSERT INTO loops_breakerevent (id, at, kind, name, what, why, open_until, run, actor_id)
        SELECT %(event)s::uuid, clock_timestamp(), %(kind)s::text, %(name)s::text, %(what)s::text, %(told_why)s::text,
               %(told_until)s::timestamptz, %(run)s::uuid, %(actor)s::int
        FROM changed WHERE %(what)s::text <> ''
    )
    SELECT count(*) FROM changed
"""
_RING = """
    UPDATE agent_execution_history SET wake_at = clock_timestamp() + random() * interval '3 seconds'
    WHERE owner = '' AND wake_at > clock_timestamp() AND waiting_kind = 'model' AND waiting_name = %s
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A breaker as it is stored. ``version`` 0: it has never failed. ``now``: when it was read."""

    breaker: b.Breaker
    version: int
    probe_lives: bool
    now: int


@dataclass(frozen=True, slots=True)
class Holder:
    """Who calls: an ownership of a run; nobody's for a person."""

    run: uuid.UUID | None = None
    epoch: int = 0
    actor: int | None = None

    @property
    def name(self) -> str:
        return f"{self.run}:{self.epoch}" if self.run else ""


Change = Callable[[Row], b.Breaker | None]
"""What becomes of a breaker; None for a refusal."""


@dataclass
class _Known:
    at: float = float("-inf")
    rows: dict[tuple[str, str], Row] = field(default_factory=dict)


class PgBreakers:
    """Port Breakers for one owned run, on its connection. Every method is at most a few short statements."""

    def __init__(
        self, connection: Any, run: uuid.UUID, epoch: int, uptime: Callable[[], float] = time.monotonic
    ) -> None:
        self._connection, self._holder, self._uptime = connection, Holder(run, epoch), uptime
        self._known = _Known()

    def refuses(self, kind: str, name: str) -> b.Refusal | None:
        row = self._seen().get((kind, name))
        if row is None or b.admit(row.breaker, self._now(row), self._holder.name, row.probe_lives) is not None:
            return None
        return b.refusal(row.breaker, name)

    def admit(self, kind: str, name: str) -> b.Admitted | b.Refusal:
        known = self._seen().get((kind, name))
        if known is None or known.breaker.status is b.Status.CLOSED:
            return b.Admitted()
        if refused := self.refuses(kind, name):
            return refused
        row = self._change(kind, name, lambda row: b.admit(row.breaker, row.now, self._holder.name, row.probe_lives))
        if row.breaker.status is b.Status.CLOSED:
            return b.Admitted()
        mine = row.breaker.status is b.Status.HALF_OPEN and row.breaker.probe == self._holder.name
        return b.Admitted(probe=True) if mine else b.refusal(row.breaker, name)

    def failed(self, kind: str, name: str, why: str, wait_s: float = 0.0) -> None:
        rule = rule_of(self._connection, kind, name)
        why = shortened(why, LONGEST_WHY)
        self._change(kind, name, lambda row: b.failed(row.breaker, rule, row.now, self._holder.name, why, wait_s))

    def succeeded(self, kind: str, name: str) -> None:
        known = self._seen().get((kind, name))
        if known is not None and known.breaker != b.Breaker():
            self._change(kind, name, lambda row: b.succeeded(row.breaker, self._holder.name))

    def _change(self, kind: str, name: str, change: Change) -> Row:
        row = change_row(self._connection, kind, name, self._holder, change)
        self._known.rows[kind, name] = row
        return row

    def _seen(self) -> Mapping[tuple[str, str], Row]:
        """Asked at most once in ``FRESH_S`` seconds, for all breakers at once."""
        if self._uptime() - self._known.at > FRESH_S:
            found = psycopg.Cursor(self._connection).execute(_ALL, prepare=True).fetchall()
            self._known = _Known(self._uptime(), {(row[0], row[1]): _row(row) for row in found})
        return self._known.rows

    def _now(self, row: Row) -> int:
        """The database's clock, as far as it is known."""
        return row.now + int(max(0.0, self._uptime() - self._known.at) * 1e6)


def rule_of(connection: Any, kind: str, name: str) -> b.Rule:
    """The rule in force: its own, the one for all of its kind, or the default."""
    found = psycopg.Cursor(connection).execute(_RULE, [kind, name]).fetchone()
    return b.Rule(*found) if found else b.Rule()


def change_row(connection: Any, kind: str, name: str, holder: Holder, change: Change, what: str = "") -> Row:
    """Read, decide, write if nobody else has written meanwhile, else again. The row as it is then.

    ``what`` names the event of a change that a person makes; all others are told by the states before and after.
    """
    cursor = psycopg.Cursor(connection)
    for _ in range(TRIES):
        before = _read(cursor, kind, name)
        after = change(before)
        if after is None or after == before.breaker:
            return before
        told = what or _event(before.breaker, after)
        if cursor.execute(_CHANGE, _parameters(kind, name, before, after, holder, told)).fetchone() == (1,):
            if told in ("closed", "reset") and kind == b.MODEL:
                cursor.execute(_RING, [name])
            return Row(after, before.version + 1, probe_lives=True, now=before.now)
    return _read(cursor, kind, name)  # so many others write that somebody has said the same


def _read(cursor: psycopg.Cursor[Any], kind: str, name: str) -> Row:
    found = cursor.execute(_ONE, [kind, name]).fetchone()
    if found is not None:
        return _row(found)
    (now,) = cursor.execute(_NOW).fetchone() or (None,)
    return Row(b.Breaker(), 0, probe_lives=False, now=_micros(now))


def _event(before: b.Breaker, after: b.Breaker) -> str:
    match (before.status, after.status):
        case (b.Status.CLOSED, b.Status.OPEN):
            return "opened"
        case (_, b.Status.OPEN):
            return "reopened"
        case (_, b.Status.HALF_OPEN):
            return "probed"
        case (b.Status.CLOSED, b.Status.CLOSED):
            return ""
    return "closed"


def _parameters(kind: str, name: str, before: Row, after: b.Breaker, holder: Holder, what: str) -> dict[str, Any]:
    probe_run, _, probe_epoch = after.probe.partition(":")
    return {
        "id": new_id(),
        "event": new_id(),
        "kind": kind,
        "name": name,
        "status": after.status.value,
        "failed_at": f"[{','.join(map(str, after.failed_at))}]",
        "why": after.why,
        "opened_at": _moment(after.opened_at),
        "open_until": _moment(after.open_until),
        "probes_failed": after.probes_failed,
        "probe_run": probe_run or None,
        "probe_epoch": int(probe_epoch) if probe_epoch else None,
        "version": before.version,
        "what": what,
        "told_why": after.why or before.breaker.why,
        "told_until": _moment(after.open_until) if after.status is b.Status.OPEN else None,
        "run": holder.run,
        "actor": holder.actor,
    }


def _row(found: Any) -> Row:
    _, _, status, failed_at, why, opened_at, open_until, probes_failed, run, epoch, version, lives, now = found
    breaker = b.Breaker(
        status=b.Status(status),
        failed_at=tuple(map(int, failed_at.strip("[]").split(","))) if failed_at != "[]" else (),
        why=why,
        opened_at=_micros(opened_at),
        open_until=_micros(open_until),
        probes_failed=probes_failed,
        probe=f"{run}:{epoch}" if run else "",
    )
    return Row(breaker, version, lives, _micros(now))


def _micros(moment: datetime | None) -> int:
    return 0 if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)


def _moment(at: int) -> datetime | None:
    return _EPOCH + timedelta(microseconds=at) if at else None
