"""What the database says about a person now: pages are old by the time a button is pressed."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection

from gates.models import Gate
from gates.policy import roles
from gates.policy.verdicts import Verdict, allowed
from gates.terms import terms_of


def objections_of(actor: Any, gate: Gate, verdict: str = "") -> list[str]:
    """Why ``actor`` may not decide ``gate``, by roles and policy as they are in the database at this moment."""
    with connection.cursor() as cursor:
        terms = terms_of(cursor, gate.project_id)
    person = _person(actor, gate)
    return roles.objections(person, gate.kind, verdict, own_approval_allowed=terms.own_approval_allowed)


def verdicts_for(actor: Any, gate: Gate, view_bytes: int = 0) -> tuple[Verdict, ...]:
    """The verdicts ``actor`` may give: what the buttons show, by the same rules that ``decide`` applies."""
    if not gate.is_open:
        return ()
    with connection.cursor() as cursor:
        own = terms_of(cursor, gate.project_id).own_approval_allowed
    person = _person(actor, gate)
    offered = allowed(gate.kind, view_bytes)
    return tuple(one for one in offered if not roles.objections(person, gate.kind, one, own_approval_allowed=own))


def _person(actor: Any, gate: Gate) -> roles.Person:
    fresh = get_user_model().objects.filter(pk=actor.pk).first()
    if fresh is None:
        return roles.Person(is_active=False)
    return roles.Person(
        roles=frozenset(fresh.memberships.filter(project_id=gate.project_id).values_list("role", flat=True)),
        is_active=fresh.is_active,
        is_superuser=fresh.is_superuser,
        is_requester=gate.run.task.created_by_id == fresh.pk,
    )
