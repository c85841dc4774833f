"""What all admin pages share: they show one's own projects, and what decides for runs is versioned when it changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminTextInputWidget

from loops import models as m
from loops.masking import LEAVE_OUT, known
from loops.querysets import ADMINISTER
from loops.services import audit, policies, secrets
from loops.services.configuration import LONGEST_REASON, SAY_WHY, Kind

LONGEST_KEPT = 100
"""Characters of a value that was not offered, in the audit row."""


class _Secretless:
    """Refuses fields that hold a known secret. Passwords are hashed, so they may be what they are."""

    def full_clean(self: Any) -> None:
        """Their values are taken out before anything is made of them: neither row nor error nor page has them."""
        held = [name for name, field in self.fields.items() if self._is_secret(name, field)] if self.is_bound else []
        if held:
            self.data = self.data.copy()
            for name in held:
                self.data[self.add_prefix(name)] = ""
        super().full_clean()  # type: ignore[misc]
        for name in held:
            self._errors.pop(name, None)
            self.add_error(name, LEAVE_OUT)
        if held:
            self.tried(held)

    def _is_secret(self: Any, name: str, field: Any) -> bool:
        if isinstance(field.widget, forms.PasswordInput):
            return False
        return known().is_in(self.data.get(self.add_prefix(name), ""))


class Unguessable(ModelAdmin):
    """What no page of the admin gives away: which rows there are, and secrets that somebody typed.

    History of a row that one may not see is answered like that of a row that never was: Django looks it up first.
    """

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """A form that keeps no known secret, and does not repeat it; whoever typed one is in the audit log."""

        def tried(fields: list[str]) -> None:
            secrets.record_refusal(request.user, str(self.model._meta.verbose_name_plural), fields)

        form = super().get_form(request, *args, **kwargs)
        return type(form)(form.__name__, (_Secretless, form), {"tried": staticmethod(tried)})

    def history_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Who may see no row at all hears so before any is looked for."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        return super().history_view(request, *args, **kwargs)


class OfferedToMe(admin.RelatedFieldListFilter):
    """Choices of a filter: what belongs to projects that one administers, as in the fields of forms."""

    def field_choices(self, field: Any, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """(key, words) of each."""
        scoped = getattr(field.remote_field.model._default_manager, "visible_to", None)
        rows = scoped(request.user, ADMINISTER) if scoped else field.remote_field.model._default_manager.none()
        return [(str(row.pk), str(row)) for row in rows]


class ProjectScopedAdmin(Unguessable):
    """Rows of the projects that the person administers. Superusers see all."""

    project_path = "project"

    def get_list_filter(self, request: HttpRequest) -> Any:
        """A filter by another row offers one's own alone."""
        found = super().get_list_filter(request)
        fields = {field.name for field in self.opts.get_fields() if field.is_relation}
        return [(name, OfferedToMe) if name in fields else name for name in found]

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        """Keep other teams out."""
        rows = super().get_queryset(request)
        if request.user.is_superuser:
            return rows
        mine = request.user.memberships.filter(role__in=ADMINISTER).values_list("project", flat=True)
        return rows.filter(**{f"{self.project_path or 'pk'}__in": list(mine)})

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Offer nothing of other teams' either."""
        scoped = getattr(db_field.remote_field.model._default_manager, "visible_to", None)
        if scoped:
            kwargs["queryset"] = scoped(request.user, ADMINISTER)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        """A form comes back with its faults; whoever named a row that it did not offer is kept."""
        form = context["adminform"].form
        named = {
            name: str(form.data.get(form.add_prefix(name), ""))[:LONGEST_KEPT]
            for name, errors in form.errors.as_data().items()
            if isinstance(form.fields.get(name), forms.ModelChoiceField)
            and any(error.code == "invalid_choice" for error in errors)
        }
        if named:
            what = f"choose rows of other projects in {self.model._meta.verbose_name_plural}"
            audit.record("access.refused", actor=request.user, detail={"what": what, "fields": named})
        return super().render_change_form(request, context, *args, **kwargs)


class ReadOnly(ProjectScopedAdmin):
    """History: offers neither add nor change nor delete, to nobody."""

    def has_add_permission(self, request: HttpRequest, *_: Any) -> bool:
        """Never."""
        return False

    def has_change_permission(self, request: HttpRequest, *_: Any) -> bool:
        """Never."""
        return False

    def has_delete_permission(self, request: HttpRequest, *_: Any) -> bool:
        """Never."""
        return False


