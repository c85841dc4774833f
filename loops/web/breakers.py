"""Circuit breakers: what is not called just now, why, until when, what happened, and a button (SPEC E5)."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from loops.models import Agent, Breaker, BreakerEvent, BreakerKind, BreakerRule, ModelConfig, Run
from loops.services import breakers as service
from loops.services.access import NotAllowed
from loops.web.system import members_only

SHOWN = 50
LOOKS = {"closed": "good", "open": "bad", "half_open": "wait"}
EVENT_LOOKS = {
    "opened": ("bad", "zap"),
    "probed": ("wait", "search"),
    "reopened": ("bad", "zap"),
    "closed": ("good", "circle-check"),
    "reset": ("idle", "user-check"),
}


@login_required
@never_cache
@require_safe
def breakers(request: HttpRequest) -> HttpResponse:
    """All of it."""
    members_only(request)
    agents = _agents(request)
    models = ModelConfig.objects.select_related("fallback__fallback__fallback")
    context = {
        **_live(request),
        "chains": [(model, model.chain()[1:], agents.get(model.name, [])) for model in models if model.fallback_id],
        "rules": BreakerRule.objects.all(),
        "default": BreakerRule(),
    }
    return render(request, "loops/breakers.html", context)


@login_required
@never_cache
@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """The part that changes by itself."""
    members_only(request)
    return render(request, "loops/_breakers.html", _live(request))


@login_required
@require_POST
def reset(request: HttpRequest) -> HttpResponse:
    """Close one by hand."""
    members_only(request)
    kind, name = request.POST.get("kind", ""), request.POST.get("name", "")
    if kind not in BreakerKind.values:
        raise Http404
    try:
        done = service.reset_breaker(actor=request.user, kind=kind, name=name)
    except NotAllowed as refusal:
        messages.error(request, str(refusal))
        return redirect("breakers")
    said = f"Reset: {name} is called again." if done else f"Nothing to reset: the breaker of {name} is closed already."
    messages.success(request, said)
    return redirect("breakers")


def _live(request: HttpRequest) -> dict[str, Any]:
    rows = list(Breaker.objects.all())
    open_rows = [row for row in rows if row.status != Breaker.Status.CLOSED]
    waiting = service.waiting_runs(request.user, [row.name for row in open_rows if row.kind == BreakerKind.MODEL])
    before = _before(request)
    history = BreakerEvent.objects.filter(pk__lt=before) if before else BreakerEvent.objects.all()
    events = list(history.select_related("actor")[: SHOWN + 1])
    older = len(events) > SHOWN
    events = events[:SHOWN]
    seen = Run.objects.visible_to(request.user).filter(pk__in={event.run for event in events if event.run})
    titles = dict(seen.values_list("pk", "task__title"))
    return {
        "breakers": [(row, LOOKS[row.status], waiting[row.name]) for row in open_rows],
        "shaky": [row for row in rows if row.status == Breaker.Status.CLOSED and row.failed_at],
        "events": [(event, *EVENT_LOOKS[event.what], titles.get(event.run)) for event in events],
        "events_total": BreakerEvent.objects.count() if older and not before else 0,
        "before": before,
        "older": events[-1].pk if older else None,
        "may_reset": service.may_reset(request.user),
        "now": timezone.now(),
    }


def _before(request: HttpRequest) -> uuid.UUID | None:
    """The event at which the page before ended; an address that somebody typed begins with the latest."""
    try:
        return uuid.UUID(request.GET.get("before", ""))
    except ValueError:
        return None


def _agents(request: HttpRequest) -> dict[str, list[str]]:
    """Names of the agents one can see, by the model that acts for them."""
    found: dict[str, list[str]] = {}
    agents = Agent.objects.visible_to(request.user).filter(is_active=True)
    for model, agent in agents.values_list("actor_model__name", "name"):
        found.setdefault(model, []).append(agent)
    return found
