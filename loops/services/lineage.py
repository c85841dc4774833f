"""Where a run comes from and which runs come from it, and what two runs have in common (SPEC K3)."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Case, Q, When

from loops.models import Fact, Fork, Run
from loops.storage import lineage

MOST = 20
"""Forks named at the head of a run; a run with more says so."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The history two runs have in common: whole steps, and the run that recorded it. ``run`` None: nothing."""

    steps: int = 0
    run: uuid.UUID | None = None


def of(run: Run) -> dict[str, Any]:
    """``origin``: the fork that made this run, or None; ``forks``: of this run, newest first. One query."""
    rows = Fork.objects.filter(Q(run=run) | Q(parent=run)).select_related("run", "created_by")
    origin_first = Case(When(run=run, then=0), default=1)
    slim = rows.defer("instructions", "message", "run__state_snapshot")
    found = list(slim.order_by(origin_first, "-run_id")[: MOST + 2])
    forks = [fork for fork in found if fork.parent_id == run.pk]
    return {
        "origin": next((fork for fork in found if fork.run_id == run.pk), None),
        "forks": forks[:MOST],
        "more_forks": len(forks) > MOST,
    }


def shared(one: Run, other: Run) -> Shared:
    """What both took over, or what one took over from the other. Facts keep their numbers from run to run, so the
    shortest stretch on the way to the run both descend from is what they share."""
    with connection.cursor() as cursor:
        ours, theirs = _reach(one, cursor), _reach(other, cursor)
    common = next((run_id for run_id in ours if run_id in theirs), None)
    if common is None:
        return Shared()
    until = min(ours[common], theirs[common])
    ended = Fact.objects.filter(run_id=common, seq__lte=until, kind="StepCompleted").order_by("-seq")
    return Shared(ended.values_list("step", flat=True).first() or 0, common)


def _reach(run: Run, cursor: Any) -> dict[uuid.UUID, int]:
    """The run and those it descends from, nearest first, each with its last fact that the run has."""
    reach, until = {run.pk: run.head_seq}, run.head_seq
    for origin in lineage.line(cursor, run.pk):
        until = min(until, origin["seq"])
        reach[uuid.UUID(origin["run"])] = until
    return reach
