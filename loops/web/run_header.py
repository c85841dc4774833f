"""The head of a run's page: state, spend against its bounds, and what may be done about it (SPEC R1, D2)."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from loops.models import Run, Step
from loops.services import rollback, steering
from loops.web import open_gates
from loops.web.access import Audience
from loops.web.limits_bar import Granted, complexity_of, context_meter, granted_to, limits_in_force, meters_of
from loops.web.run_summary import outlook
from loops.web.steering import ACTIONS


def heading(run: Run, audience: Audience, granted: Granted | None = None, latest: Step | None = None) -> dict[str, Any]:
    """Context of ``loops/_run_header.html``: the same for a page and for a live frame, which has read what was
    ``granted``
    and the ``latest`` step already."""
    if granted is None:
        granted, latest = granted_to(run), run.steps.order_by("-step_number").first()
    meters, asked = meters_of(run, limits_in_force(run, granted)), open_gates.of_run(run)
    return {
        "run": run,
        "audience": audience,
        "complexity": complexity_of(run),
        "meters": [*meters, *context_meter(run, latest)],
        "decide": open_gates.decidable(asked, audience),
        "outlook": outlook(run, latest, meters, is_asked=bool(asked)),
        "buttons": {
            name: action
            for name, action in ACTIONS.items()
            if not steering.why_impossible(name, run.status, run.end_reason)
        },
        "can_roll_back": audience.operate and not rollback.why_impossible(run),
        "can_talk": audience.operate and not steering.why_impossible("message", run.status),
        "seconds": ((run.completed_at or timezone.now()) - run.started_at).total_seconds(),
    }
