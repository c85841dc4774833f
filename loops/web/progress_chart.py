"""How progress and confidence went, step by step, as one small drawing with its numbers (SPEC G1, G2, R4)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from loops.engine.confidence.bands import HIGH, LOW, MEDIUM, SAID, band
from loops.models import Run
from loops.services.progress import course_of
from loops.web import access
from loops.web.notes import text_of
from loops.web.run_summary import METHODS

WIDTH, HEIGHT = 1000, 100
"""Of the drawing, which a page stretches to the room there is."""
HEIGHTS = {LOW: 0.15, MEDIUM: 0.5, HIGH: 0.85}
"""Of the drawing: three places, for the number says no more than that."""
HOW = {"model": "judged by a model", "measured": "measured"}


@dataclass(frozen=True, slots=True)
class Point:
    """One judgement of confidence; ``look`` is bad when it was low. ``score`` is no probability (``bands``)."""

    step: int
    band: str
    score: float
    how: str
    reason: str
    look: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Curve:
    progress: str
    """Path of the progress; empty before the first step has ended."""
    points: Sequence[Point]
    confidence: str
    steps: int
    percent: int
    measured: str
    every: int = 1
    older: bool = False

    @property
    def latest(self) -> Point | None:
        return self.points[-1] if self.points else None

    @property
    def said(self) -> str:
        """The drawing in words."""
        found = f"Progress {self.percent} % after {self.steps} steps{f', {self.measured}' if self.measured else ''}."
        latest = self.latest
        return f"{found} Confidence {latest.band} ({SAID}), {latest.how}." if latest else found


@login_required
@never_cache
@require_safe
def curve(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """The drawing alone: the page of the run asks for it."""
    run = access.run_or_404(request, run_id)
    return render(request, "loops/_progress_chart.html", {"run": run, **drawing(run)})


def drawing(run: Run) -> dict[str, Any]:
    """What ``loops/_progress_chart.html`` draws: on the page at once, and again when the run moves."""
    return {
        "curve": curve_of(run),
        "size": {"width": WIDTH, "height": HEIGHT},
        "lines": [_y(share) for share in (0.0, 0.5, 1.0)],
        "said": SAID,
    }


def curve_of(run: Run) -> Curve:
    """The drawing of its course."""
    last, course = max(1, run.total_steps), course_of(run)
    steps, points = course.steps, [_point(body, last) for body in course.judgements]
    return Curve(
        progress=_steps_path([(_x(number, last), _y(share)) for number, share, _ in steps]),
        points=points,
        confidence=_path([(point.x, point.y) for point in points]),
        steps=run.total_steps,
        percent=round(100 * run.progress),
        measured=_measured(steps[-1][2]) if steps else "",
        every=course.every,
        older=course.older,
    )


def _point(body: Mapping[str, Any], last: int) -> Point:
    score, said = body["score"], band(body["score"], body["threshold"])
    return Point(
        step=body["step"],
        band=said,
        score=score,
        how=HOW.get(body["method"], body["method"]),
        reason=text_of(body.get("reason")),
        look="bad" if said == LOW else "good",
        x=_x(body["step"], last),
        y=_y(HEIGHTS[said]),
    )


def _measured(validation: Mapping[str, Any]) -> str:
    method = validation.get("method") or ""
    if method not in METHODS:
        return ""
    detail = validation.get("detail") or ""
    return f"by {METHODS[method]}{f': {detail}' if detail else ''}"


def _x(step: int, last: int) -> float:
    return round(WIDTH * step / last, 1)


def _y(share: float) -> float:
    return round(HEIGHT * (1 - min(1.0, max(0.0, share))), 1)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + " L".join(f"{x} {y}" for x, y in points) if points else ""


def _steps_path(points: Sequence[tuple[float, float]]) -> str:
    """A score holds until the next step has ended."""
    if not points:
        return ""
    path, before = f"M0 {_y(0)}", _y(0)
    for x, y in points:
        path += f" L{x} {before} L{x} {y}"
        before = y
    return path
