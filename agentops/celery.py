"""Celery: carries bells between processes. Jobs live in each app's `jobs.py`; "task" is a word of the domain."""

import logging.config
import os
from typing import Any

from celery import Celery
from celery.schedules import crontab
from celery.signals import beat_init, setup_logging, worker_init

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentops.settings")
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")  # of all pages, which no worker has: half a second

app = Celery("agentops")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(related_name="jobs")


@app.on_after_configure.connect
def _prune_every_night(sender: Celery, **_: Any) -> None:
    """Here and not in settings, which would import Celery for it into every command."""
    twice = crontab(hour="3,5", minute=17)  # what is marked the first time goes the second
    sender.add_periodic_task(twice, sender.signature("agentops.prune"), name="prune", expires=3600)


@setup_logging.connect  # type: ignore[untyped-decorator]
def _log_as_everybody_else(**_: Any) -> None:
    from django.conf import settings

    logging.config.dictConfig(settings.LOGGING)


@worker_init.connect  # type: ignore[untyped-decorator]
def _refuse_an_unsafe_database(**_: Any) -> None:
    """A worker writes facts: it does not start where a committed fact could be lost."""
    from django.conf import settings
    from django.db import connection

    from agentops import roles

    if settings.UNSAFE_DATABASE:
        return
    broken = roles.broken_durability()
    connection.close()
    if broken:
        raise SystemExit("; ".join(broken) + " (AGENTOPS_UNSAFE_DATABASE=1 starts anyway)")


@beat_init.connect  # type: ignore[untyped-decorator]
def _ring_at_once(**_: Any) -> None:
    """Let readiness hear the clock now rather than after its first interval."""
    app.send_task("loops.beat_alive", expires=30)
