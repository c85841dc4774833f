"""Reads of gates that the page, the API and every counter share, so that a badge never counts what a list hides."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from django.db.models import Case, Exists, F, IntegerField, OuterRef, Q, Value, When
from django.db.models.functions import Coalesce

from gates.contributors import runs_shaped_by
from gates.policy.queue import RISK_RANK, UNKNOWN_RISK
from gates.policy.roles import APPROVING, BY_OPERATORS, BY_REQUESTER, OPERATORS, REVIEWERS
from loops.models import Membership, Policy
from loops.querysets import ProjectScoped


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page of the queue ended: the three keys of its order."""

    risk: int
    due: datetime
    id: uuid.UUID


class GateQuerySet(ProjectScoped):
    def open(self) -> Self:
        return self.filter(status="open")

    def waiting_for(self, user: Any) -> Self:
        """Open gates that ``user`` may decide, by the rules of ``gates.policy.roles``."""
        if not user.is_authenticated or not user.is_active:
            return self.none()
        waiting = self.open()
        if not user.is_superuser:
            asked_back = Q(run__task__created_by=user, kind__in=BY_REQUESTER) & Q(_in_role(user, OPERATORS))
            ended = Q(_in_role(user, OPERATORS), kind__in=BY_OPERATORS)
            waiting = waiting.filter(Q(_in_role(user, REVIEWERS)) | asked_back | ended)
        by_others = Exists(Policy.objects.filter(project=OuterRef("project"), own_approval_allowed=False))
        own = Q(run__task__created_by=user) | Q(run_id__in=runs_shaped_by(user))
        return waiting.exclude(Q(by_others) & own & Q(kind__in=APPROVING))

    def ranked(self) -> Self:
        """Highest risk first, then the nearest deadline, then the oldest."""
        ranks = [When(risk=risk, then=Value(rank)) for risk, rank in RISK_RANK.items()]
        rank = Case(*ranks, default=Value(UNKNOWN_RISK), output_field=IntegerField())
        due = Coalesce("due_at", "expires_at")
        return self.annotate(risk_rank=rank, due=due).order_by("-risk_rank", "due", "id")

    def after(self, place: Place) -> Self:
        """What follows ``place`` in the order of ``ranked``."""
        lower = Q(risk_rank__lt=place.risk)
        later = Q(risk_rank=place.risk, due__gt=place.due)
        younger = Q(risk_rank=place.risk, due=place.due, id__gt=place.id)
        return self.filter(lower | later | younger)

    def with_names(self) -> Self:
        return self.select_related(
            "project", "claimed_by", "run__agent", "run__task__created_by", "run__task__workspace"
        ).annotate(requester=F("run__task__created_by__username"))


class DecisionQuerySet(ProjectScoped):
    project_path = "gate__project"

    def with_names(self) -> Self:
        return self.select_related("gate__project", "gate__run__agent", "decided_by")


def _in_role(user: Any, roles: frozenset[str]) -> Exists:
    return Exists(Membership.objects.filter(project=OuterRef("project"), user=user, role__in=roles))
