"""Ring the bell: tell some worker that a run may have something to do.

A ring that is lost or comes three times is harmless (reliability#dispatch): the sweeper rings again, and a run has
one owner.
"""

from __future__ import annotations

import logging
import uuid

from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

log = logging.getLogger(__name__)
JOB = "loops.advance"


def ring(run_id: uuid.UUID | str, after: float = 0) -> None:
    """Ring when the present transaction has committed, or ``after`` seconds later. A broker that is down only delays:
    the sweeper finds the run."""
    hand_over(JOB, after, run_id=str(run_id))


def ring_now(run_id: uuid.UUID | str, after: float = 0) -> None:
    """Ring without waiting for any transaction."""
    _hand_over_now(JOB, after, run_id=str(run_id))


def hand_over(job: str, after: float = 0, **given: str) -> None:
    """A job that the sweeper finds as well, when the present transaction has committed."""
    transaction.on_commit(lambda: _hand_over_now(job, after, **given), robust=True)


def _hand_over_now(job: str, after: float, **given: str) -> None:
    try:
        dispatch(job, after, **given)
    except Exception as error:  # any transport's error: the database already holds the truth
        log.warning("%s for %s was not handed over, the sweeper will: %s", job, ", ".join(given.values()), error)


def dispatch(job: str, after: float = 0, **given: str) -> None:
    """Hand a job to some worker, which does it in ``after`` seconds. Raises what its transport raises."""
    app = import_string(getattr(settings, "AGENTOPS_CELERY", "agentops.celery.app"))
    app.send_task(job, kwargs=given, ignore_result=True, retry=False, countdown=after or None)
