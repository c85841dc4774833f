"""The Review page. A view parses, calls one service and answers; who may do what is decided below it."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import quote

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from gates import export as exports
from gates import services
from gates.models import Decision, Gate
from gates.services.decisions import visible_gate
from gates.web import changed_files, forms, labels
from gates.web import queue as web_queue
from gates.web.queue import Filters, Queue
from loops.engine.text.truncation import shortened
from loops.engine.values import Verdict
from loops.printable.text import printable
from loops.web import access, open_gates

LONGEST_HEADLINE = 120
"""Characters of it in a refusal: the reason comes after it, and a toast is small."""
STATUS = {"not_allowed": 403, "not_found": 404, "invalid": 422}


@login_required
@require_GET
@never_cache
def review(request: HttpRequest, gate_id: uuid.UUID | None = None) -> HttpResponse:
    """The queue and one gate: the one named, or the first that waits."""
    filters = Filters.of(request.GET)
    gate = _gate_or_404(request, gate_id) if gate_id else None
    return _page(request, filters, gate)


@login_required
@require_GET
@never_cache
def queue(request: HttpRequest) -> HttpResponse:
    """The list alone, fetched again when the queue changes."""
    context = {"queue": _queue(request, Filters.of(request.GET)), "selected": request.GET.get("selected", "")}
    return render(request, "gates/_queue.html", context)


@login_required
@require_GET
@never_cache
def state(request: HttpRequest, gate_id: uuid.UUID) -> HttpResponse:
    """The card as it is now; nothing while it is the one that the page shows, so that what is written there stays."""
    gate = _gate_or_404(request, gate_id)
    if gate.is_open and gate.digest == request.GET.get("digest", ""):
        return HttpResponse(status=204)
    place = "run" if request.GET.get("place") == "run" else "review"
    context = {"gate": gate, "place": place, "queue": Queue(Filters.of(request.GET), [], 0)}
    return render(request, "gates/_card.html", context)


@login_required
@require_GET
@never_cache
def changed_file(request: HttpRequest, gate_id: uuid.UUID) -> HttpResponse:
    """The whole diff of one changed file of a result, which was too long for the card."""
    gate = _gate_or_404(request, gate_id)
    found = changed_files.opened(gate, request.user, request.GET.get("path", ""))
    if found is None:
        raise Http404
    return render(request, "gates/_changed_file.html", {"one": found})


@login_required
@require_POST
def decide(request: HttpRequest, gate_id: uuid.UUID) -> HttpResponse:
    """One decision from a card; errors come back on the card."""
    typed = request.POST.dict()
    gate: Gate | None = None
    try:
        gate = visible_gate(request.user, gate_id)
        asked = forms.read(gate, typed)
        decision = services.decide(actor=request.user, gate_id=gate_id, **asked)
    except services.DecisionRefused as refusal:
        verdict = typed.get("verdict", "")
        services.audit(refusal, actor=request.user, gate=gate, gate_id=gate_id, verdict=verdict)
        if isinstance(refusal, services.GateNotFound):
            raise Http404 from None
        return _refused(request, gate_id, refusal, typed)
    return _decided(request, decision)


@login_required
@require_POST
def take_back(request: HttpRequest, gate_id: uuid.UUID) -> HttpResponse:
    """Take an approval back that has not been used: it is asked again."""
    is_fragment = bool(request.headers.get("HX-Request"))
    on_card = is_fragment and request.POST.get("place") == "run"
    try:
        gate = services.take_back(actor=request.user, gate_id=gate_id)
    except services.GateNotFound:
        raise Http404 from None
    except services.DecisionRefused as refusal:
        if on_card:
            return _refused(request, gate_id, refusal, {})
        gate = _gate_or_404(request, gate_id)
        messages.error(request, f"{gate.headline}: {refusal.message}")
    else:
        if on_card:
            return _card(request, gate)
        messages.success(request, f"Taken back: {gate.headline}. It is asked again.")
    if not is_fragment:
        return redirect(reverse("gate", args=[gate.pk]))
    return _page(request, Filters.of(request.GET), gate, moved=True)


@login_required
@require_POST
def claim(request: HttpRequest, gate_id: uuid.UUID) -> HttpResponse:
    """Take a gate or give it back."""
    act = services.release if request.POST.get("release") else services.claim
    try:
        gate = act(actor=request.user, gate_id=gate_id)
    except services.GateNotFound:
        raise Http404 from None
    except services.DecisionRefused as refusal:
        return _refused(request, gate_id, refusal, {})
    if request.POST.get("place") == "run":
        return _card(request, gate)
    return _page(request, Filters.of(request.GET), gate, moved=True)


@login_required
@require_POST
def bulk(request: HttpRequest) -> HttpResponse:
    """Preview what would be decided together; with ``confirmed`` decide it, with a result for each."""
    filters, verdict = Filters.of(request.GET), request.POST.get("verdict", "")
    items = forms.bulk_items(request.POST.getlist("item"))
    context: dict[str, Any] = {"filters": filters, "verdict": verdict}
    context["reason"] = reason = request.POST.get("reason", "")
    try:
        if request.POST.get("confirmed") and (verdict != Verdict.REJECT or reason.strip()):
            results = services.decide_many(actor=request.user, items=items, verdict=verdict, reason=reason)
            context["results"] = results
            context["done"] = sum(result.ok for result in results)
        else:
            context["preview"] = services.preview_many(actor=request.user, items=items, verdict=verdict)
            context["reason_missing"] = bool(request.POST.get("confirmed"))
            context["asked"] = "again" in request.POST
    except services.DecisionRefused as refusal:
        messages.error(request, refusal.message)
        return redirect(reverse("review") + filters.query)
    return render(request, "gates/bulk.html", context)


@login_required
@require_GET
def export(request: HttpRequest, form: str) -> StreamingHttpResponse:
    """Decisions of one's projects as a file."""
    return exports.response(Decision.objects.visible_to(request.user), form)


