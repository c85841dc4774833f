"""When circuit breakers open (SPEC E5): rules for tools and models, each change in the audit log."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from loops import models as m
from loops.admin.base import OfTheInstallation
from loops.services import audit


@admin.register(m.BreakerRule)
class BreakerRuleAdmin(OfTheInstallation):
    list_display = ("kind", "name", "enabled", "threshold", "window_s", "cooldown_s")
    list_filter = ("kind",)
    search_fields = ("name",)

    def save_model(self, request: HttpRequest, obj: m.BreakerRule, form: Any, change: bool) -> None:
        """Say what it was and what it is."""
        super().save_model(request, obj, form, change)
        changed = {name: str(form.cleaned_data[name]) for name in form.changed_data}
        audit.record("breaker.rule_changed", actor=request.user, detail={"rule": str(obj), **changed})

    def delete_model(self, request: HttpRequest, obj: m.BreakerRule) -> None:
        """The next wider rule holds then."""
        audit.record("breaker.rule_deleted", actor=request.user, detail={"rule": str(obj)})
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet) -> None:
        """Each is said, as one is."""
        for rule in queryset:
            self.delete_model(request, rule)