class OfTheInstallation(Unguessable):
    """What holds for every project: superusers change it, whoever may open the page sees it (SPEC S4)."""

    def has_add_permission(self, request: HttpRequest, *_: Any) -> bool:
        """Superusers."""
        return bool(request.user.is_active and request.user.is_superuser)

    def has_change_permission(self, request: HttpRequest, *_: Any) -> bool:
        """Superusers."""
        return self.has_add_permission(request)

    def has_delete_permission(self, request: HttpRequest, *_: Any) -> bool:
        """Superusers."""
        return self.has_add_permission(request)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """One row."""
        self._must_be_allowed(request)
        return super().changeform_view(request, *args, **kwargs)

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Many rows, their cells and actions."""
        self._must_be_allowed(request)
        return super().changelist_view(request, *args, **kwargs)

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """One row less."""
        self._must_be_allowed(request)
        return super().delete_view(request, *args, **kwargs)

    def _must_be_allowed(self, request: HttpRequest) -> None:
        if request.method == "POST" and not (request.user.is_active and request.user.is_superuser):
            what = f"change {self.model._meta.verbose_name_plural}"
            audit.record("access.refused", actor=request.user, detail={"what": what, "needs": ["superuser"]})
            raise PermissionDenied


class Checked(forms.ModelForm):
    """A form by the rules of every door, in ``loops.services.configuration``."""

    kind: Kind

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        for field, fault in {} if self.errors else self.kind.faults(self.instance).items():
            self.add_error(field if field in self.fields else None, fault)


class RequireReasonMixin(forms.ModelForm):
    """A change of policy says why: the reason stands in the version it makes."""

    reason = forms.CharField(max_length=LONGEST_REASON, widget=UnfoldAdminTextInputWidget, help_text=SAY_WHY)


class VersionedAdmin(ProjectScopedAdmin):
    """Whatever is saved or deleted here decides for runs, so each request that does makes one version a project."""

    kind: Kind | None = None
    """What it has in common with the API and the command line."""

    def affected(self, row: Any) -> QuerySet:
        """Projects for which ``row`` decides."""
        return m.Project.objects.filter(pk=row.project_id)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save, and remember whose policy that changes."""
        super().save_model(request, obj, form, change)
        if self.kind:
            allow = getattr(form, "is_answered_for", False)
            self.kind.recorded(request.user, obj, form.changed_data, allow=allow)
        self._touch(request, obj, form.cleaned_data.get("reason", ""))

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete, and remember whose policy that changes."""
        self._touch(request, obj, f"Deleted: {obj}")
        self._forget(request, obj)
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet) -> None:
        """Delete many, and remember whose policies that changes."""
        for row in queryset:
            self._touch(request, row, f"Deleted {len(queryset)} {self.model._meta.verbose_name_plural}")
            self._forget(request, row)
        super().delete_queryset(request, queryset)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """One row."""
        return self._versioned(request, super().changeform_view, *args, **kwargs)

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Many rows at once: one version for all of them."""
        return self._versioned(request, super().changelist_view, *args, **kwargs)

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """One row less."""
        return self._versioned(request, super().delete_view, *args, **kwargs)

    def _forget(self, request: HttpRequest, row: Any) -> None:
        if self.kind:
            self.kind.forgotten(request.user, row)

    def _touch(self, request: Any, row: Any, reason: str) -> None:
        if not hasattr(request, "policy_changes"):
            request.policy_changes = {}
        for project in self.affected(row):
            request.policy_changes[project] = reason

    def _versioned(self, request: Any, view: Callable[..., HttpResponse], *args: Any, **kwargs: Any) -> HttpResponse:
        response = view(request, *args, **kwargs)
        for project, reason in getattr(request, "policy_changes", {}).items():
            if m.Policy.objects.filter(project=project).exists():
                policies.current_version(project, actor=request.user, reason=reason)
        return response


class GlobalAdmin(OfTheInstallation, VersionedAdmin):
    """Rows that decide for every project."""

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        """They belong to nobody."""
        return ModelAdmin.get_queryset(self, request)

    def affected(self, row: Any) -> QuerySet:
        """All; a project whose snapshot stays the same gets no version."""
        return m.Project.objects.all()