def _gate_or_404(request: HttpRequest, gate_id: uuid.UUID) -> Gate:
    try:
        return visible_gate(request.user, gate_id)
    except services.GateNotFound:
        raise Http404 from None


def _queue(request: HttpRequest, filters: Filters) -> Queue:
    try:
        found = web_queue.read(request.user, filters, access.projects(request), request.GET.get("after", ""))
    except DatabaseError:
        return Queue(filters, [], 0, could_read=False)
    if not filters.narrows:
        open_gates.remember(request, found.total + len(found.held) + found.held_more)
    return found


def _page(request: HttpRequest, filters: Filters, gate: Gate | None, *, moved: bool = False) -> HttpResponse:
    """Page and fragment are one template. ``moved``: the browser's address has to follow."""
    found = _queue(request, filters)
    context: dict[str, Any] = {"queue": found, "is_one": gate is not None, "place": "review"}
    if gate is None and found.gates:
        gate = visible_gate(request.user, found.gates[0].pk)
    context |= {"gate": gate, "selected": str(gate.pk) if gate else ""}
    context["is_fragment"] = is_fragment = bool(request.headers.get("HX-Request"))
    response = render(request, "gates/_review.html" if is_fragment else "gates/review.html", context)
    if moved and is_fragment:
        response["HX-Push-Url"] = _address(gate, filters)
    patch_vary_headers(response, ["HX-Request"])
    return response


def _card(request: HttpRequest, gate: Gate, status: int = 200, **context: Any) -> HttpResponse:
    place = request.POST.get("place", "review")
    return render(request, "gates/_card.html", {"gate": gate, "place": place, **context}, status=status)


def _decided(request: HttpRequest, decision: Decision) -> HttpResponse:
    """What happened, and the next gate; on the page of a run, the card as it is now."""
    gate, filters = decision.gate, Filters.of(request.GET)
    is_fragment = bool(request.headers.get("HX-Request"))
    if request.POST.get("place") == "run" and is_fragment:
        gate.refresh_from_db()
        return _card(request, gate)
    said = f"{labels.pressed(gate.kind, Verdict(decision.verdict))}: {gate.headline}"
    if seconds := services.seconds_left(gate):
        context = {"said": said, "gate": gate, "seconds": seconds, "place": "review"}
        messages.success(request, render_to_string("gates/_take_back.html", context, request), extra_tags="html")
    else:
        messages.success(request, said)
    if request.POST.get("place") == "run":
        return redirect(f"/runs/{gate.run_id}/")
    following = web_queue.next_after(request.user, filters)
    if is_fragment:
        return _page(request, filters, following, moved=True)
    return redirect(_address(following, filters))


def _refused(
    request: HttpRequest, gate_id: uuid.UUID, refusal: services.DecisionRefused, typed: dict[str, str]
) -> HttpResponse:
    status = STATUS.get(refusal.code, 409)
    gate = _gate_or_404(request, gate_id)
    if not request.headers.get("HX-Request") and status != 422:
        messages.error(request, f"{gate.headline}: {refusal.message}")
        return redirect(reverse("gate", args=[gate_id]) + Filters.of(request.GET).query)
    errors = refusal.errors if isinstance(refusal, services.InvalidDecision) else {}
    refused = "" if errors else refusal.message
    if not request.headers.get("HX-Request"):
        found = _queue(request, Filters.of(request.GET))
        context = {"queue": found, "gate": gate, "selected": str(gate.pk), "errors": errors, "typed": typed}
        return render(request, "gates/review.html", {**context, "is_one": True, "place": "review"}, status=status)
    response = _card(request, gate, status, errors=errors, typed=typed if errors else None, refused=refused)
    said = printable(f"{shortened(gate.headline, LONGEST_HEADLINE)}: {refusal.message}")
    response["X-Message"] = quote(said)  # a header carries ASCII only: names of people and tasks are not
    response["HX-Retarget"], response["HX-Reswap"] = f"#gate-{gate.pk}", "outerHTML"
    return response


def _address(gate: Gate | None, filters: Filters) -> str:
    return (reverse("gate", args=[gate.pk]) if gate else reverse("review")) + filters.query
