"""Workspaces: which folders agents may work in, and who allowed them (SPEC I7, ADR 0036)."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from unfold.widgets import UnfoldBooleanSwitchWidget

from loops import models as m
from loops.admin.base import ProjectScopedAdmin
from loops.engine.state.command_limits import COMMAND_LIMITS
from loops.services.access import NotAllowed
from loops.tools.workspace_roots import plain
from loops.workspaces import access, copies, sources
from loops.workspaces.configured import FETCHED, WORKSPACES

REPOSITORY = ("git_url", "git_ref", "git_token_env", "git_push_token_env")


class WorkspaceForm(forms.ModelForm):
    actor: Any = None
    allow = forms.BooleanField(
        required=False,
        widget=UnfoldBooleanSwitchWidget,
        label="Allow this folder",
        help_text="Needed outside the workspace roots. Agents will read what lies there and, where runs do not work on "
        "copies, change it. Recorded with your name.",
    )

    class Meta:
        fields = ("project", "name", "path", *REPOSITORY, "copy_for_each_run", *COMMAND_LIMITS)
        labels: ClassVar = {"path": "Folder", **{name: row.form_label for name, row in COMMAND_LIMITS.items()}}
        help_texts: ClassVar = {
            "path": "Its full path on the machine of the worker, such as /home/you/src/shop. Without one and without a "
            "repository each task begins in a fresh empty folder.",
            "git_url": "Instead of a folder: its address, such as https://example.com/shop.git, no password in it.",
            "git_ref": "A branch, tag or commit. With the address of a repository, empty means its default branch. "
            "With a folder that has a git repository, runs work on copies of that commit, without uncommitted changes; "
            "empty means the files as they are.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.actor.is_superuser:
            self.fields.pop("allow", None)
            for name in ("git_url", *sources.TOKENS):
                self.fields[name].disabled = True

    def clean_path(self) -> str:
        """One spelling."""
        return plain(self.cleaned_data["path"])

    def clean(self) -> dict[str, Any]:
        """Where it may lie."""
        given = super().clean() or {}
        project = given.get("project") or (self.instance.project if self.instance.project_id else None)
        if project is None or "path" not in given:
            return given
        draft = m.Workspace(
            pk=self.instance.pk,
            project=project,
            path=given["path"],
            git_for=self.instance.git_for,
            git_by=self.instance.git_by,
            **{name: given.get(name, "") for name in REPOSITORY},
            copy_for_each_run=given.get("copy_for_each_run", False),
            **{name: given.get(name) for name in COMMAND_LIMITS},
            allowed_path=self.instance.allowed_path,
            allowed_in_place=self.instance.allowed_in_place,
            allowed_by=self.instance.allowed_by,
        )
        for field, fault in sources.faults(draft).items():
            self.add_error(field, fault)
        try:
            access.require_limits(self.actor, draft)
        except NotAllowed as refusal:
            self.add_error(None, str(refusal))
        if said := access.why_not_fetched(self.actor, draft):
            self.add_error("git_url", said)
        if said := access.why_not_saved(self.actor, draft, allow=bool(given.get("allow"))):
            self.add_error("path", said)
        elif not self.errors:
            for field, fault in access.faults_here(draft).items():
                self.add_error(field, fault)
        return given


@admin.register(m.Workspace)
class WorkspaceAdmin(ProjectScopedAdmin):
    form = WorkspaceForm
    list_display = ("name", "project", "path", "git_url", "git_ref", "copy_for_each_run", "standing")
    list_select_related = ("project", "allowed_by", "git_by")
    actions = ("allow_folders",)

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """With whoever fills it in."""
        return type("WorkspaceForm", (super().get_form(request, *args, **kwargs),), {"actor": request.user})

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """The only project is not asked for."""
        projects = m.Project.objects.visible_to(request.user)[:2]
        only = {"project": projects[0].pk} if len(projects) == 1 else {}
        return {**only, **super().get_changeform_initial_data(request)}

    def response_add(self, request: HttpRequest, obj: m.Workspace, *args: Any, **kwargs: Any) -> HttpResponse:
        """On to what comes next."""
        if {"_addanother", "_continue", "_popup"} & request.POST.keys():
            return super().response_add(request, obj, *args, **kwargs)
        messages.success(request, f"Workspace {obj.name} saved. Next: say how it is set up and tested.")
        return redirect("workspace", obj.pk)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Who allowed it stands beside it."""
        fields: tuple[str, ...] = ("project", "name", "path", *REPOSITORY, "copy_for_each_run", *COMMAND_LIMITS)
        return (*fields, *(["allow"] if request.user.is_superuser else []), *(["standing"] if obj else []))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """What one project was allowed is not carried to another."""
        return ("project", "standing") if obj else ()

    def get_actions(self, request: HttpRequest) -> Any:
        """To allow is for superusers."""
        found = super().get_actions(request)
        if not request.user.is_superuser:
            found.pop("allow_folders", None)
        return found

    @admin.display(description="may it be used?")
    def standing(self, row: m.Workspace) -> str:
        """As of now, on this machine."""
        if said := copies.why_refused(row):
            return f"Refused: {said}"
        if row.git_url:
            return f"Yes, allowed by {row.git_by} on {row.git_at:%Y-%m-%d}"
        if row.allowed_by is None or row.allowed_path != row.path:
            return "Yes"
        return f"Yes, allowed by {row.allowed_by} on {row.allowed_at:%Y-%m-%d}"

    @admin.action(description="Allow these folders, as they are used now")
    def allow_folders(self, request: HttpRequest, rows: Any) -> None:
        """For an installation that had workspaces before it had roots."""
        for row in rows.select_related("project"):
            said = access.allow(request.user, row)
            level, text = (messages.ERROR, said) if said else (messages.SUCCESS, f"{row.name} is allowed: {row.path}")
            messages.add_message(request, level, text)

    def save_model(self, request: HttpRequest, obj: m.Workspace, form: Any, change: bool) -> None:
        """Say at once what would keep runs out of the folder; it may lie on other machines, so that refuses nothing."""
        super().save_model(request, obj, form, change)
        opened = bool(form.cleaned_data.get("allow"))
        if set(form.changed_data) - {"allow"}:
            fetch = bool(FETCHED & set(form.changed_data))
            access.record(request.user, obj, form.changed_data, open_to_agents=opened, fetch=fetch)
        elif opened and obj.path:
            access.allow(request.user, obj)
        if said := copies.why_unusable(obj):
            messages.warning(request, said)

    def delete_model(self, request: HttpRequest, obj: m.Workspace) -> None:
        """Who did is kept."""
        WORKSPACES.forgotten(request.user, obj)
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        """Each is said."""
        for row in queryset:
            self.delete_model(request, row)
