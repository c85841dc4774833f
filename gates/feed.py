"""Tell open pages that a queue changed: a pointer, never content. Losing one is harmless, pages also ask."""

from __future__ import annotations

import functools
import json
import logging
from typing import Any

import redis
from django.conf import settings
from django.db import transaction

log = logging.getLogger(__name__)
CHANNEL = "agentops:feed"


def publish_queue(project_id: str, run_id: Any = None) -> None:
    """Publish now. Call after commit; a broker that is down only delays what people see. With ``run_id`` the head of
    that run is drawn anew as well: its gate was decided, and the run hears of it a moment later."""
    messages = [{"t": "queue", "project": str(project_id)}]
    if run_id is not None:
        messages.append({"t": "row", "run": str(run_id), "project": str(project_id)})
    try:
        for message in messages:
            _broker().publish(CHANNEL, json.dumps(message))
    except (redis.RedisError, OSError) as error:  # the database already holds the truth
        log.warning("queue of project %s changed, nobody was told: %s", project_id, error)


def publish_queue_on_commit(project_id: str, run_id: Any = None) -> None:
    transaction.on_commit(lambda: publish_queue(project_id, run_id), robust=True)


@functools.cache
def _broker() -> Any:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1)
