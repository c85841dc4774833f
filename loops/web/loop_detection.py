"""What loop detection and the monitor found, in words: in the timeline, and above it while nothing moves (SPEC F)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from loops.models import Detection, Run
from loops.web import access

Body = Mapping[str, Any]
MOST = 10
METHODS = {  # five of them by older versions, whose runs are still looked at
    "repeated_result": "the same result again and again",
    "alternating": "the same steps in turn",
    "identical_errors": "the same error again and again",
    "repeated_call": "the same call, and nothing new",
    "recurring": "a similar step, with others between",
    "semantic": "similar steps again and again",
    "repeated_round": "the same result, refused for the same reason",
    "same_meaning": "the same again and again in other words",
    "nothing_new": "nothing new learned",
    "progress_stall": "no progress",
    "hung_worker": "its worker hangs",
    "silent": "its worker has stopped reporting",
    "untaken": "no worker has taken it up",
    "runaway_spend": "it spends too fast",
}
RUNGS = {
    "another_approach": "Instructed to take another approach; the same call is refused from now on",
    "other_words": "Instructed again, in other words, to start over",
    "fresh_evidence": "Instructed to look at everything afresh",
    "another_model": "Handed to another model",
}


def detected(body: Body) -> dict[str, Any]:
    """Note of LoopDetected."""
    return _note("bad", "refresh-cw", f"Loop detected: {_method(body)}", body)


def stalled(body: Body) -> dict[str, Any]:
    """Note of StallDetected."""
    return _note("bad", "timer", f"The monitor noticed: {_method(body)}", body)


def broken(body: Body) -> dict[str, Any]:
    """Note of LoopBroken: one rung of the ladder, or why it was left out."""
    rung, skipped = str(body.get("rung", "")), str(body.get("skipped", ""))
    if skipped:
        return _note("idle", "info", f"Not {RUNGS.get(rung, rung).lower()}: {skipped}", {})
    return _note("wait", "rotate-ccw", RUNGS.get(rung, rung.replace("_", " ").capitalize()), {})


def standing(runs: QuerySet[Run]) -> tuple[list[Detection], int]:
    """Findings about ``runs`` after which nothing has happened yet: a run that goes on has read them. The latest, and
    how many more there are."""
    still = Detection.objects.filter(run__in=runs.live(), seq=F("run__head_seq"))  # type: ignore[attr-defined]
    found = list(still.select_related("run__task")[: MOST + 1])
    return found[:MOST], still.count() - MOST if len(found) > MOST else 0


@login_required
@never_cache
@require_safe
def banner(request: HttpRequest, run_id: Any) -> HttpResponse:
    """Above the timeline: asked for at once and every few seconds, for a hung worker sends no news."""
    run = access.run_or_404(request, run_id)
    standing_now, more = standing(Run.objects.filter(pk=run.pk))
    found = [(one, _method({"method": one.method})) for one in standing_now]
    return render(request, "loops/_detections.html", {"run": run, "found": found, "more": more, "asked": True})


def _method(body: Body) -> str:
    return METHODS.get(str(body.get("method", "")), str(body.get("method", "")).replace("_", " "))


def _note(look: str, icon: str, title: str, body: Body) -> dict[str, Any]:
    steps = body.get("steps")
    return {
        "look": look,
        "icon": icon,
        "title": title,
        "text": str(body.get("evidence", "")),
        "by": str(body.get("by", "")),
        "steps": [step for step in steps if isinstance(step, int)] if isinstance(steps, list) else [],
    }
