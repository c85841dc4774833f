"""Celery jobs. Each takes ids, tolerates unknown keywords and may run any number of times (reliability#dispatch)."""

from __future__ import annotations

import logging
import time
import uuid
from datetime import timedelta
from typing import Any

import redis
from celery import shared_task
from django.conf import settings
from django.db import connection
from django.db.models.functions import Now

from loops.driver import drain
from loops.runs import worker  # noqa: F401 - it listens to the worker's signals
from loops.storage import owners
from loops.storage.dispatch import hand_over, ring, ring_now

log = logging.getLogger(__name__)
BEAT_KEY = "agentops:beat"
AT_ONCE = 500
UNHEARD_S = 5
"""After that long what no worker began is handed over again."""

_TO_RING = """
    SELECT r.id FROM agent_execution_history r
    WHERE (r.lease_until IS NULL OR r.lease_until < clock_timestamp())
      AND (r.runnable OR r.owner <> '' OR r.wake_at <= clock_timestamp()
           OR EXISTS (SELECT 1 FROM journal_mail(r.id)))
      AND r.last_activity_at < clock_timestamp() - interval '2 seconds'
    ORDER BY r.id LIMIT %s
"""


@shared_task(name="loops.advance")
def advance(run_id: str, **_: Any) -> str:
    """Drive the run for as long as there is something to do."""
    from loops.runs.drive import drive

    if drain.begun():
        ring_now(run_id)  # for another worker, or for this one's successor
        return "drain"
    try:
        return drive(uuid.UUID(run_id), owners.me())
    except (Exception, SystemExit):  # of a package, wherever it is called: a worker does not end with a run
        log.exception("run %s: the worker could not go on; the run is tried again when its lease has run out", run_id)
        return "error"


@shared_task(name="loops.test_model")
def test_model(model: str, **_: Any) -> bool:
    """Try a model with one call; what was found is kept with it."""
    from loops.models import ModelConfig
    from loops.services import model_tests

    row = ModelConfig.objects.filter(pk=uuid.UUID(model)).first()
    return row is not None and model_tests.try_model(row).works


@shared_task(name="loops.deliver")
def deliver(delivery: str, **_: Any) -> str:
    """Apply a result to the folder it is for, or go on where a worker was lost at it."""
    from loops.services.delivery import carry_out

    return carry_out(uuid.UUID(delivery))


@shared_task(name="loops.preflight")
def preflight(preflight: str, **_: Any) -> bool:
    """Run the commands of a task that is not submitted yet."""
    from loops.services.preflight import carry_out

    return carry_out(uuid.UUID(preflight))


@shared_task(name="loops.setup")
def set_up(setup: str, **_: Any) -> bool:
    """Run the set-up command of a workspace."""
    from loops.workspaces.installation import carry_out

    return carry_out(uuid.UUID(setup))


@shared_task(name="loops.sweep")
def sweep(**_: Any) -> int:
    """Ring for every run that has something to do and no living owner: lost bells and lost workers (SPEC J4). The same
    for results that are to be applied, for commands that are to be tried and for set-ups. What the command of a lost
    worker left is taken away first."""
    _clean_up()
    with connection.cursor() as cursor:
        cursor.execute(_TO_RING, [AT_ONCE])
        runs = [run_id for (run_id,) in cursor.fetchall()]
    for run_id in runs:
        ring(run_id)
    _hand_over_again()
    return len(runs)


def _clean_up() -> None:
    """Half-made folders first: what a command left in one goes with it."""
    from loops.models import Run
    from loops.runs.composition import command_records
    from loops.services import audit
    from loops.tools.sandbox.workspace_guard import interrupted
    from loops.workspaces import strays

    strays.clear()
    for late in interrupted.put_right_all(command_records()):
        run = Run.objects.select_related("project").filter(pk=late.run).first()
        taken = [{"path": one.path, "why": one.why} for one in late.taken]
        detail = {"workspace": late.workspace, "restored": late.restored, "taken": taken}
        audit.record("tool.planted", actor=None, run=run, detail=detail)


def _hand_over_again() -> None:
    from loops.models import Delivery, Preflight, Setup

    late = Now() - timedelta(seconds=UNHEARD_S)
    deliveries = Delivery.objects.filter(state__in=Delivery.OPEN, ordered_at__lt=late)
    for delivery_id in deliveries.values_list("pk", flat=True)[:AT_ONCE]:
        hand_over("loops.deliver", delivery=str(delivery_id))
    waiting = Preflight.objects.filter(state=Preflight.State.WAITING, asked_at__lt=late, until__gt=Now())
    for preflight_id in waiting.values_list("pk", flat=True)[:AT_ONCE]:
        hand_over("loops.preflight", preflight=str(preflight_id))
    setups = Setup.objects.filter(state=Setup.State.WAITING, ordered_at__lt=late, until__gt=Now())
    for setup_id in setups.values_list("pk", flat=True)[:AT_ONCE]:
        hand_over("loops.setup", setup=str(setup_id))


@shared_task(name="loops.beat_alive")
def beat_alive(**_: Any) -> None:
    """Say that beat and a worker are alive, and which sandbox this worker has."""
    from loops.runs.composition import sandbox_level
    from loops.services import sandbox

    client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2)
    client.set(BEAT_KEY, int(time.time()))
    sandbox.tell(sandbox_level())
