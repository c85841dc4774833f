"""How far a run came and how sure it was, step by step: for the drawing on its page and for the API (SPEC G1, G2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F

from loops.engine.encoding import canonical
from loops.models import Fact, Run

POINTS = 200
"""More steps than this come in even samples, the last one always."""


@dataclass(frozen=True, slots=True)
class Course:
    """``steps``: (number, progress 0..1, validation) of those that have ended. ``judgements``: bodies of the latest
    ``ConfidenceChecked``, oldest first."""

    steps: Sequence[tuple[int, float, Mapping[str, Any]]]
    judgements: Sequence[Mapping[str, Any]]
    every: int = 1
    """One step in so many is among ``steps``."""
    older: bool = False
    """There are judgements before these."""


def course_of(run: Run) -> Course:
    """Two queries, however long the run is."""
    last = max(1, run.total_steps)
    every = -(-last // POINTS)
    ended = run.steps.filter(success__isnull=False).annotate(at=F("step_number") % every).filter(at=last % every)
    steps = ended.order_by("step_number").values_list("step_number", "progress", "validation")
    stored = Fact.objects.filter(run=run, kind="ConfidenceChecked").order_by("-seq")[: POINTS + 1]
    bodies = [canonical.decode(bytes(body)) for body in stored.values_list("body", flat=True)]
    latest = bodies[:POINTS][::-1]
    return Course(
        [(number, progress, found or {}) for number, progress, found in steps], latest, every, len(bodies) > POINTS
    )
