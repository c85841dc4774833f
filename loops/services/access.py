"""Who may do what, asked in one place: a refusal is always recorded (ASVS 16.3.2)."""

from __future__ import annotations

from typing import Any

from loops.models import Project, Run
from loops.querysets import can
from loops.services import audit


class NotAllowed(Exception):
    """The person has no role that permits this. The message is fit for them to read."""


def require(actor: Any, project: Project, roles: tuple[str, ...], *, what: str, run: Run | None = None) -> None:
    """Raise NotAllowed, with an audit event, unless ``actor`` has one of ``roles`` in ``project``."""
    if can(actor, project.pk, roles):
        return
    audit.record("access.refused", actor=actor, project=project, run=run, detail={"what": what, "needs": list(roles)})
    raise NotAllowed(f"To {what} you need the role {_either(roles)} in {project.name}.")


def _either(roles: tuple[str, ...]) -> str:
    return " or ".join(roles)
