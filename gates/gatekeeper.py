"""The port ``Gatekeeper``: plain SQL on the journal's own cursor, so that a gate and its fact are one transaction.

No ORM here, and no clock but the database's. An approval is used up by one conditional UPDATE in the transaction
that writes the INTENT: whoever comes second, late, or with something else finds ``ApprovalVoid``
(reliability#approvals).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from gates.policy import digests, expiry
from gates.policy.kinds import Kind
from gates.terms import recent_terms_of
from loops.engine.encoding import canonical
from loops.engine.ports import ApprovalVoid, GateRequest, Within
from loops.engine.text.truncation import shortened
from loops.engine.values import Json
from loops.tools import command_inputs, snapshot_trees

_INSERT = """
    INSERT INTO gates_gate (
        id, run_id, project_id, kind, status, step_number, call_id, tool, title, reasons, risk, confidence, recommended,
        subject, view, view_hash, digest, nonce, policy_version, opened_at, expires_at, due_at, overdue
    ) VALUES (
        %(id)s, %(run)s, %(project)s, %(kind)s, 'open', %(step)s, %(call)s, %(tool)s, %(title)s, %(reasons)s::jsonb,
        %(risk)s, %(confidence)s, %(recommended)s, %(subject)s, %(view)s::jsonb, %(view_hash)s, %(digest)s, %(nonce)s,
        %(policy_version)s, %(opened_at)s, %(expires_at)s, %(due_at)s, false
    ) ON CONFLICT (id) DO NOTHING
"""
_READ = """
    SELECT status, view_hash, nonce, expires_at, digest, consumed_at, expires_at > clock_timestamp()
    FROM gates_gate WHERE id = %s
"""
_CONSUME = """
    UPDATE gates_gate SET consumed_at = clock_timestamp()
    WHERE id = %s AND status = 'approved' AND digest = %s AND consumed_at IS NULL AND expires_at > clock_timestamp()
"""
_WITHDRAW = """
    UPDATE gates_gate SET status = 'void', decided_at = clock_timestamp(), reasons = reasons || %s::jsonb
    WHERE run_id = %s AND status = 'open'
"""


class SqlGatekeeper:
    """Opens and consumes gates with a Django or a psycopg cursor."""

    def open(self, request: GateRequest) -> Within:
        """Insert the gate. Doing it again with the same id changes nothing."""
        return lambda cursor: _open(cursor, request)

    def consume(self, gate_id: str, subject: Mapping[str, Json]) -> Within:
        """Use up the approval of exactly ``subject``; raises ApprovalVoid with the reason."""
        return lambda cursor: _consume(cursor, gate_id, subject)

    def withdraw(self, run_id: str, reason: str) -> Within:
        """Void what is still open of the run."""
        note = json.dumps([f"withdrawn: {canonical.clean(reason)}"])
        return lambda cursor: cursor.execute(_WITHDRAW, [note, run_id])


def _open(cursor: Any, request: GateRequest) -> None:
    cursor.execute("SELECT clock_timestamp()")
    now: datetime = cursor.fetchone()[0]
    expires_at, due_at = expiry.deadlines(recent_terms_of(cursor, request.project_id), now)
    subject = digests.subject_bytes(request.subject)
    view = digests.shown(request.view)
    view_hash = digests.view_hash(view)
    nonce = secrets.token_hex(16)
    digest = digests.digest(subject=subject, view=view_hash, expires_at=expires_at, nonce=nonce)
    bound = {
        "subject": subject,
        "view": json.dumps(view),
        "view_hash": view_hash,
        "nonce": nonce,
        "digest": digest,
    }
    times = {"opened_at": now, "expires_at": expires_at, "due_at": due_at}
    cursor.execute(_INSERT, _described(request) | bound | times)


def _described(request: GateRequest) -> dict[str, Any]:
    return {
        "id": request.id,
        "run": request.run_id,
        "project": request.project_id,
        "kind": request.kind,
        "step": request.step,
        "call": request.call_id,
        "tool": request.tool,
        "title": shortened(canonical.clean(request.title), 300),
        "reasons": json.dumps([canonical.clean(reason) for reason in request.reasons]),
        "risk": request.risk[:10],
        "confidence": request.confidence,
        "recommended": canonical.clean(request.recommended)[:30],
        "policy_version": request.policy_version,
    }


def _consume(cursor: Any, gate_id: str, subject: Mapping[str, Json]) -> None:
    cursor.execute(_READ, [gate_id])
    row = cursor.fetchone()
    if row is None:
        raise ApprovalVoid("no such approval")
    view_hash, nonce, expires_at = row[1:4]
    try:
        fresh = digests.subject_bytes(subject)
    except digests.TooDeep as error:
        raise ApprovalVoid(str(error)) from error
    digest = digests.digest(subject=fresh, view=view_hash, expires_at=expires_at, nonce=nonce)
    cursor.execute(_CONSUME, [gate_id, digest])
    if cursor.rowcount != 1:
        cursor.execute(_READ, [gate_id])  # again: somebody may have been faster
        why = _why(cursor.fetchone(), digest)
        if why == DIFFERS:
            words = NOT_AS_REVIEWED if subject.get("kind") == Kind.FINAL_REVIEW else DIFFERS
            why = f"{words}: {', '.join(found)}" if (found := _what(cursor, gate_id, fresh)) else words
        raise ApprovalVoid(why)


_NOT_GIVEN = {
    "open": "nobody has approved this yet",
    "expired": "it expired before anybody decided",
    "void": "it was taken back",
}


DIFFERS = "what is about to run differs from what was approved"
NOT_AS_REVIEWED = "the workspace is not as the review showed it any more"
_SUBJECT = "SELECT subject FROM gates_gate WHERE id = %s"
_LIST = "SELECT body FROM loops_blob WHERE sha256 = %s"


def _what(cursor: Any, gate_id: str, fresh: bytes) -> list[str]:
    """The parts that differ, files of the workspace by name, for whoever is asked again."""
    cursor.execute(_SUBJECT, [gate_id])
    approved, now = (json.loads(bytes(each)) for each in (cursor.fetchone()[0], fresh))
    parts = [name for name in sorted({*approved, *now}) if approved.get(name) != now.get(name)]
    files = _files(approved.get("workspace"), now.get("workspace"), _reader(cursor))
    named = [part.removesuffix("_sha256").replace("_", " ") for part in parts if part != "workspace" or not files]
    return [*named, *command_inputs.in_words(files)] if files and "workspace" in parts else named


def _files(approved: Json, now: Json, read: Callable[[str], bytes]) -> list[str]:
    match approved, now:
        case {"tree": str(before)}, {"tree": str(after)}:
            with suppress(KeyError, ValueError):
                return snapshot_trees.changed_paths(before, after, read)
            return []
    return command_inputs.differences(*(command_inputs.states_of(each, read) for each in (approved, now)))


def _reader(cursor: Any) -> Callable[[str], bytes]:
    def read(sha256: str) -> bytes:
        cursor.execute(_LIST, [sha256])
        row = cursor.fetchone()
        if row is None:
            raise KeyError(sha256)
        return bytes(row[0])

    return read


def _why(row: tuple[Any, ...], digest: str) -> str:
    status, _, _, _, approved, consumed_at, in_time = row
    if status != "approved":
        return _NOT_GIVEN.get(status, f"it was {status}, not approved")
    if consumed_at is not None:
        return "the approval was already used"
    if approved != digest:
        return DIFFERS
    if not in_time:
        return "the approval expired before it was used"
    return "the approval changed at the same moment"
