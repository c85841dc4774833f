"""What the database says about a person now: pages are old by the time a button is pressed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection
from django.db.models import FilteredRelation, Q

from gates.contributors import has_shaped
from gates.models import Gate
from gates.policy import roles
from gates.policy.verdicts import allowed
from gates.terms import terms_of
from loops.engine.values import Verdict


@dataclass(frozen=True, slots=True)
class PersonStatus:
    """A person before a gate, as the database knew both at one moment."""

    person: roles.Person
    gate: Gate
    own_approval_allowed: bool

    def objections(self, verdict: str = "") -> list[str]:
        """Why the person may not decide the gate, or not in this way."""
        return roles.objections(self.person, self.gate.kind, verdict, own_approval_allowed=self.own_approval_allowed)

    def verdicts(self, view_bytes: int = 0) -> tuple[Verdict, ...]:
        """The verdicts the person may give: what the buttons show, by the same rules that ``decide`` applies."""
        if not self.gate.is_open:
            return ()
        return tuple(one for one in allowed(self.gate.kind, view_bytes) if not self.objections(one))


def standing_of(actor: Any, gate: Gate) -> PersonStatus:
    """Two queries, and one more where the policy asks for another person's approval."""
    with connection.cursor() as cursor:
        own = terms_of(cursor, gate.project_id).own_approval_allowed
    return PersonStatus(_person(actor, gate, own_allowed=own), gate, own)


def objections_of(actor: Any, gate: Gate, verdict: str = "") -> list[str]:
    """Why ``actor`` may not decide ``gate``, by roles and policy as they are in the database at this moment."""
    return standing_of(actor, gate).objections(verdict)


def _person(actor: Any, gate: Gate, *, own_allowed: bool) -> roles.Person:
    here = FilteredRelation("memberships", condition=Q(memberships__project=gate.project_id))
    found = get_user_model().objects.annotate(here=here).filter(pk=actor.pk)
    rows = list(found.values_list("is_active", "is_superuser", "here__role"))  # one for each role, at least one
    if not rows:
        return roles.Person(is_active=False)
    return roles.Person(
        roles=frozenset(role for *_, role in rows if role),
        is_active=rows[0][0],
        is_superuser=rows[0][1],
        is_requester=gate.run.task.created_by_id == actor.pk,
        has_shaped=not own_allowed and has_shaped(actor, gate.run_id),
    )
