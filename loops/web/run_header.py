"""The head of a run's page: state, spend against its bounds, and what may be done about it (SPEC R1, D2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from loops.models import Run, Step
from loops.services import rollback, steering
from loops.web import open_gates
from loops.web.access import Audience
from loops.web.limits_bar import Granted, complexity_of, context_meter, granted_to, limits_in_force, meters_of
from loops.web.run_summary import outlook


@dataclass(frozen=True, slots=True)
class Button:
    """``why_not`` is empty when the button works; otherwise it says why it does not."""

    action: str
    label: str
    icon: str
    variant: str
    title: str
    why_not: str


BUTTONS = (
    ("pause", "Pause", "pause", "outline", "Holds the run after what it is doing now. Nothing is lost."),
    ("resume", "Resume", "play", "outline", "Continues where the run was."),
    (
        "retry",
        "Try again",
        "refresh-cw",
        "outline",
        "Continues where the run failed because of AgentOps or its model.",
    ),
    ("check_confidence", "Check confidence", "gauge", "outline", "Rates how well the run does, before its next step."),
    ("stop", "Stop", "square", "destructive", "Ends the run now. What it has done stays; it can be resumed later."),
)


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
        "buttons": [
            Button(*one, why_not=steering.why_impossible(one[0], run.status, run.end_reason)) for one in BUTTONS
        ],
        "can_roll_back": audience.operate and not rollback.why_impossible(run),
        "can_talk": audience.operate and not steering.why_impossible("message", run.status),
        "seconds": ((run.completed_at or timezone.now()) - run.started_at).total_seconds(),
    }
