"""Gates and decisions in the admin: to look at, never to change. Deciding is done on the Review page."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from gates.models import Decision, Gate
from loops.admin.base import Unguessable


class ReadOnly(Unguessable):
    """Shows rows; nothing here adds, changes or deletes one."""

    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Gates are opened by runs."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Decisions are taken under their own rules."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """History stays."""
        return False


@admin.register(Gate)
class GateAdmin(ReadOnly):
    list_display = ("title", "task", "kind", "status", "risk", "project", "opened_at", "expires_at", "overdue")
    list_filter = ("status", "kind", "risk", "project")
    search_fields = ("title", "tool", "call_id")
    list_select_related = ("project", "run__task")
    exclude = ("subject",)

    @admin.display(ordering="run__task__title")
    def task(self, gate: Gate) -> str:
        """What the deed is for."""
        return str(gate.run.task.title)


@admin.register(Decision)
class DecisionAdmin(ReadOnly):
    list_display = ("gate", "verdict", "decided_by", "created_at")
    list_filter = ("verdict",)
    search_fields = ("reason", "gate__title")
    list_select_related = ("gate", "decided_by")
