"""Who may do what, asked in one place: a refusal is always recorded (ASVS 16.3.2)."""

from __future__ import annotations

from typing import Any

from loops.models import Project, Run
from loops.querysets import ADMINISTER, can
from loops.services import audit


class NotAllowed(Exception):
    """The person has no role that permits this. The message is fit for them to read."""


def require(actor: Any, project: Project, roles: tuple[str, ...], *, what: str, run: Run | None = None) -> None:
    """Raise NotAllowed, with an audit event, unless ``actor`` has one of ``roles`` in ``project``."""
    if can(actor, project.pk, roles):
        return
    audit.record("access.refused", actor=actor, project=project, run=run, detail={"what": what, "needs": list(roles)})
    raise NotAllowed(f"To {what} you need the role {_either(roles)} in {project.name}.")


def require_as_in_admin(actor: Any, project: Project | None, permission: str, *, what: str) -> None:
    """Raise NotAllowed, with an audit event, unless the pages of Admin would let ``actor`` do it: superusers all, staff
    with ``permission`` what belongs to a project that they administer, and nobody else what holds for every project."""
    if actor.is_active and actor.is_superuser:
        return
    if project is None:
        require_superuser(actor, None, what=what)
    else:
        require(actor, project, ADMINISTER, what=what)
        if not (actor.is_staff and actor.has_perm(permission)):
            detail = {"what": what, "needs": ["staff", permission]}
            audit.record("access.refused", actor=actor, project=project, detail=detail)
            raise NotAllowed(f"To {what} you need access to Admin: a superuser adds you to the group admin, as staff.")


def require_superuser(actor: Any, project: Project | None, *, what: str) -> None:
    """Raise NotAllowed, with an audit event, unless ``actor`` is one."""
    if actor.is_active and actor.is_superuser:
        return
    audit.record("access.refused", actor=actor, project=project, detail={"what": what, "needs": ["superuser"]})
    raise NotAllowed(f"To {what} you need to be a superuser.")


def _either(roles: tuple[str, ...]) -> str:
    return " or ".join(roles)
