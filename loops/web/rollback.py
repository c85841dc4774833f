"""Roll an ended run back: what it would do, read first, then one button (SPEC O3, UI "Manners")."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from loops.querysets import OPERATE
from loops.services import rollback as service
from loops.services.steering import NotPossible
from loops.web import access, diffs
from loops.web.run import page


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def rollback(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """GET shows what would be undone; POST orders exactly that."""
    run = access.run_or_404(request, run_id, OPERATE)
    if request.method == "POST":
        try:
            service.roll_back_run(actor=request.user, run=run, digest=request.POST.get("digest", ""))
        except NotPossible as refusal:
            messages.error(request, str(refusal))
            return redirect("run-rollback", run.pk)
        messages.success(request, "Rollback started. This page lists what was undone.")
        return redirect("run", run.pk)
    try:
        preview, why_not = service.preview(run), ""
    except NotPossible as refusal:
        preview, why_not = None, str(refusal)
    changes = diffs.parse(str(preview.view["diff"])) if preview else []
    more = {"preview": preview, "view": preview.view if preview else {}, "why_not": why_not, "changes": changes}
    return render(request, "loops/run_rollback.html", page(request, run, "run-rollback", **more))
