"""When a run is given up: its workers meet the same error again and again, or are lost again and again (SPEC J4,
reliability#promises, 21). When it is put aside, because its workers die. And when it is only given back: to newer code.

They count apart. An error that a living worker meets three times at one place will be met there for ever. A worker
whose process dies, while whoever started it lives on and nobody told it to end, may have died of the run: a person is
to look before a third one does. Any other loss says nothing about the run: a machine that is started again, a
deployment that was in a hurry and a database that went away take several.
"""

from __future__ import annotations

import traceback
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import redis
from django.db import Error
from django.db.models import Case, F, Value, When
from django.db.models.functions import Now
from django.utils import timezone

from loops.engine.facts import KINDS, RunPaused
from loops.engine.state.needs import Need
from loops.engine.state.run import RunState
from loops.models import AuditEvent, Fact, Fork, Run
from loops.runs.composition import publisher
from loops.services import audit
from loops.storage import connections
from loops.storage.journal import Claim
from loops.storage.status import NEWER, WAITING_FOR_RESOURCE, waiting_for_folder

FAILURES_AT_MOST = 3
"""Workers that met the same error at the same line of code, no step completed in between."""
LOSSES_AT_MOST = 5
"""Workers lost for whatever reason, no step completed in between, before a run is failed instead of tried again."""
DEATHS_AT_MOST = 2
"""Workers that died while they held a run, no step begun in between, before it waits for a person."""
WATCHDOG = "watchdog"
"""Who pauses it then, in words."""
NEWER_S = 5.0
"""Until a run that needs newer code is offered again, to whichever worker comes first."""
FOLDER_S = (5.0, 60.0)
"""The same for a run whose folder is not on this worker, the longer the more seldom."""
KIND = "run.worker_failed"
AROUND = (OSError, MemoryError, redis.RedisError, *connections.LOST)
"""Errors of what a worker stands on: the database restarts, the disk is full. They pass, so they count as a loss."""


def say_why(held: Claim, error: Exception) -> None:
    """The worker that fails says so itself while it can; one that cannot is merely lost."""
    if isinstance(error, AROUND):
        return
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{type(error).__name__} in {last.name} ({Path(last.filename).name}:{last.lineno})"
    run = Run.objects.select_related("project").filter(pk=held.run_id)
    with suppress(Error):
        detail = {"epoch": held.epoch, "place": place, "error": str(error)}
        audit.record(KIND, actor=None, run=run.get(), detail=detail)


def unknown_kinds(run: Run) -> list[str]:
    """Kinds of facts in its history, or in the one it was forked from, that only newer code knows. What older code must
    not overlook is a kind of its own; a new field of a known kind may be overlooked."""
    histories = [run.pk, *Fork.objects.filter(run=run).values_list("parent_id", flat=True)]
    kinds = Fact.objects.filter(run__in=histories).order_by("kind").values_list("kind", flat=True).distinct()
    return [kind for kind in kinds if kind not in KINDS]


def leave_to_newer_code(held: Claim, lost: str) -> None:
    """While old and new workers run side by side, a newer one comes by."""
    leave(held, lost, NEWER, NEWER_S)


def leave_for_its_folder(held: Claim, lost: str, why: str) -> None:
    """A run that has no fact of its own yet, or is a fork in the making. A worker that has the folder comes by."""
    began = Run.objects.values_list("started_at", flat=True).get(pk=held.run_id)
    waited = (timezone.now() - began).total_seconds()
    leave(held, lost, waiting_for_folder(why), min(max(FOLDER_S[0], waited / 2), FOLDER_S[1]))


def leave(held: Claim, lost: str, need: Need, seconds: float) -> None:
    """Give the run back as it was found, the name of a lost owner included: whoever can go on with it has to know that
    there was one. It is offered again after a while, and says meanwhile what it waits for."""
    owner = (lost or "unknown") if held.abandoned else ""
    later = Now() + timedelta(seconds=seconds)
    on_its_way = When(status__in=[Run.Status.QUEUED, *Run.AT_WORK], then=Value(WAITING_FOR_RESOURCE))
    mine = Run.objects.filter(pk=held.run_id, epoch=held.epoch)
    mine.update(
        owner=owner,
        lease_until=later,
        wake_at=later,
        recoveries=F("recoveries") - int(held.abandoned),
        status=Case(on_its_way, default=F("status")),
        **need.columns(),
    )
    for project in mine.values_list("project_id", flat=True):
        publisher().row(held.run_id, project)


def put_aside(state: RunState) -> RunPaused | None:
    """The pause of a run that its workers die of; None while it is to be tried."""
    if state.deaths < DEATHS_AT_MOST or state.paused:
        return None
    where = f"step {state.step}" if state.step else "its beginning"
    reason = (
        f"{state.deaths} workers died one after the other while they held it at {where}. Look at what it does there"
    )
    return RunPaused(by=WATCHDOG, reason=f"{reason}, then try it again or stop it.")


def why_given_up(held: Claim) -> str:
    """Why nobody is to try this run again; "" while it is to be tried."""
    if not held.abandoned:
        return ""
    if held.recoveries > LOSSES_AT_MOST:
        return f"{held.recoveries} workers were lost in a row at this point"
    since = held.epoch - held.recoveries
    said = AuditEvent.objects.filter(run=held.run_id, kind=KIND, detail__epoch__gte=since).order_by("-id")
    details = list(said.values_list("detail", flat=True))
    places = Counter(detail["place"] for detail in details)
    if not places or max(places.values()) < FAILURES_AT_MOST:
        return ""
    place, times = places.most_common(1)[0]
    error = next(detail["error"] for detail in details if detail["place"] == place)
    return f"{times} workers failed at the same place, no step completed in between: {place}: {error}"
