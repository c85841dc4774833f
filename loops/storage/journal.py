"""The journal of one owned run: claim, append with fence, renew, mailbox, release (SPEC J3, architecture#journal).

Every method is one short transaction on Django's own connection, as one prepared call of a SQL function
(benchmarks.md): no ORM on this path. Time that decides about ownership is the database's clock only.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import psycopg
from django.db import connection

from loops.engine import facts as f
from loops.engine.apply import apply, initial
from loops.engine.context_window.conversation import extend
from loops.engine.context_window.transcript import Transcript
from loops.engine.encoding import canonical
from loops.engine.encoding.codec import from_plain, to_plain
from loops.engine.ports import LeaseLost, Signal, Within
from loops.engine.state.run import RunState
from loops.models import Checkpoint
from loops.storage import audit_rows, dispatch, facts_by_kind, reader
from loops.storage.blobs import Staged, send_ahead, store
from loops.storage.encoding import encode_fact
from loops.storage.feed import Publisher
from loops.storage.rows import project
from loops.storage.status import final_status, status
from loops.uptime import uptime

log = logging.getLogger(__name__)
TTL_S = 15.0
CHECKPOINT_STEPS = 10
"""A resume folds at most the facts of this many steps (ADR 0007)."""
STALE_EPOCH, MOVED_ON = "AO001", "AO002"

_CLAIM = (
    "SELECT epoch, head_seq, head_hash, abandoned, recoveries FROM journal_claim(%s, %s, make_interval(secs => %s))"
)
_APPEND = (
    "SELECT journal_append(%s, %s::bigint, %s::bigint, %s, %s::text[], %s::int[], %s::bigint[], %s::text[], %s, "
    "%s, %s, %s::bigint, %s::bigint, %s, %s::float8, %s, %s, %s, %s::int, %s, %s, %s::jsonb)"
)
_CONDEMN = (
    "UPDATE agent_execution_history SET status = 'failed', final_status = 'failed', end_reason = 'journal_unreadable', "
    "escalation_reason = %s, waiting_kind = '', waiting_name = '', waiting_on = left(%s, 200), "
    "completed_at = clock_timestamp(), owner = '', lease_until = NULL, runnable = false WHERE id = %s AND epoch = %s"
)
_FENCE = "SELECT 1 FROM agent_execution_history WHERE id = %s AND epoch = %s FOR UPDATE"
HUNG, TOLD_TO_END = "run.hung", "run.worker_told_to_end"
WORDS = (HUNG, TOLD_TO_END)
"""What an owner leaves word of for the next one."""
_RENEW = "SELECT journal_renew(%s, %s, make_interval(secs => %s))"
_RELEASE = "SELECT journal_release(%s, %s, %s, %s)"
_MAIL_KINDS = "SELECT DISTINCT kind FROM journal_mail(%s)"
_MAIL = (
    "SELECT m.id, m.kind, m.payload, coalesce(u.username, '') FROM journal_mail(%s) m "
    "LEFT JOIN auth_user u ON u.id = m.created_by_id ORDER BY m.id"
)
_READ = "UPDATE loops_mailboxitem SET consumed_seq = %s WHERE id = ANY(%s)"


@dataclass(frozen=True, slots=True)
class Claim:
    """Ownership of a run. ``abandoned``: the owner before never gave it back; ``recoveries``: how often that happened
    since the last completed step."""

    run_id: uuid.UUID
    epoch: int
    seq: int
    head: bytes
    abandoned: bool
    recoveries: int = 0
    ends: float = math.inf
    """When the lease ends at the earliest, in seconds of ``uptime``: counted from before the database was asked."""


@dataclass(frozen=True, slots=True)
class Loaded:
    state: RunState
    transcript: Transcript


def claim(run_id: uuid.UUID, owner: str, ttl_s: float = TTL_S) -> Claim | None:
    """Become the owner, with a new epoch; None when there is one already or nothing is to be done."""
    asked = uptime()
    row = psycopg.Cursor(raw_connection()).execute(_CLAIM, [run_id, owner, ttl_s], prepare=True).fetchone()
    return Claim(run_id, row[0], row[1], bytes(row[2]), row[3], row[4], asked + ttl_s) if row else None


def load(run_id: uuid.UUID) -> Loaded | None:
    """The state and conversation of a run by its journal; None before RunStarted.

    The state is the latest checkpoint and the facts after it; a checkpoint that cannot be read or does not fit falls
    back to folding everything (SPEC J2).
    """
    facts: list[f.Fact] = []
    transcript = Transcript()
    for fact in reader.stream(run_id):
        facts.append(fact)
        transcript = extend(transcript, fact)
    if not facts:
        return None
    first = facts[0]
    assert isinstance(first, f.RunStarted)
    latest = Checkpoint.objects.filter(run_id=run_id).order_by("-k").first()
    if latest is not None:
        try:
            plain = canonical.decode(latest.state) | {"spec": to_plain(first.spec)}
            state = from_plain(RunState, plain)
            for fact in facts[latest.seq :]:
                state = apply(state, fact)
            if state.seq != len(facts):
                raise ValueError(f"it leads to fact {state.seq} of {len(facts)}")
            return Loaded(state, transcript)
        except Exception as error:  # whatever is wrong with it, the facts are the truth
            why = f"{type(error).__name__}: {error}"
            log.warning("run %s: checkpoint %s unusable (%s); all facts were folded", run_id, latest.k, why)
    return Loaded(_fold(facts), transcript)


def _fold(facts: Sequence[f.Fact]) -> RunState:
    first = facts[0]
    assert isinstance(first, f.RunStarted)
    state = initial(first)
    for fact in facts[1:]:
        state = apply(state, fact)
    return state


class PgJournal:
    """Port Journal on Postgres, for one claim.

    Holds the connection of the thread that made it: inside an event loop Django would open another one for every task.
    """

    def __init__(self, held: Claim, project_id: str, publisher: Publisher, ttl_s: float = TTL_S) -> None:
        self.connection = raw_connection()
        self._run, self._epoch, self._ttl = held.run_id, held.epoch, ttl_s
        self._seq, self._head, self._ends = held.seq, held.head, held.ends
        self._project, self._publisher = project_id, publisher
        self._staged = Staged(self._cursor)

    @property
    def epoch(self) -> int:
        """Which ownership of the run this is."""
        return self._epoch

    def stage(self, data: bytes) -> str:
        """Keep ``data`` for the next append, which stores it with the facts that name it; returns its SHA-256 (hex).
        Safe from any thread; what is much in the owner's own is sent ahead."""
        return self._staged.add(data)

    def append(self, entries: Sequence[tuple[f.Fact, RunState]], within: Sequence[Within] = ()) -> None:
        if not entries:
            self._in_transaction(None, {}, within)
            return
        batch = self._batch(entries)
        if within or batch.blobs or self._staged.sent:
            self._in_transaction(batch.params, batch.blobs, within)
        else:
            self._append(self._cursor(), batch.params)
        self._seq, self._head = self._seq + len(entries), batch.head
        self._staged.clear()
        self._publisher.facts(self._run, self._project, self._seq)
        if any(isinstance(fact, f.GateOpened | f.GateDecided | f.RunEnded) for fact, _ in entries):
            self._publisher.queue(self._project)

    def _in_transaction(self, params: list[Any] | None, blobs: dict[str, bytes], within: Sequence[Within]) -> None:
        cursor = self._cursor()
        send_ahead(cursor, blobs)
        with self.connection.transaction():
            if blobs or self._staged.sent:
                store(cursor, blobs, self._staged.sent)
            if params is not None:
                self._append(cursor, params)
            elif not cursor.execute(_FENCE, [self._run, self._epoch], prepare=True).fetchone():
                raise LeaseLost(f"run {self._run} has another owner than epoch {self._epoch}")
            for write in within:
                write(cursor)

    def _append(self, cursor: psycopg.Cursor[Any], params: list[Any]) -> None:
        try:
            cursor.execute(_APPEND, params, prepare=True)
        except psycopg.errors.Error as error:
            if error.sqlstate in {STALE_EPOCH, MOVED_ON}:
                raise LeaseLost(str(error).splitlines()[0]) from error
            raise

    def _batch(self, entries: Sequence[tuple[f.Fact, RunState]]) -> _Batch:
        kinds, steps, ats, hashes, bodies = [], [], [], [], []
        blobs = dict(self._staged.bodies)
        head = self._head
        for fact, state in entries:
            encoded = encode_fact(fact, head)
            head = encoded.hash
            kinds.append(encoded.kind)
            steps.append(str(state.step))
            ats.append(str(fact.at))
            hashes.append(head.hex())
            bodies.append(encoded.body.decode())
            if encoded.blobs:
                blobs.update(encoded.blobs)
            if isinstance(fact, f.RunEnded):
                blobs[canonical.sha256(to_plain(fact.report))] = canonical.encode(to_plain(fact.report))
        last, state = entries[-1]
        rows = project(str(self._run), entries) | {"active_us": state.active_us}
        if _checkpoint_due(entries, state):
            rows["checkpoint"] = checkpoint_row(self._run, self._seq + len(entries), last.at, state)
        lists = [f"{{{','.join(items)}}}" for items in (kinds, steps, ats, hashes)]
        params = [
            *(self._run, self._epoch, self._seq, self._head, *lists, "\n".join(bodies)),
            *_head_columns(state),
            _rows_text(rows),
        ]
        return _Batch(params, blobs, head)

    def _cursor(self) -> psycopg.Cursor[Any]:
        """A plain psycopg cursor: server-side binding, prepared statements."""
        return psycopg.Cursor(self.connection)

    def lease_ends(self) -> float:
        return self._ends

    def hang(self, what: str) -> None:
        self._leave_word(HUNG, what)

    def told_to_end(self) -> None:
        self._leave_word(TOLD_TO_END, "the worker was told to end")

    def _leave_word(self, kind: str, what: str) -> None:
        detail = {"what": what, "epoch": self._epoch}
        audit_rows.insert(self._cursor(), kind, project=self._project, run=self._run, detail=detail)

    def renew(self) -> None:
        asked = uptime()
        row = self._cursor().execute(_RENEW, [self._run, self._epoch, self._ttl], prepare=True).fetchone()
        if not row or not row[0]:
            raise LeaseLost(f"run {self._run} has another owner than epoch {self._epoch}")
        self._ends = asked + self._ttl

    def history(self, kinds: Sequence[str]) -> list[f.Fact]:
        return facts_by_kind.read(self.connection, self._run, kinds)

    def mail_kinds(self) -> frozenset[str]:
        rows = self._cursor().execute(_MAIL_KINDS, [self._run], prepare=True).fetchall()
        return frozenset(kind for (kind,) in rows)

    def mail(self) -> list[Signal]:
        rows = self._cursor().execute(_MAIL, [self._run], prepare=True).fetchall()
        return [Signal(str(id_), kind, from_jsonb(payload) or {}, by) for id_, kind, payload, by in rows]

    def read(self, mail: Sequence[Signal]) -> Within:
        ids, seq = [uuid.UUID(item.id) for item in mail], self._seq
        return lambda cursor: cursor.execute(_READ, [seq, ids])

    def release(self, *, wake_at: int = 0, runnable: bool = False) -> None:
        """Give the run back. When something came in meanwhile it stays runnable and the bell is rung."""
        wake = _datetime(wake_at) if wake_at else None
        row = self._cursor().execute(_RELEASE, [self._run, self._epoch, wake, runnable], prepare=True).fetchone()
        if row and row[0]:
            dispatch.ring_now(self._run)


