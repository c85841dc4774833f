"""Workspaces as people set them up: which folders, and how runs use them (SPEC I7, ADR 0036)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loops.models import Project, Workspace
from loops.services.configuration import Kind, Unfit
from loops.tools.workspace_roots import plain
from loops.workspaces import access


class Workspaces(Kind):
    model = Workspace
    CHANGED, DELETED = "workspace.changed", "workspace.deleted"

    def faults(self, row: Workspace) -> dict[str, str]:
        """None beyond its table; a path has one spelling."""
        row.path = plain(row.path)
        return {}

    def permit(self, actor: Any, row: Workspace, *, allow: bool) -> bool:
        """Where its folder may lie."""
        if refused := access.refusal_to_save(actor, row, allow=allow):
            raise Unfit({"path": refused})
        return allow

    def affected(self, row: Workspace) -> Iterable[Project]:
        """None: no version of a policy names folders."""
        return ()

    def detail(self, row: Workspace) -> dict[str, Any]:
        """Where it lies, and how it is used."""
        return {"workspace": row.name, "path": row.path, "in_place": not row.copy_for_each_run}

    def recorded(self, actor: Any, row: Workspace, changed: Iterable[str], *, allow: bool = False) -> None:
        """And, where somebody answers for the folder, who."""
        access.record(actor, row, open_to_agents=allow)


WORKSPACES = Workspaces()
