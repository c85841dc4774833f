"""The page of one run: its trace, live, and the machine it moves in (UI page 4)."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from loops.engine.encoding import canonical
from loops.models import Fact, Policy, Run
from loops.services import delivery, lineage
from loops.storage import reader
from loops.web import access, command_limits, lifecycle_diagram, open_gates, progress_chart
from loops.web import timeline as trace
from loops.web.live import frames
from loops.web.run_header import heading

TABS = (
    ("run", "Timeline", "list"),
    ("run-lifecycle", "Lifecycle", "git-branch"),
    ("run-files", "Files", "file-diff"),
    ("run-conversation", "Conversation", "message-square"),
    ("run-provenance", "Provenance", "link"),
    ("run-raw", "Raw", "database"),
)


def page(request: HttpRequest, run: Run, tab: str, **more: Any) -> dict[str, Any]:
    """Context that every view of a run shares."""
    audience = access.roles(request).audience(run.project_id)
    return {**heading(run, audience), **lineage.of(run), "tab": tab, "tabs": TABS, **more}


@login_required
@never_cache
@require_safe
def timeline(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """A card a step, the latest window of them."""
    run = access.run_or_404(request, run_id)
    cards = trace.latest(run)
    first = next((card.number for card in cards if card.step), 0)
    more = {"cards": cards, "earlier": first if first > 1 else 0, "report": _report(run), **progress_chart.drawing(run)}
    more["undelivered"] = delivery.undelivered(run)
    policy = Policy.objects.filter(project=run.project_id).first() or Policy()
    more["commands"] = list(command_limits.lines(policy, run.task.workspace))
    return render(request, "loops/run.html", page(request, run, "run", **more))


@login_required
@never_cache
@require_safe
def earlier(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """The window of cards before a step, to be put above it."""
    run = access.run_or_404(request, run_id)
    before = request.GET.get("before", "")
    if not before.isdigit() or len(before) > 9:
        raise Http404
    cards = trace.latest(run, int(before))
    first = next((card.number for card in cards if card.step), 0)
    audience = access.roles(request).audience(run.project_id)
    context = {"run": run, "cards": cards, "earlier": first if first > 1 else 0, "audience": audience}
    return render(request, "loops/_earlier.html", context)


@login_required
@never_cache
@require_safe
def steps(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """Cards in place of a gap from ``first`` to ``last``, around step ``at`` if one is asked for."""
    run = access.run_or_404(request, run_id)
    first, last, at = (_number(request.GET.get(name, "")) for name in ("first", "last", "at"))
    if first is None or last is None or first > last:
        raise Http404
    gap = trace.Gap(first, min(last, run.total_steps))
    audience = access.roles(request).audience(run.project_id)
    parts = trace.within(run, gap, at) if first <= gap.last else []
    return HttpResponse("".join(frames.part(run, one, audience) for one in parts))


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() and len(text) < 10 else None


@login_required
@never_cache
@require_safe
def step(request: HttpRequest, run_id: uuid.UUID, number: int) -> HttpResponse:
    """The body of one card."""
    run = access.run_or_404(request, run_id)
    cards = trace.some(run, [number]) if 0 < number < 2**31 else []
    if not cards:
        raise Http404
    audience = access.roles(request).audience(run.project_id)
    return render(request, "loops/_step_body.html", {"run": run, "card": cards[0], "audience": audience})


@login_required
@never_cache
@require_safe
def gate(request: HttpRequest, run_id: uuid.UUID, gate_id: uuid.UUID) -> HttpResponse:
    """The card of a gate, to be answered on the spot."""
    run = access.run_or_404(request, run_id)
    found = get_object_or_404(
        open_gates.gates().objects.visible_to(request.user).filter(run=run).with_names(), pk=gate_id
    )
    if not open_gates.has_cards():
        raise Http404
    return render(request, "gates/_card.html", {"gate": found, "place": "run"})


@login_required
@never_cache
@require_safe
def lifecycle(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """The ten-phase machine with the present phase (SPEC A1)."""
    run = access.run_or_404(request, run_id)
    entered = Fact.objects.filter(run=run, kind="PhaseEntered").order_by("seq").values_list("seq", "at", "body")
    passed = [{**canonical.decode(bytes(body)), "seq": seq, "at": at} for seq, at, body in entered]
    drawing = lifecycle_diagram.draw(run.phase, [entry["phase"] for entry in passed])
    more = {"drawing": drawing, "passed": passed[-200:]}
    template = "loops/_lifecycle.html" if request.headers.get("HX-Request") else "loops/run_lifecycle.html"
    return render(request, template, page(request, run, "run-lifecycle", **more))


def _report(run: Run) -> dict[str, Any] | None:
    return reader.report(run.pk) if run.is_ended else None