def condemn(held: Claim, reason: str) -> None:
    """End a run whose journal cannot be read any more: nobody will try again, and the row says why."""
    psycopg.Cursor(raw_connection()).execute(_CONDEMN, [reason, reason, held.run_id, held.epoch])


@dataclass(frozen=True, slots=True)
class _Batch:
    params: list[Any]
    blobs: dict[str, bytes]
    head: bytes


def _rows_text(rows: dict[str, Any]) -> str:
    try:
        return orjson.dumps(rows).decode()
    except orjson.JSONEncodeError:  # integers of any length are JSON, and jsonb holds them
        return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def _head_columns(state: RunState) -> tuple[Any, ...]:
    """What the run's own row says from now on, in the order of ``journal_append``."""
    shown, need = status(state)
    return (
        shown,
        state.phase.value,
        state.tokens,
        state.cost_microusd,
        state.cost_unknown,
        state.progress,
        *need.columns().values(),
        state.limits.max_steps + state.step_base,
        state.end_reason if state.is_ended else "",
        final_status(state),
    )


def _checkpoint_due(entries: Sequence[tuple[f.Fact, RunState]], state: RunState) -> bool:
    """At every phase boundary and every ``CHECKPOINT_STEPS`` steps, between answers: the state is small then."""
    if state.calls:
        return False
    return any(
        isinstance(fact, f.PhaseEntered) or (isinstance(fact, f.StepCompleted) and fact.step % CHECKPOINT_STEPS == 0)
        for fact, _ in entries
    )


def checkpoint_row(run_id: uuid.UUID, k: int, at: int, state: RunState) -> dict[str, Any]:
    """Content-addressed by SHA-256(run id | k) (CH15 15.4.3); the spec is left out, RunStarted holds it."""
    plain = {name: value for name, value in to_plain(state).items() if name != "spec"}
    return {
        "key": hashlib.sha256(f"{run_id}|{k}".encode()).hexdigest(),
        "k": k,
        "seq": k,
        "phase": state.phase.value,
        "state": canonical.encode(plain).decode(),
        "at": _timestamp(at),
    }


def _timestamp(at: int) -> str:
    return _datetime(at).isoformat()


def _datetime(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1_000_000, UTC)


def from_jsonb(value: Any) -> Any:
    """Django's connections hand jsonb out as text, plain psycopg ones as values."""
    return json.loads(value) if isinstance(value, str) else value


def raw_connection() -> psycopg.Connection[Any]:
    """The psycopg connection under Django's, of this thread."""
    connection.close_if_health_check_failed()  # once a job: the server may have hung up on a worker that was frozen
    connection.ensure_connection()
    raw: psycopg.Connection[Any] = connection.connection
    return raw
