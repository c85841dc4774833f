"""Runs: a table with its filters in the address, page by page on keys (UI page 3)."""

from __future__ import annotations

import contextlib
import uuid
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from loops.engine.state.evidence import Evidence
from loops.models import Agent, Run
from loops.querysets import RunQuerySet
from loops.storage.status import WEAK_ENDS
from loops.web import access, open_gates

PAGE = 50
Status = Run.Status
STATES = {
    "live": ("In progress", [Status.QUEUED, Status.INITIALIZING, Status.THINKING, Status.EXECUTING_TOOL]),
    "waiting": ("Waiting or paused", [Status.WAITING, Status.WAITING_FOR_RESOURCE, Status.PAUSED]),
    "completed": ("Completed", [Status.COMPLETED]),
    "failed": ("Failed or escalated", [Status.FAILED, Status.ESCALATED]),
    "interrupted": ("Stopped", [Status.INTERRUPTED]),
}
DEAD = "dead"
"""Given up by AgentOps itself: wait for a person to try again."""
STUCK = "stuck"
"""Needed a person to continue: waiting for one now, or ended so."""
HELD = "held"
"""Wait for a person to resume or stop them."""
MORE_STATES = {
    HELD: "Paused by AgentOps",
    STUCK: "Escalated to a person",
    DEAD: "Given up by AgentOps",
    Evidence.CLAIMED.value: "Completed, not proven",
    Evidence.CONTRADICTED.value: "Completed, contradicted",
}
PICKED = {HELD: RunQuerySet.held, STUCK: RunQuerySet.escalated, DEAD: RunQuerySet.dead_lettered}
FILTERS = ("state", "q", "agent", "project")


@login_required
@never_cache
@require_safe
def runs(request: HttpRequest) -> HttpResponse:
    """The newest runs that match."""
    chosen = {name: request.GET.get(name, "").strip()[:200] for name in FILTERS}
    roles = access.roles(request)
    rows = list(_page(_matching(Run.objects.visible_to(request.user), chosen), request.GET.get("before", "")))
    shown = rows[:PAGE]
    for run in shown:
        run.may_steer = roles.audience(run.project_id).operate and not run.is_ended
    kept = {name: value for name, value in chosen.items() if value}
    context = {
        "rows": shown,
        "older": urlencode({**kept, "before": str(shown[-1].pk)}) if len(rows) > PAGE else "",
        "newest": urlencode(kept) if request.GET.get("before") else None,
        "chosen": chosen,
        "filtered": bool(kept),
        "states": {name: label for name, (label, _) in STATES.items()} | MORE_STATES,
        "agents": Agent.objects.visible_to(request.user).select_related("project").order_by("project__name", "name"),
        "roles": roles,
        "any_to_steer": any(run.may_steer for run in shown),
    }
    template = "loops/_runs.html" if request.headers.get("HX-Target") == "runs" else "loops/runs.html"
    return render(request, template, context)


def _matching(found: RunQuerySet, chosen: dict[str, str]) -> RunQuerySet:
    if chosen["state"] in STATES:
        found = found.filter(status__in=STATES[chosen["state"]][1])
    elif chosen["state"] in PICKED:
        found = PICKED[chosen["state"]](found)
    elif chosen["state"] in WEAK_ENDS:
        found = found.filter(final_status=WEAK_ENDS[Evidence(chosen["state"])])
    elif chosen["state"] in Status.values:
        found = found.filter(status=chosen["state"])
    if words := chosen["q"].replace("\0", ""):
        found = found.filter(Q(task__title__icontains=words) | Q(task__goal__icontains=words))
    if chosen["agent"]:
        found = found.filter(agent_id=chosen["agent"].replace("\0", ""))
    if chosen["project"]:
        found = found.filter(project__slug=chosen["project"].replace("\0", ""))
    return found


def _page(found: RunQuerySet, before: str) -> RunQuerySet:
    """Keyset: one row more than a page tells whether there is an older one."""
    if before:
        with contextlib.suppress(ValueError):  # an address somebody typed: begin with the newest
            found = found.filter(pk__lt=uuid.UUID(before))
    heavy = ("state_snapshot", "task__goal", "task__criteria", "head_hash", "fork__message", "fork__instructions")
    named = open_gates.with_questions(found.with_names())
    return named.select_related("fork").defer(*heavy).order_by("-id")[: PAGE + 1]
