"""Circuit breakers for people: what stands open, who waits, and closing one by hand (SPEC E5)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from loops.engine.failures import breakers as b
from loops.engine.state.needs import NeedKind
from loops.models import Breaker, BreakerEvent, Membership, Run
from loops.querysets import OPERATE
from loops.services import audit
from loops.services.access import NotAllowed
from loops.storage import journal
from loops.storage.breakers import Holder, change_row, rule_of

SHOWN = 50


def may_see(actor: Any) -> bool:
    """Whoever works here, in whatever project."""
    if not actor.is_authenticated or not actor.is_active:
        return False
    return actor.is_staff or actor.is_superuser or Membership.objects.filter(user=actor).exists()


def may_reset(actor: Any) -> bool:
    """Breakers belong to the installation, so whoever operates runs anywhere may close one."""
    if not actor.is_authenticated or not actor.is_active:
        return False
    return actor.is_superuser or Membership.objects.filter(user=actor, role__in=OPERATE).exists()


def reset_breaker(*, actor: Any, kind: str, name: str) -> bool:
    """Let every call pass again and wake the runs that wait. False when it was closed already."""
    if not may_reset(actor):
        audit.record("access.refused", actor=actor, detail={"what": "reset breakers", "needs": list(OPERATE)})
        raise NotAllowed("To reset a circuit breaker you need the role operator or admin in a project.")
    connection = journal.raw_connection()
    with transaction.atomic():
        before = Breaker.objects.filter(kind=kind, name=name).first()
        if before is None or before.status == Breaker.Status.CLOSED:
            return False
        change_row(connection, kind, name, Holder(actor=actor.pk), lambda row: b.Breaker(), what="reset")
        detail = {"kind": kind, "name": name, "status": before.status, "why": before.why}
        audit.record("breaker.reset", actor=actor, detail=detail)
    return True


def waiting_runs(actor: Any, models: list[str]) -> Counter[str]:
    """How many runs that ``actor`` may see wait for each of these models."""
    waiting = Run.objects.visible_to(actor).live().filter(waiting_kind=NeedKind.MODEL, waiting_name__in=models)
    return Counter(waiting.values_list("waiting_name", flat=True))


def rule_in_force(breaker: Breaker) -> b.Rule:
    """When it opens: by its own rule, the one for all of its kind, or the default."""
    return rule_of(journal.raw_connection(), breaker.kind, breaker.name)


def history(actor: Any, breaker: Breaker) -> list[BreakerEvent]:
    """The latest of what happened to it; whose run that was only where ``actor`` may see the run."""
    events = list(events_of(breaker).select_related("actor")[:SHOWN])
    seen = Run.objects.visible_to(actor).in_bulk({event.run for event in events if event.run})
    for event in events:
        event.run = event.run if event.run in seen else None
    return events


def events_of(breaker: Breaker) -> QuerySet[BreakerEvent]:
    """All that happened to it, the latest first."""
    return BreakerEvent.objects.filter(kind=breaker.kind, name=breaker.name)
