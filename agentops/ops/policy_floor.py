"""Runs that have not ended and were asked for more than the policy of their project allows now. One of the checks."""

from __future__ import annotations

from agentops.ops.finding import OK, WARNING, Finding
from loops.models import Run
from loops.services.policy_floor import beyond

LOOKED_AT = 500
NAMED = 5


def open_runs() -> Finding:
    """Of the oldest runs that have not ended: those taken before the policy was a floor, or before it was tightened."""
    rows = Run.objects.live().select_related("task__created_by", "project").order_by("pk")[:LOOKED_AT]
    found = beyond(rows)
    if not found:
        return OK, "No open run was asked for more than its project's policy allows"
    projects = sorted({run.project.name for run, _ in found})
    more = f" and {len(projects) - NAMED} more" if len(projects) > NAMED else ""
    todo = "those not begun yet are held at the policy; an admin of the project can raise it in Admin > Policies"
    what = f"Open runs that were asked for more than their project's policy allows: {len(found)}"
    return WARNING, what, todo, f"in {', '.join(projects[:NAMED])}{more}"
