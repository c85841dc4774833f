"""Time's own verdict. An expired gate was neither approved nor rejected (SPEC Q7)."""

from __future__ import annotations

import logging
from datetime import datetime

from django.db import connection, transaction

from gates.feed import publish_queue_on_commit
from gates.models import Decision, Gate
from gates.policy import digests
from gates.policy.expiry import KeepOpen, when_expired
from gates.services.decisions import locked_gate, settle
from gates.terms import terms_of
from loops.engine.values import Verdict
from loops.services import audit

log = logging.getLogger(__name__)
AT_ONCE = 500
_DUE = """
    SELECT id FROM gates_gate WHERE status = 'open' AND expires_at <= clock_timestamp() ORDER BY expires_at LIMIT %s
"""


def expire_due() -> int:
    """Close or escalate every open gate whose time has passed; how many were handled."""
    with connection.cursor() as cursor:
        cursor.execute(_DUE, [AT_ONCE])
        due = [row[0] for row in cursor.fetchall()]
    return sum(_expire(gate) for gate in Gate.objects.filter(pk__in=due))


@transaction.atomic
def _expire(gate: Gate) -> bool:
    gate, now = locked_gate(gate)
    if not gate.is_open or now < gate.expires_at:
        return False  # decided or extended while we were on the way
    with connection.cursor() as cursor:
        outcome = when_expired(terms_of(cursor, gate.project_id), now)
    if isinstance(outcome, KeepOpen):
        escalate(gate, outcome.expires_at)
    else:
        decision = Decision.objects.create(gate=gate, verdict=Verdict.EXPIRE, digest=gate.digest, decided_by=None)
        settle(gate, decision, now)
    return True


def escalate(gate: Gate, expires_at: datetime) -> None:
    """Mark overdue and give more time. The deadline is part of the digest: a page loaded before must look again."""
    gate.overdue = True
    gate.expires_at = expires_at
    gate.digest = digests.digest(
        subject=bytes(gate.subject),
        view=gate.view_hash,
        expires_at=expires_at,
        nonce=gate.nonce,
    )
    gate.save(update_fields=["overdue", "expires_at", "digest"])
    detail = {"gate": str(gate.pk), "until": expires_at.isoformat()}
    audit.record("gate.overdue", actor=None, project=gate.project, run=gate.run, detail=detail)
    publish_queue_on_commit(gate.project_id)
