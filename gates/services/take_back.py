"""Take an approval back before the call that it lets run has begun. It is asked again (SPEC Q5).

The decision stays as it was made; the gate is void. Whoever is faster wins: the call uses its approval up with one
UPDATE of a gate that is still approved (``gates.gatekeeper``).
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from gates.feed import publish_queue_on_commit
from gates.models import Gate
from gates.policy import take_back as policy
from gates.services.decisions import locked_gate, visible_gate
from gates.services.people import objections_of
from gates.services.refusals import DecisionRefused, NotAllowed, TooLate, audit
from loops.engine.values import Verdict
from loops.services import audit as audit_log

VERDICT = "take_back"
"""What refusals call it; it is no verdict of a gate."""


def take_back(*, actor: Any, gate_id: uuid.UUID | str) -> Gate:
    """Void an approval that nothing has used yet, or raise a DecisionRefused and change nothing."""
    gate: Gate | None = None
    try:
        gate = visible_gate(actor, gate_id)
        return _take_back(actor, gate)
    except DecisionRefused as refusal:
        audit(refusal, actor=actor, gate=gate, gate_id=gate_id, verdict=VERDICT)
        raise


@transaction.atomic
def _take_back(actor: Any, gate: Gate) -> Gate:
    gate, now = locked_gate(gate)
    if reasons := objections_of(actor, gate, Verdict.REJECT):  # whoever may say no
        raise NotAllowed(" ".join(reasons))
    if gate.status != Gate.Status.APPROVED or not policy.can_be(gate.kind, gate.decision.verdict):
        raise TooLate("There is no approval of a call here that could be taken back.")
    if gate.consumed_at is not None:
        raise TooLate("It has begun: it cannot be taken back. Stop the run to end it.")
    if gate.run.is_ended:
        raise TooLate("The run has ended; what was approved does not run any more.")
    by = actor.get_full_name() or actor.get_username()
    gate.status = Gate.Status.VOID
    gate.reasons = [*gate.reasons, f"taken back by {by}"]
    gate.save(update_fields=["status", "reasons"])
    detail = {"gate": str(gate.pk), "title": gate.title, "seconds": (now - gate.decision.created_at).total_seconds()}
    audit_log.record("gate.taken_back", actor=actor, project=gate.project, run=gate.run, detail=detail)
    publish_queue_on_commit(gate.project_id, gate.run_id)
    return gate


def seconds_left(gate: Gate) -> float:
    """For how long what was approved waits, so that it can be taken back; 0 where it does not, or not any more."""
    if gate.status != Gate.Status.APPROVED or gate.consumed_at is not None or gate.decided_at is None:
        return 0
    held = policy.held(gate.kind, gate.risk, gate.decision.verdict, settings.TAKE_BACK_S)
    left = (gate.decided_at + timedelta(seconds=held) - timezone.now()).total_seconds()
    return max(0.0, left) if held and not gate.run.is_ended else 0
