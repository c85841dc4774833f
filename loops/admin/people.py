"""Projects, their members, and the people of this installation (SPEC S4)."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.http import HttpRequest
from rest_framework.authtoken import admin as _registers_tokens  # noqa: F401 - so that it can be undone
from rest_framework.authtoken.models import TokenProxy
from unfold.admin import TabularInline
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from loops import models as m
from loops.admin.base import ProjectScopedAdmin, Unguessable
from loops.querysets import ADMINISTER
from loops.services import audit, policies


class Members(TabularInline):
    model = m.Membership
    extra = 0
    autocomplete_fields = ("user",)


class Roles(TabularInline):
    """The same rows from the person's side: roles in the projects that one administers, and in no other."""

    model = m.Membership
    extra = 0
    autocomplete_fields = ("project",)
    verbose_name, verbose_name_plural = "role in a project", "roles in projects"

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        """Of a person's other projects nothing is said."""
        return super().get_queryset(request).filter(project__in=_administered(request))

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Nobody gives a role where they have none to give."""
        if db_field.name == "project":
            kwargs["queryset"] = _administered(request)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)


def _administered(request: HttpRequest) -> QuerySet:
    return m.Project.objects.visible_to(request.user, ADMINISTER)


class MembersAudited(Unguessable):
    """A form with members in it: who may do what is worth an audit event of each project it is about."""

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        """Save, and write down by project who was added, changed and removed."""
        super().save_formset(request, form, formset, change)
        before = {form.instance.pk: form.initial.get("project") for form in formset.initial_forms}
        moved = [row for row, fields in formset.changed_objects if "project" in fields]
        details: dict[Any, dict[str, list[str]]] = {}
        for what, members in {
            "added": [*formset.new_objects, *moved],
            "changed": [row for row, _ in formset.changed_objects if row not in moved],
            "removed": formset.deleted_objects,
        }.items():
            for row in members:
                details.setdefault(row.project_id, {}).setdefault(what, []).append(f"{row.user}: {row.role}")
        for row in moved:
            details.setdefault(before[row.pk], {}).setdefault("removed", []).append(str(row.user))
        for project in m.Project.objects.filter(pk__in=details):
            audit.record("members.changed", actor=request.user, project=project, detail=details[project.pk])


@admin.register(m.Project)
class ProjectAdmin(MembersAudited, ProjectScopedAdmin):
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
        if not change:
            born = {"name": obj.name, "slug": obj.slug}
            audit.record("project.created", actor=request.user, project=obj, detail=born)
        if "keep_days" in form.changed_data:
            detail = {"before": form.initial.get("keep_days"), "after": obj.keep_days}
            audit.record("retention.changed", actor=request.user, project=obj, detail=detail)

    def has_delete_permission(self, request: HttpRequest, *_: Any) -> bool:
        """History hangs on it."""
        return False


admin.site.unregister([User, Group, TokenProxy])  # tokens are shown once, when they are made, and never here


@admin.register(User)
class PeopleAdmin(UserAdmin, MembersAudited):
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm

    def get_inlines(self, request: HttpRequest, obj: User | None) -> tuple[type[TabularInline], ...]:
        """Somebody has roles once there is somebody: Django asks for a name and a password first."""
        return (Roles,) if obj is not None else ()


@admin.register(Group)
class RolesAdmin(GroupAdmin, Unguessable):
    pass
