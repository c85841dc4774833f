"""Reads that pages, API and sockets share. ``visible_to`` is the permission: an unchecked object cannot be had."""

from __future__ import annotations

from typing import Any, Self

from django.db import models

OPERATE = ("operator", "admin")
REVIEW = ("reviewer", "admin")
ADMINISTER = ("admin",)


class ProjectScoped(models.QuerySet[Any]):
    """Rows that belong to a project by ``project_path`` ("" for the project itself)."""

    project_path = "project"

    def visible_to(self, user: Any, roles: tuple[str, ...] = ()) -> Self:
        """Rows of projects in which ``user`` has a role (or one of ``roles``). Superusers see all."""
        if not user.is_authenticated or not user.is_active:
            return self.none()
        if user.is_superuser:
            return self
        mine = {one.project_id for one in user.memberships.all() if not roles or one.role in roles}
        # The very ids, and no join or subquery: Postgres knows how many runs each project has, and nothing of who is in
        # which, so it would read every run that one may see to sort them.
        return self.filter(**{f"{self.project_path or 'pk'}__in": sorted(mine)})


class ProjectQuerySet(ProjectScoped):
    project_path = ""


class RunQuerySet(ProjectScoped):
    def live(self) -> Self:
        return self.exclude(status__in=["completed", "failed", "interrupted", "escalated"])

    def dead_lettered(self) -> Self:
        """Given up by AgentOps itself, and kept for a person to try again."""
        return self.filter(status="failed", end_reason__in=["internal_error", "journal_unreadable"])

    def held(self) -> Self:
        """Paused by AgentOps, which gives its reason: somebody has to look, and resume or stop them."""
        return self.filter(status="paused").exclude(paused_reason="")

    def escalated(self) -> Self:
        """Put before a person because they could not go on by themselves: now, or when they ended (D83)."""
        return self.exclude(escalation_reason="")

    def with_names(self) -> Self:
        return self.select_related("task", "agent", "project")


class ThroughRun(ProjectScoped):
    project_path = "run__project"


def can(user: Any, project_id: str, roles: tuple[str, ...]) -> bool:
    """May ``user`` act in one of ``roles`` in the project? One query; superusers always may."""
    if not user.is_authenticated or not user.is_active:
        return False
    if user.is_superuser:
        return True
    return bool(user.memberships.filter(project_id=project_id, role__in=roles).exists())
