"""Who may make a folder or a repository a workspace, asked where it is saved (`docs/adr/0036`, `docs/adr/0068`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.utils import timezone

from loops.engine.state.command_limits import COMMAND_LIMITS
from loops.models import Project, Workspace
from loops.runs.composition import ONLY_A_SUPERUSER, roots
from loops.services import audit
from loops.services.policy_settings import POLICIES
from loops.tools.workspace_roots import overlap, plain
from loops.workspaces import sources
from loops.workspaces.copies import REFUSED, why_overlapping, why_refused

SAY_SO = (
    "lies outside the workspace roots, or another project has it too: tick “Allow this folder” if agents may have it"
)


def why_not_saved(actor: Any, draft: Workspace, *, allow: bool) -> str:
    """Why ``actor`` may not save ``draft`` as it is, with an audit event; "" when they may.

    What is in a root is free to the admins of a project unless another project has it, or what holds it, or lies in it.
    """
    said = _why_not_free(actor, draft, allow and actor.is_superuser)
    if said:
        refused = {"path": draft.path, "in_place": not draft.copy_for_each_run, "why": said}
        audit.record(REFUSED, actor=actor, project=draft.project, detail=refused)
    return said


def why_not_fetched(actor: Any, draft: Workspace) -> str:
    """Why ``actor`` may not save the repository that ``draft`` names, with an audit event; "" when they may."""
    if not draft.git_url or draft.may_be_fetched or actor.is_superuser:
        return ""
    more = {"url": draft.git_url, "why": sources.ONLY_A_SUPERUSER}
    audit.record(REFUSED, actor=actor, project=draft.project, detail={**detail(draft), **more})
    return sources.ONLY_A_SUPERUSER


def faults_here(draft: Workspace) -> dict[str, str]:
    """Why no commit could be fetched from the folder that ``draft`` names, by field, where that is stated anew. Asked
    after who may use it: what a repository has is not for everybody."""
    same = Workspace.objects.filter(pk=draft.pk, path=draft.path, git_ref=draft.git_ref)
    return {} if not draft.is_fetched or same.exists() else sources.faults_here(draft)


def require_limits(actor: Any, draft: Workspace) -> None:
    """Raise NotAllowed, with an audit event, where ``actor`` gives commands other limits there than they had, and
    may not change those of the project either."""
    now = Workspace.objects.filter(pk=draft.pk).first()
    if draft.own_limits != (now.own_limits if now is not None else {}):
        POLICIES.require_change(actor, draft.project)


def detail(workspace: Workspace) -> dict[str, Any]:
    """What the audit log keeps of one."""
    found = {"workspace": workspace.name, "path": workspace.path, "in_place": not workspace.copy_for_each_run}
    if workspace.git_ref and not workspace.git_url:
        found |= {"ref": workspace.git_ref}
    if workspace.git_url:
        found |= {"url": workspace.git_url, "ref": workspace.git_ref, "token": workspace.git_token_env}
        found |= {"push_token": workspace.git_push_token_env}
    return found


def record(
    actor: Any, workspace: Workspace, changed: Iterable[str], *, open_to_agents: bool, fetch: bool = False
) -> None:
    """What is due when one was saved: the audit event, with what commands may use if that was ``changed``, and, where
    somebody answers for the folder or the repository, that. What is stated anew is fetched at once."""
    limits = {name: getattr(workspace, name) for name in COMMAND_LIMITS if name in set(changed)}
    kept = detail(workspace) | ({"limits": limits} if limits else {})
    audit.record("workspace.changed", actor=actor, project=workspace.project, detail=kept)
    if workspace.git_url and not workspace.may_be_fetched:
        sources.allow(actor, workspace)
    if open_to_agents and workspace.path:
        allow(actor, workspace)
    if fetch and workspace.is_fetched:
        sources.order(workspace, actor)


def allow(actor: Any, workspace: Workspace) -> str:
    """Open the folder, in the use that the row states, to its project. Superusers only. Returns why not, or ""."""
    if not actor.is_superuser:
        raise PermissionError("only a superuser opens folders to agents")
    if said := roots().why_never(workspace.path) or why_overlapping(workspace):
        return said
    workspace.allowed_path, workspace.allowed_in_place = plain(workspace.path), not workspace.copy_for_each_run
    workspace.allowed_by, workspace.allowed_at = actor, timezone.now()
    workspace.save()
    opened = {"workspace": workspace.name, "path": workspace.allowed_path, "in_place": workspace.allowed_in_place}
    audit.record("workspace.allowed", actor=actor, project=workspace.project, detail=opened)
    return ""


def _why_not_free(actor: Any, draft: Workspace, allowed: bool) -> str:
    if not draft.path:
        return ""
    if said := roots().why_never(draft.path) or why_overlapping(draft):
        return said
    shared = _is_also_anothers(draft.project, draft.path)
    if allowed or (not why_refused(draft) and (not shared or draft.allowed_path == draft.path)):
        return ""
    return f"{draft.path} {SAY_SO}" if actor.is_superuser else f"{draft.path} is not free: {ONLY_A_SUPERUSER}"


def _is_also_anothers(project: Project, path: str) -> bool:
    others = Workspace.objects.exclude(project=project).values_list("path", flat=True)
    made = roots().made
    return any(
        overlap(path, other)
        for other in map(plain, others)
        if not any(other.startswith(f"{folder}/") for folder in made)
    )
