"""Exactly what the model read, request by request, with what was left out of it (SPEC R4, U1)."""

from __future__ import annotations

import json
import uuid
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from loops.engine.encoding import canonical
from loops.models import Fact
from loops.services import conversations as service
from loops.storage import conversations, reader
from loops.web import access, formatting
from loops.web.run import page

SAID_PAGE = 60
PARTS = (("system", "System prompt"), ("tools", "Tools"), ("messages", "Messages"))


@login_required
@never_cache
@require_safe
def conversation(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """The conversation as it stands, or as the request number ``request`` sent it; ``until`` pages backwards."""
    run = access.run_or_404(request, run_id)
    asked = conversations.requests(run.pk)
    number = min(_number(request.GET.get("request", "")), len(asked))
    until = asked[number - 1][0] if number else None
    try:
        told, pruned = conversations.told(run.pk, until), False
    except reader.Pruned:
        told, pruned = conversations.ReplayedRequest(), True
    said = service.said(told, whole=until is None)
    end = min(_number(request.GET.get("until", "")) or len(said), len(said))
    shown = said[max(0, end - SAID_PAGE) : end]
    more = {
        "said": shown,
        "total": len(said),
        "before": shown[0]["number"] if shown and shown[0]["number"] else 0,
        "pruned": pruned,
        "told": told,
        "number": number,
        "requests": len(asked),
        "sizes": _sizes(told.asked) if told.asked else (),
        "counted": service.counted(run, until) if until else None,
        "tools": [canonical.clean_json(tool) for tool in told.tools],
    }
    return render(request, "loops/run_conversation.html", page(request, run, "run-conversation", **more))


@login_required
@never_cache
@require_safe
def left_out(request: HttpRequest, run_id: uuid.UUID, seq: int) -> HttpResponse:
    """The messages that one pruning took out, a page of them."""
    run = access.run_or_404(request, run_id)
    if seq >= 2**31 or not Fact.objects.filter(run=run, seq=seq, kind="ContextPruned").exists():
        raise Http404
    try:
        gone = conversations.left_out(run.pk, seq)
    except reader.Pruned:
        raise Http404 from None
    first = _number(request.GET.get("from", ""))
    numbered = [{"number": number, **message} for number, message in enumerate(gone, 1)]
    more = {"said": numbered[first : first + SAID_PAGE], "seq": seq, "next": first + SAID_PAGE}
    return render(request, "loops/_left_out.html", {"run": run, "rest": len(gone) > first + SAID_PAGE, **more})


@login_required
@never_cache
@require_safe
def as_sent(request: HttpRequest, run_id: uuid.UUID, number: int) -> HttpResponse:
    """One request in the form of its provider, as a download."""
    run = access.run_or_404(request, run_id)
    asked = conversations.requests(run.pk)
    if not 0 < number <= len(asked):
        raise Http404
    try:
        told = conversations.told(run.pk, asked[number - 1][0])
    except reader.Pruned:
        raise Http404 from None
    response = HttpResponse(
        json.dumps(service.as_sent(told), indent=2, ensure_ascii=False), content_type="application/json"
    )
    response["Content-Disposition"] = f'attachment; filename="request-{number}-{run.pk}.json"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _sizes(asked: Any) -> list[tuple[str, str]]:
    return [(label, formatting.compact(asked.tokens[part])) for part, label in PARTS if part in asked.tokens]


def _number(text: str) -> int:
    return int(text) if text.isdigit() and len(text) < 10 else 0
