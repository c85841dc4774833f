"""Overview: what needs me, what runs, what it costs, what went wrong (UI page 1)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import Aggregate, Count, DurationField, ExpressionWrapper, F, Min, Q, QuerySet, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from loops.models import Run
from loops.services import sandbox
from loops.web import access, open_gates

LIVE = 12
GATES = 6
HELD = 20
FAILURES = 5
WEEK = timedelta(days=7)


class Percentile(Aggregate):
    """Continuous percentile of a duration."""

    function = "percentile_cont"
    output_field = DurationField()

    def __init__(self, share: float, expression: Any, **extra: Any) -> None:
        template = f"%(function)s({share:.3f}) WITHIN GROUP (ORDER BY %(expressions)s)"
        super().__init__(expression, template=template, **extra)


@login_required
@never_cache
@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """The first page, whatever one's roles."""
    roles = access.roles(request)
    runs = Run.objects.visible_to(request.user)
    now = timezone.now()
    kinds = _kinds(open_gates.waiting_for(request.user), now)
    gates = sum(kind["n"] for kind in kinds)
    held_for_me = open_gates.held_for(request.user)
    held = list(held_for_me.with_names().order_by("paused_at")[: HELD + 1])
    all_held = held_for_me.count() if len(held) > HELD else len(held)
    stuck = list(open_gates.held_by_others(request.user).with_names().order_by("paused_at")[:HELD])
    live, failures = [*stuck, *_live(runs.exclude(pk__in=[run.pk for run in stuck]))], list(_failures(runs))
    context = {
        "roles": roles,
        "sandbox": sandbox.weak(),
        "gates": open_gates.waiting_for(request.user).ranked().with_names()[:GATES],
        "kinds": kinds,
        "needing": gates + all_held,
        "held": held[:HELD],
        "hidden_held": max(0, all_held - HELD),
        "hidden_gates": max(0, gates - GATES),
        "live": live[: LIVE + len(stuck)],
        "more_live": len(live) > LIVE + len(stuck),
        "figures": _figures(runs, now),
        "waits": _waits(request.user, now),
        "failures": failures[:FAILURES],
        "more_failures": len(failures) > FAILURES,
        "now": now,
    }
    template = "loops/_overview.html" if request.headers.get("HX-Request") else "loops/overview.html"
    return render(request, template, context)


def _kinds(gates: Any, now: Any) -> list[dict[str, Any]]:
    counts = {"n": Count("pk"), "oldest": Min("opened_at"), "late": Count("pk", Q(due_at__lt=now))}
    rows = gates.order_by().values("kind").annotate(**counts)
    labels = dict(open_gates.gates().Kind.choices)
    return [{**row, "label": labels[row["kind"]]} for row in sorted(rows, key=lambda row: -row["n"])]


def _live(runs: Any) -> QuerySet[Any]:
    return open_gates.with_questions(runs.live().with_names())[: LIVE + 1]


def _failures(runs: Any) -> QuerySet[Any]:
    ended_badly = [Run.Status.FAILED, Run.Status.ESCALATED]
    failed = runs.filter(status__in=ended_badly)
    return failed.with_names().order_by("-completed_at")[: FAILURES + 1]


def _figures(runs: Any, now: Any) -> dict[str, Any]:
    """Spend since midnight, and how the runs of a week ended."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    week = Q(completed_at__gte=now - WEEK)
    found: dict[str, Any] = runs.filter(started_at__gte=now - 4 * WEEK).aggregate(
        spend=Sum("total_cost_usd", filter=Q(started_at__gte=midnight)),
        unknown=Count("pk", filter=Q(started_at__gte=midnight, cost_unknown=True)),
        runs=Count("pk", filter=Q(started_at__gte=midnight)),
        ended=Count("pk", filter=week),
        completed=Count("pk", filter=week & Q(status=Run.Status.COMPLETED)),
    )
    found["rate"] = round(100 * found["completed"] / found["ended"]) if found["ended"] else None
    return found


def _waits(user: Any, now: Any) -> dict[str, Any]:
    """How long gates waited for a decision, over a week."""
    waited = ExpressionWrapper(F("decided_at") - F("opened_at"), output_field=DurationField())
    decided = open_gates.gates().objects.visible_to(user).filter(decided_at__gte=now - WEEK)
    found: dict[str, Any] = decided.aggregate(n=Count("pk"), p50=Percentile(0.5, waited), p95=Percentile(0.95, waited))
    for name in ("p50", "p95"):
        found[name] = found[name].total_seconds() if found[name] is not None else None
    return found
