"""Pieces of a run's page as HTML, rendered by the very templates of the page (architecture#live)."""

from __future__ import annotations

import re

from django.template.loader import render_to_string
from django.urls import reverse

from loops.models import Run, Step
from loops.services import delivery
from loops.storage import reader
from loops.web.access import Audience
from loops.web.limits_bar import Granted
from loops.web.live import messages
from loops.web.run_header import heading
from loops.web.timeline import Card, Gap


def head(run: Run, audience: Audience, granted: Granted | None = None, latest: Step | None = None) -> str:
    """Without what was ``granted`` and the ``latest`` step both are read."""
    return render_to_string("loops/_run_header.html", heading(run, audience, granted, latest))


def none_yet(run: Run) -> str:
    """In place of the steps while there are none."""
    return render_to_string("loops/_none_yet.html", {"run": run})


def card(run: Run, one: Card, audience: Audience) -> str:
    return render_to_string("loops/_step.html", {"run": run, "card": one, "audience": audience})


def gap(run: Run, one: Gap) -> str:
    """The place of steps that are not on the page, with a button that brings them."""
    return render_to_string("loops/_gap.html", {"run": run, "gap": one})


def part(run: Run, one: Card | Gap, audience: Audience) -> str:
    return gap(run, one) if isinstance(one, Gap) else card(run, one, audience)


def end(run: Run) -> str:
    """The card of the outcome; an empty place again when the run goes on."""
    report = reader.report(run.pk) if run.is_ended else None
    context = {"run": run, "report": report, "undelivered": delivery.undelivered(run)}
    return render_to_string("loops/_end.html", context)


def fitting(html: str, run: Run, number: int | None = None) -> str:
    """A part of the page, or, where it is too long for a message, one in its place that fetches it: step ``number``
    from the steps, others from the page."""
    opening = _OPENING.match(html)
    if opening is None or messages.fits(html):
        return html
    address = reverse("run", args=[run.pk])
    if number is not None:
        address = f"{reverse('run-steps', args=[run.pk])}?first={number}&last={number}&at={number}"
    context = {"tag": opening[1], "name": opening[2], "address": address, "number": number}
    return render_to_string("loops/_fetched.html", context)


_OPENING = re.compile(r'<(\w+) id="([\w-]+)"')
