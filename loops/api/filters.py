"""What lists can be narrowed by."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db import models

from loops.engine.ends.reasons import EXPLANATIONS
from loops.models import AccessRule, Agent, Policy, Run, Task, Workspace
from loops.querysets import RunQuerySet
from loops.storage.status import FINAL_STATUSES


class ScopedFilter(filters.FilterSet):
    """Narrows a list that holds only what one may see, by values that are compared and never looked up.

    So an id of another team, one that never was and one's own get the same questions to the database and the same
    answer, and no list of choices is made from rows.
    """

    @classmethod
    def filter_for_field(cls, field: Any, field_name: str, lookup_expr: str | None = None) -> filters.Filter:
        """Compare the key itself where the field leads to another row."""
        if not field.is_relation:
            return super().filter_for_field(field, field_name, lookup_expr)
        is_uuid = isinstance(field.target_field, models.UUIDField)
        return (filters.UUIDFilter if is_uuid else filters.CharFilter)(field_name=field_name)


class AgentFilter(ScopedFilter):
    """``?project=...&agent_type=...``."""

    class Meta:
        model = Agent
        fields = ("project", "agent_type", "is_active")


class WorkspaceFilter(ScopedFilter):
    """``?project=...&name=...``."""

    class Meta:
        model = Workspace
        fields = ("project", "name")


class AccessRuleFilter(ScopedFilter):
    """``?project=...&agent_type=...&access=ask``."""

    class Meta:
        model = AccessRule
        fields = ("project", "agent_type", "tool", "operation", "access")


class PolicyFilter(ScopedFilter):
    """``?project=...``."""

    class Meta:
        model = Policy
        fields = ("project",)


class RunFilter(ScopedFilter):
    """``?status=waiting&status=thinking&agent=...&live=true``."""

    status = filters.MultipleChoiceFilter(choices=Run.Status.choices)
    final_status = filters.MultipleChoiceFilter(choices=[(word, word) for word in FINAL_STATUSES])
    end_reason = filters.CharFilter(label=f"Reason code: {', '.join(EXPLANATIONS)}")
    live = filters.BooleanFilter(method="only_live", label="Not ended yet")
    escalated = filters.BooleanFilter(method="only_escalated", label="Escalated to a person, now or at its end")
    held = filters.BooleanFilter(method="only_held", label="Paused by AgentOps: somebody has to resume or stop it")
    started_after = filters.IsoDateTimeFilter(field_name="started_at", lookup_expr="gte")
    started_before = filters.IsoDateTimeFilter(field_name="started_at", lookup_expr="lt")

    class Meta:
        model = Run
        fields = (
            "status",
            "project",
            "task",
            "agent",
            "final_status",
            "end_reason",
            "live",
            "escalated",
            "held",
            "started_after",
            "started_before",
        )

    def only_live(self, queryset: filters.QuerySet, name: str, value: bool) -> filters.QuerySet:
        """Keep runs that have not ended, or only those that have."""
        ended = [status.value for status in Run.ENDED]
        return queryset.exclude(status__in=ended) if value else queryset.filter(status__in=ended)

    def only_escalated(self, queryset: RunQuerySet, name: str, value: bool) -> RunQuerySet:
        """Keep runs that could not go on without a person, or only the others."""
        return queryset.escalated() if value else queryset.filter(escalation_reason="")

    def only_held(self, queryset: RunQuerySet, name: str, value: bool) -> RunQuerySet:
        """Keep runs that the monitor paused, or only the others."""
        return queryset.held() if value else queryset.exclude(status="paused", paused_reason__gt="")


class TaskFilter(ScopedFilter):
    """``?project=...&agent=...&idempotency_key=...``."""

    idempotency_key = filters.CharFilter()

    class Meta:
        model = Task
        fields = ("project", "agent", "idempotency_key")
