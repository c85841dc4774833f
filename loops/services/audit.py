"""The log of what people did and were refused, beside the journals of runs (SPEC N2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loops.models import AuditEvent, Project, Run
from loops.storage import audit_rows


def record(
    kind: str,
    *,
    actor: Any,
    project: Project | None = None,
    run: Run | None = None,
    detail: Mapping[str, Any] | None = None,
) -> AuditEvent:
    """Add one event, in the caller's transaction, in the shape of ``loops.storage.audit_rows``."""
    person = actor if actor is not None and actor.is_authenticated else None
    if project is None and run is not None:
        project = run.project
    shown = audit_rows.shown(detail)
    return AuditEvent.objects.create(kind=kind, actor=person, project=project, run=run, detail=shown)
