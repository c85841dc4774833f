"""Apply a result to the folder that its run worked on a copy of: what it would write, read first, then one button."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from loops.querysets import OPERATE
from loops.services import delivery as service
from loops.services.steering import NotPossible
from loops.web import access
from loops.web.run import page


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def apply(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """GET shows what would be written, and what became of the latest order; POST orders exactly what was shown."""
    run = access.run_or_404(request, run_id, OPERATE)
    if request.method == "POST":
        try:
            if "cancel" in request.POST:
                service.cancel(actor=request.user, run=run)
            else:
                service.apply_result(actor=request.user, run=run, digest=request.POST.get("digest", ""))
        except NotPossible as refusal:
            messages.error(request, str(refusal))
        return redirect("run-apply", run.pk)
    ordered = service.latest(run)
    preview, why_not = None, ""
    if ordered is None or not ordered.is_open:
        try:
            preview = service.preview(request.user, run)
        except NotPossible as refusal:
            why_not = str(refusal)
    more = {"ordered": ordered, "preview": preview, "why_not": why_not}
    return render(request, "loops/run_apply.html", page(request, run, "run-apply", **more))
