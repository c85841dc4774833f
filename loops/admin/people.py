"""Projects, their members, and the people of this installation (SPEC S4)."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.http import HttpRequest
from rest_framework.authtoken import admin as _registers_tokens  # noqa: F401 - so that it can be undone
from rest_framework.authtoken.models import TokenProxy
from unfold.admin import TabularInline
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from loops import models as m
from loops.admin.base import ProjectScopedAdmin, Unguessable
from loops.services import audit, policies


class Members(TabularInline):
    model = m.Membership
    extra = 0
    autocomplete_fields = ("user",)


@admin.register(m.Project)
class ProjectAdmin(ProjectScopedAdmin):
    project_path = ""
    list_display = ("name", "slug", "is_demo", "keep_days", "created_at")
    search_fields = ("name", "slug")
    prepopulated_fields = {"slug": ("name",)}
    inlines = (Members,)

    def save_model(self, request: HttpRequest, obj: m.Project, form: Any, change: bool) -> None:
        """A project is born with a policy and a matrix."""
        super().save_model(request, obj, form, change)
        policies.create_default_policy(obj)
        policies.current_version(obj, actor=request.user, reason="Project created")
        if "keep_days" in form.changed_data:
            detail = {"before": form.initial.get("keep_days"), "after": obj.keep_days}
            audit.record("retention.changed", actor=request.user, project=obj, detail=detail)

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        """Who may do what is worth an audit event."""
        super().save_formset(request, form, formset, change)
        changed = [row for row, _ in formset.changed_objects]
        rows = {"added": formset.new_objects, "changed": changed, "removed": formset.deleted_objects}
        detail = {what: [f"{row.user}: {row.role}" for row in members] for what, members in rows.items() if members}
        if detail:
            audit.record("members.changed", actor=request.user, project=form.instance, detail=detail)

    def has_delete_permission(self, request: HttpRequest, *_: Any) -> bool:
        """History hangs on it."""
        return False


admin.site.unregister([User, Group, TokenProxy])  # tokens are shown once, when they are made, and never here


@admin.register(User)
class PeopleAdmin(UserAdmin, Unguessable):
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm


@admin.register(Group)
class RolesAdmin(GroupAdmin, Unguessable):
    pass
