"""What lists can be narrowed by."""

from __future__ import annotations

import django_filters as filters

from loops.engine.exits import REASONS
from loops.models import Agent, Run, Task
from loops.querysets import RunQuerySet


class AgentFilter(filters.FilterSet):
    """``?project=...&agent_type=...``. Ids are plain text: a list of choices would show other teams' projects."""

    project = filters.CharFilter(field_name="project_id")

    class Meta:
        model = Agent
        fields = ("project", "agent_type", "is_active")


class RunFilter(filters.FilterSet):
    """``?status=waiting&status=thinking&agent=...&live=true``."""

    status = filters.MultipleChoiceFilter(choices=Run.Status.choices)
    project = filters.CharFilter(field_name="project_id")
    task = filters.CharFilter(field_name="task_id")
    agent = filters.CharFilter(field_name="agent_id")
    end_reason = filters.CharFilter(label=f"Reason code: {', '.join(REASONS)}")
    live = filters.BooleanFilter(method="only_live", label="Not ended yet")
    escalated = filters.BooleanFilter(method="only_escalated", label="Could not go on without a person")
    held = filters.BooleanFilter(method="only_held", label="Paused by the monitor: somebody has to look")
    started_after = filters.IsoDateTimeFilter(field_name="started_at", lookup_expr="gte")
    started_before = filters.IsoDateTimeFilter(field_name="started_at", lookup_expr="lt")

    class Meta:
        model = Run
        fields = (
            "status",
            "project",
            "task",
            "agent",
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


class TaskFilter(filters.FilterSet):
    """``?project=...&agent=...&idempotency_key=...``."""

    project = filters.CharFilter(field_name="project_id")
    agent = filters.CharFilter(field_name="agent_id")
    idempotency_key = filters.CharFilter()

    class Meta:
        model = Task
        fields = ("project", "agent", "idempotency_key")
