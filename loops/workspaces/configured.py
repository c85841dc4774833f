"""Workspaces as people set them up: which folders, and how runs use them (SPEC I7, ADR 0036)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loops.models import Project, Workspace
from loops.services.configuration import Kind, Unfit
from loops.tools.workspace_roots import plain
from loops.workspaces import access, sources

FETCHED = frozenset({"path", "git_url", "git_ref", "git_token_env"})


class Workspaces(Kind):
    model = Workspace
    CHANGED, DELETED = "workspace.changed", "workspace.deleted"

    def faults(self, row: Workspace) -> dict[str, str]:
        """Those of a repository; a path has one spelling."""
        row.path = plain(row.path)
        return sources.faults(row)

    def permit(self, actor: Any, row: Workspace, *, allow: bool) -> bool:
        """Where its folder may lie, which repository may be fetched, and what commands may use there."""
        access.require_limits(actor, row)
        if why := access.why_not_fetched(actor, row):
            raise Unfit({"git_url": why})
        if refused := access.why_not_saved(actor, row, allow=allow):
            raise Unfit({"path": refused})
        if faults := access.faults_here(row):
            raise Unfit(faults)
        return allow

    def affected(self, row: Workspace) -> Iterable[Project]:
        """None: no version of a policy names folders."""
        return ()

    def detail(self, row: Workspace) -> dict[str, Any]:
        """Where it lies, and how it is used."""
        return access.detail(row)

    def recorded(self, actor: Any, row: Workspace, changed: Iterable[str], *, allow: bool = False) -> None:
        """And, where somebody answers for the folder or the repository, who."""
        access.record(actor, row, changed, open_to_agents=allow, fetch=bool(FETCHED & set(changed)))


WORKSPACES = Workspaces()
