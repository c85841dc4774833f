"""Who may make a folder of the host a workspace, asked where it is saved (`docs/adr/0036`)."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from loops.models import Project, Workspace
from loops.runs.composition import ONLY_A_SUPERUSER, roots
from loops.services import audit
from loops.tools.workspace_roots import overlap, plain
from loops.workspaces.copies import REFUSED, beside, refusal

SAY_SO = (
    "lies outside the workspace roots, or another project has it too: tick “Allow this folder” if agents may have it"
)


def refusal_to_save(actor: Any, draft: Workspace, *, allow: bool) -> str:
    """Why ``actor`` may not save ``draft`` as it is, with an audit event; "" when they may.

    What is in a root is free to the admins of a project unless another project has it, or what holds it, or lies in it.
    """
    said = _said(actor, draft, allow and actor.is_superuser)
    if said:
        detail = {"path": draft.path, "in_place": not draft.copy_for_each_run, "why": said}
        audit.record(REFUSED, actor=actor, project=draft.project, detail=detail)
    return said


def record(actor: Any, workspace: Workspace, *, open_to_agents: bool) -> None:
    """What is due when one was saved: the audit event and, where somebody answers for the folder, that."""
    detail = {"workspace": workspace.name, "path": workspace.path, "in_place": not workspace.copy_for_each_run}
    audit.record("workspace.changed", actor=actor, project=workspace.project, detail=detail)
    if open_to_agents and workspace.path:
        allow(actor, workspace)


def allow(actor: Any, workspace: Workspace) -> str:
    """Open the folder, in the use that the row states, to its project. Superusers only. Returns why not, or ""."""
    if not actor.is_superuser:
        raise PermissionError("only a superuser opens folders to agents")
    if said := _never(workspace.path) or beside(workspace):
        return said
    workspace.allowed_path, workspace.allowed_in_place = plain(workspace.path), not workspace.copy_for_each_run
    workspace.allowed_by, workspace.allowed_at = actor, timezone.now()
    workspace.save()
    detail = {"workspace": workspace.name, "path": workspace.allowed_path, "in_place": workspace.allowed_in_place}
    audit.record("workspace.allowed", actor=actor, project=workspace.project, detail=detail)
    return ""


def _said(actor: Any, draft: Workspace, allowed: bool) -> str:
    if not draft.path:
        return ""
    if said := _never(draft.path) or beside(draft):
        return said
    shared = _is_also_anothers(draft.project, draft.path)
    if allowed or (not refusal(draft) and (not shared or draft.allowed_path == draft.path)):
        return ""
    return f"{draft.path} {SAY_SO}" if actor.is_superuser else f"{draft.path} is not free: {ONLY_A_SUPERUSER}"


def _never(path: str) -> str:
    places = roots()
    return places.forbidden(path) or places.unreachable(path)


def _is_also_anothers(project: Project, path: str) -> bool:
    others = Workspace.objects.exclude(project=project).values_list("path", flat=True)
    made = roots().made
    return any(
        overlap(path, other)
        for other in map(plain, others)
        if not any(other.startswith(f"{folder}/") for folder in made)
    )
