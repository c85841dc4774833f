"""Members and groups (SPEC S4)."""

from __future__ import annotations

import secrets
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db import transaction

from loops.models import Membership, Project
from loops.querysets import ADMINISTER
from loops.services import access, audit

Role = Membership.Role
DEMO_ROLES = {"operator": Role.OPERATOR, "reviewer": Role.REVIEWER, "admin": Role.ADMIN}
TUNED_BY_ADMINS = (
    "accessrule",
    "agent",
    "membership",
    "policy",
    "workspace",
)
READ_BY_ADMINS = (
    "auditevent",
    "breakerrule",
    "complexityprofile",
    "modelconfig",
    "policyversion",
    "project",
    "provenancerecord",
    "run",
    "task",
)
"""What is the installation's, and not a project's, superusers alone change."""


class NotPossible(Exception):
    """What was asked for cannot be done; the message says why."""


@transaction.atomic
def add_member(*, actor: Any, project: Project, user: Any, role: str) -> Membership:
    """Give ``user`` a role in the project. ``actor`` None means the command line of the installation."""
    if actor is not None:
        access.require(actor, project, ADMINISTER, what="add members")
    if role not in Role.values:
        raise NotPossible(f"There is no role {role}; choose one of {', '.join(Role.values)}.")
    membership, created = Membership.objects.get_or_create(project=project, user=user, role=role)
    if created:
        audit.record("member.added", actor=actor, project=project, detail={"user": user.get_username(), "role": role})
    return membership


def create_demo_users(project: Project) -> dict[str, str]:
    """Users operator, reviewer and admin with those roles; returns the passwords of the new ones, to show once."""
    ensure_groups()
    users = get_user_model()._default_manager
    made = {}
    for username, role in DEMO_ROLES.items():
        user = users.filter(username=username).first()
        if user is None:
            made[username] = secrets.token_urlsafe(9)
            create = users.create_superuser if username == "admin" else users.create_user  # type: ignore[attr-defined]
            user = create(username, password=made[username])
        add_member(actor=None, project=project, user=user, role=role)
        user.groups.add(Group.objects.get(name=role))
    return made


@transaction.atomic
def ensure_groups() -> None:
    """Groups operator, reviewer and admin. Only the last opens pages of the Django admin (for staff). It gets its
    permissions when it is made, and never again: what a superuser takes from it stays taken."""
    made = {name: Group.objects.get_or_create(name=name) for name in DEMO_ROLES}
    admin, is_new = made["admin"]
    if not is_new:
        return
    tune = Permission.objects.filter(content_type__app_label="loops", content_type__model__in=TUNED_BY_ADMINS)
    read = Permission.objects.filter(
        content_type__app_label="loops", content_type__model__in=READ_BY_ADMINS, codename__startswith="view_"
    )
    admin.permissions.add(*tune, *read)
