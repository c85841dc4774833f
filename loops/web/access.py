"""What the person asking may do, read once a request. ``visible_to`` decides what is seen; this, which buttons show."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Prefetch, prefetch_related_objects
from django.http import HttpRequest
from django.shortcuts import get_object_or_404

from loops.models import Membership, Project, Run
from loops.querysets import OPERATE, REVIEW


@dataclass(frozen=True, slots=True)
class Audience:
    """People for whom the same bytes are right: who may steer the run, who may answer its gates."""

    operate: bool = False
    review: bool = False


@dataclass(frozen=True, slots=True)
class Roles:
    everything: bool = False
    by_project: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def may(self, project_id: str, wanted: tuple[str, ...]) -> bool:
        return self.everything or not self.by_project.get(project_id, frozenset()).isdisjoint(wanted)

    def audience(self, project_id: str) -> Audience:
        return Audience(self.may(project_id, OPERATE), self.may(project_id, REVIEW))

    @property
    def may_operate(self) -> bool:
        return self.everything or any(not roles.isdisjoint(OPERATE) for roles in self.by_project.values())

    @property
    def in_no_project(self) -> bool:
        return not self.everything and not self.by_project


def roles_of_user(user: Any) -> Roles:
    """One query; none for superusers and nobody."""
    if not user.is_authenticated or not user.is_active:
        return Roles()
    if user.is_superuser:
        return Roles(everything=True)
    found: dict[str, set[str]] = {}
    for membership in user.memberships.all():
        found.setdefault(membership.project_id, set()).add(membership.role)
    return Roles(by_project={project_id: frozenset(roles) for project_id, roles in found.items()})


def roles(request: HttpRequest) -> Roles:
    """The roles of the person asking, read once a request, for ``visible_to`` as well: its user lives as long."""
    if not hasattr(request, "_roles"):
        user = request.user
        if user.is_authenticated and not user.is_superuser:
            named = Membership.objects.select_related("project").order_by("project__name")
            prefetch_related_objects([user], Prefetch("memberships", named))
        request._roles = roles_of_user(user)  # type: ignore[attr-defined]
    return request._roles  # type: ignore[attr-defined,no-any-return]


def projects(request: HttpRequest) -> list[Project]:
    """Those of the person asking, by name."""
    if roles(request).everything:
        return list(Project.objects.all())
    mine = request.user.memberships.all()
    return list({one.project_id: one.project for one in mine}.values())


def run_or_404(request: HttpRequest, run_id: uuid.UUID, wanted: tuple[str, ...] = ()) -> Run:
    """The run, if the person asking may see it (or act on it in one of the roles ``wanted``)."""
    roles(request)
    run: Run = get_object_or_404(Run.objects.visible_to(request.user, wanted).with_names(), pk=run_id)
    return run
