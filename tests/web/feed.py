"""What the journal tells open pages after each commit, for tests that write rows themselves."""

from __future__ import annotations

import json

import redis
from django.conf import settings

from loops.models import Run


def publish(run: Run) -> None:
    """Something happened in the run: pages read it. Facts and their rows are written in one transaction before it."""
    run.refresh_from_db()
    pointer = {"t": "facts", "run": str(run.pk), "project": run.project_id, "seq": run.head_seq}
    with redis.Redis.from_url(settings.REDIS_URL) as broker:
        broker.publish("agentops:feed", json.dumps(pointer))
