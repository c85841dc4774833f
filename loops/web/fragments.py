"""Pieces of a run's page as HTML, rendered by the very templates of the page (ARCHITECTURE 7)."""

from __future__ import annotations

from collections.abc import Iterable

from django.template.loader import render_to_string

from loops.models import Run
from loops.web import timeline
from loops.web.access import Audience
from loops.web.heading import heading
from loops.web.timeline import Card


def head(run: Run, audience: Audience) -> str:
    return render_to_string("console/_head.html", heading(run, audience))


def cards(run: Run, numbers: Iterable[int], audience: Audience) -> str:
    """The cards of these steps, each a list item with its own id."""
    return "".join(card(run, one, audience) for one in timeline.some(run, numbers))


def card(run: Run, one: Card, audience: Audience) -> str:
    return render_to_string("console/_step.html", {"run": run, "card": one, "audience": audience})
