"""Workspaces: the folders that agents work on, and what their set-up makes of a copy (SPEC J4, UI manners)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from loops.engine.state.command_limits import COMMAND_LIMITS
from loops.models import Policy, Setup, Workspace
from loops.querysets import ADMINISTER, OPERATE
from loops.services import repository_files
from loops.services import setups as service
from loops.services.access import NotAllowed
from loops.services.configuration import Unfit
from loops.services.people import NotPossible
from loops.web import access, command_limits, diffs
from loops.workspaces import copies, detection, sources, variables
from loops.workspaces.configured import WORKSPACES

EARLIER = 5
TO_SET_LIMITS = ("loops.change_workspace", "loops.change_policy")
"""Shows the form; the service decides."""
LOOKS = {"ready": "good", "failed": "bad", "stopped": "bad", "lost": "bad", "waiting": "wait", "running": "wait"}


@login_required
@never_cache
@require_safe
def workspaces(request: HttpRequest) -> HttpResponse:
    """Those of one's projects, with what became of the latest set-up of each."""
    access.roles(request)
    latest = Setup.objects.filter(workspace=OuterRef("pk"), kind=Setup.Kind.SETUP).values("state")[:1]
    rows = Workspace.objects.visible_to(request.user).select_related("project").annotate(setup=Subquery(latest))
    named = [(row, Setup.State(row.setup).label if row.setup else "", LOOKS.get(row.setup)) for row in rows]
    return render(request, "loops/workspaces.html", {"workspaces": named})


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def workspace(request: HttpRequest, workspace_id: uuid.UUID) -> HttpResponse:
    """GET shows it, with what its files suggest while nothing is stated; POST keeps what its set-up is, and a refused
    one comes back with every word kept."""
    row = _row(request, workspace_id)
    status, may_change, refused = 200, access.roles(request).may(row.project_id, ADMINISTER), copies.why_refused(row)
    draft, found = _draft(row), detection.Found()
    if request.method == "POST":
        posted = {name: request.POST[name].replace("\r\n", "\n") for name in draft if name in request.POST}
        draft |= posted
        try:
            warnings = service.state(actor=request.user, workspace=row, stated=_stated(posted))
        except (NotAllowed, NotPossible, ValueError) as refusal:
            messages.error(request, str(refusal))
            status = 422
        else:
            for line in warnings:
                messages.warning(request, line)
            messages.success(request, "Saved.")
            return redirect("workspace", row.pk)
    elif may_change and not (refused or row.setup_command or row.test_command) and (at := sources.looked_at(row)):
        found = detection.look(at)
        draft |= {"command": found.setup, "tests": found.tests}
        draft |= {"hosts": "\n".join(found.hosts)} if request.user.is_superuser else {}
    return _page(request, row, status, draft=draft, found=found)


def _page(
    request: HttpRequest,
    row: Workspace,
    status: int = 200,
    *,
    draft: Mapping[str, str],
    found: detection.Found,
    limits: Mapping[str, str | None] | None = None,
) -> HttpResponse:
    """With what was typed into its forms and is not saved."""
    may_change = access.roles(request).may(row.project_id, ADMINISTER)
    context = {**_live(request, row), "draft": draft, "found": found, "may_change": may_change}
    context["refused"] = copies.why_refused(row)
    context["fetch"] = _live(request, row, Setup.Kind.FETCH) if row.is_fetched else None
    policy = Policy.objects.filter(project=row.project_id).first() or Policy()
    context["limits"] = list(command_limits.fields(policy, row, limits or {}))
    context["may_set_limits"] = may_change and request.user.is_staff and request.user.has_perms(TO_SET_LIMITS)
    standing = repository_files.look(row)
    context |= {"toml": standing, "toml_diff": diffs.parse(standing.diff)}
    return render(request, "loops/workspace.html", context, status=status)


def _draft(row: Workspace) -> dict[str, str]:
    """What is stated, as people write it."""
    return {
        "command": row.setup_command,
        "tests": row.test_command,
        "variables": "\n".join(variables.lines(row.variables)),
        "hosts": "\n".join(row.granted_hosts),
        "secrets": "\n".join(row.granted_secrets),
    }


