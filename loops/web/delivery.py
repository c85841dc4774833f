"""Take a result over from the copy that its run worked on: what would be written, read first, then one button."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from loops.models import Delivery, Run
from loops.querysets import OPERATE
from loops.services import delivery as service
from loops.services.steering import NotPossible
from loops.web import access
from loops.web.run import page
from loops.workspaces import patch, pull_requests


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def apply(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """Into the folder itself."""
    return _answered(request, run_id, Delivery.Kind.FOLDER, "run-apply", "loops/run_apply.html")


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def commit(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """On a branch of its own in the folder's repository."""
    return _answered(request, run_id, Delivery.Kind.BRANCH, "run-commit", "loops/run_commit.html")


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def push(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """As a new branch to the server that the repository was fetched from."""
    return _answered(request, run_id, Delivery.Kind.PUSH, "run-push", "loops/run_push.html")


def pull_request(run: Run) -> pull_requests.Text | None:
    """That of a page; None where there is none."""
    try:
        return pull_requests.of(run)
    except patch.NoPatch:
        return None


def _answered(request: HttpRequest, run_id: uuid.UUID, kind: Delivery.Kind, name: str, template: str) -> HttpResponse:
    """GET shows what would be written, and what became of the latest orders; POST orders exactly what was shown."""
    run = access.run_or_404(request, run_id, OPERATE)
    if request.method == "POST":
        try:
            if "cancel" in request.POST:
                service.cancel(actor=request.user, run=run)
            else:
                service.apply_result(actor=request.user, run=run, digest=request.POST.get("digest", ""), kind=kind)
        except NotPossible as refusal:
            messages.error(request, str(refusal))
        return redirect(name, run.pk)
    orders = service.latest(run)
    is_open = bool(service.under_way(orders))
    preview, why_not = None, ""
    if not is_open:
        try:
            preview = service.preview(request.user, run, kind)
        except NotPossible as refusal:
            why_not = str(refusal)
    more = {"orders": orders, "is_open": is_open, "preview": preview, "why_not": why_not}
    if kind != Delivery.Kind.FOLDER:
        more["pull_request"] = pull_request(run)
    more["pushed"] = kind == Delivery.Kind.PUSH and kind in service.done(run)
    return render(request, template, page(request, run, name, **more))
