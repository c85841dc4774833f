"""Claims say who is looking at a gate. They stop double work, never a decision."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.db.models.functions import Now

from gates.feed import publish_queue_on_commit
from gates.models import Gate
from gates.services.decisions import visible_gate
from gates.services.people import objections_of
from gates.services.refusals import NotAllowed, already_decided

LASTS = timedelta(minutes=15)
"""Afterwards anybody may take the gate over."""


def claim(*, actor: Any, gate_id: uuid.UUID | str) -> Gate:
    """Take the gate, unless somebody else took it a short while ago."""
    gate = visible_gate(actor, gate_id)
    if not gate.is_open:
        raise already_decided(gate)
    if reasons := objections_of(actor, gate):
        raise NotAllowed(" ".join(reasons))
    free = Q(claimed_by=None) | Q(claimed_by=actor) | Q(claimed_at__lt=Now() - LASTS)
    taken = Gate.objects.open().filter(free, pk=gate.pk).update(claimed_by=actor, claimed_at=Now())
    gate.refresh_from_db()
    if not taken:
        raise NotAllowed(
            f"{gate.claimed_by} is looking at this." if gate.claimed_by else "Somebody else has already claimed it."
        )
    publish_queue_on_commit(gate.project_id)
    return gate


def release(*, actor: Any, gate_id: uuid.UUID | str) -> Gate:
    """Give the gate back; only one's own claim can be released."""
    gate = visible_gate(actor, gate_id)
    if Gate.objects.filter(pk=gate.pk, claimed_by=actor).update(claimed_by=None, claimed_at=None):
        publish_queue_on_commit(gate.project_id)
    gate.refresh_from_db()
    return gate