def _stated(posted: dict[str, str]) -> service.Stated:
    """What is not sent stays as it is. Raises ValueError."""
    named = variables.parse(posted["variables"].split("\n")) if "variables" in posted else None
    hosts, secrets = (posted[name].split() if name in posted else None for name in ("hosts", "secrets"))
    return service.Stated(posted.get("command"), posted.get("tests"), named, hosts, secrets)


@login_required
@never_cache
@require_safe
def live(request: HttpRequest, workspace_id: uuid.UUID) -> HttpResponse:
    """The set-up under way, or the latest one; or the same of the fetch of its repository."""
    kind = Setup.Kind.FETCH if request.GET.get("kind") == Setup.Kind.FETCH else Setup.Kind.SETUP
    return render(request, "loops/_setup.html", _live(request, _row(request, workspace_id), kind))


@login_required
@require_POST
def run(request: HttpRequest, workspace_id: uuid.UUID) -> HttpResponse:
    """Run the set-up, fetch the repository, or stop what is under way."""
    row = _row(request, workspace_id)
    try:
        if "stop" in request.POST:
            service.stop(actor=request.user, workspace=row)
        elif "fetch" in request.POST:
            service.fetch(actor=request.user, workspace=row)
        else:
            service.run(actor=request.user, workspace=row)
    except (NotAllowed, NotPossible) as refusal:
        messages.error(request, str(refusal))
    return redirect("workspace", row.pk)


@login_required
@require_POST
def decide_on_toml(request: HttpRequest, workspace_id: uuid.UUID) -> HttpResponse:
    """Accept the `agentops.toml` that was looked at, go on without it, or use none any more."""
    row, sha256 = _row(request, workspace_id), request.POST.get("sha256", "")
    try:
        if "decline" in request.POST:
            repository_files.decline(actor=request.user, workspace=row, sha256=sha256)
        elif "drop" in request.POST:
            repository_files.drop(actor=request.user, workspace=row)
        else:
            allow = "allow" in request.POST
            for line in repository_files.accept(actor=request.user, workspace=row, sha256=sha256, allow=allow):
                messages.warning(request, line)
    except (NotAllowed, NotPossible) as refusal:
        messages.error(request, str(refusal))
    return redirect("workspace", row.pk)


@login_required
@require_POST
def state_limits(request: HttpRequest, workspace_id: uuid.UUID) -> HttpResponse:
    """What commands may use here; a field that is empty is as the project's policy. Refused ones come back as typed."""
    row = _row(request, workspace_id)
    posted = {name: request.POST[name].strip() or None for name in COMMAND_LIMITS if name in request.POST}
    given = {name: value for name, value in posted.items() if str(value) != str(getattr(row, name))}
    try:
        WORKSPACES.change(actor=request.user, row=row, given=given)
    except Unfit as unfit:
        for name, fault in unfit.errors.items():
            messages.error(request, f"{COMMAND_LIMITS[name].label if name in COMMAND_LIMITS else name}: {fault}")
        return _page(request, row, 422, draft=_draft(row), found=detection.Found(), limits=posted)
    except (NotAllowed, NotPossible) as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, "Saved.")
    return redirect("workspace", row.pk)


def _row(request: HttpRequest, workspace_id: uuid.UUID) -> Workspace:
    access.roles(request)
    rows = Workspace.objects.visible_to(request.user).select_related("project", "network_by", "git_by", "toml_by")
    row: Workspace = get_object_or_404(rows, pk=workspace_id)
    return row


def _live(request: HttpRequest, row: Workspace, kind: Setup.Kind = Setup.Kind.SETUP) -> dict[str, Any]:
    setups = list(row.setups.filter(kind=kind).select_related("ordered_by")[: EARLIER + 1])
    return {
        "workspace": row,
        "kind": kind.value,
        "can_run": row.is_fetched if kind == Setup.Kind.FETCH else row.setup_command,
        "setup": setups[0] if setups else None,
        "look": LOOKS[setups[0].state] if setups else "",
        "earlier": [(one, LOOKS[one.state]) for one in setups[1:]],
        "may_run": access.roles(request).may(row.project_id, OPERATE),
    }
