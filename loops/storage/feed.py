"""Tell watchers that something happened: pointers and live pieces over one Redis channel (benchmarks.md).

Publishing runs on a thread of its own, so that a slow or absent broker never delays a run. What is lost here costs a
watcher a re-read: the truth is in Postgres.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
import uuid
from typing import Any

import redis
from django.conf import settings

from loops.crash_points import CrashPoint, reach

log = logging.getLogger(__name__)
CHANNEL = "agentops:feed"
WAITING_AT_MOST = 10_000
GATHER_S = 0.005
"""Nobody sees five milliseconds; one send for many messages leaves the run's thread its turn."""


class Publisher:
    """Sends in the background; drops when nobody can keep up."""

    def __init__(self) -> None:
        self._queue: queue.Queue[dict[str, Any]] = queue.Queue(WAITING_AT_MOST)
        self._started = False
        self._lock = threading.Lock()

    def facts(self, run_id: uuid.UUID, project_id: str, seq: int) -> None:
        """Facts of the run up to ``seq`` are committed."""
        reach(CrashPoint.BEFORE_PUBLISH)
        self._put({"t": "facts", "run": str(run_id), "project": project_id, "seq": seq})

    def row(self, run_id: uuid.UUID, project_id: str) -> None:
        """The row of the run says something else, and there is no fact of it: what it waits for is nearer."""
        self._put({"t": "row", "run": str(run_id), "project": project_id})

    def queue(self, project_id: str) -> None:
        """The gates of a project changed."""
        self._put({"t": "queue", "project": project_id})

    def delta(self, run_id: str, **piece: Any) -> None:
        self._put({"t": "delta", "run": run_id, **piece})

    def _put(self, message: dict[str, Any]) -> None:
        if not self._started:
            self._start()
        try:
            self._queue.put_nowait(message)
        except queue.Full:
            log.warning("the live feed cannot keep up; watchers will re-read")

    def _start(self) -> None:
        with self._lock:
            if not self._started:
                threading.Thread(target=self._send, name="feed", daemon=True).start()
                self._started = True

    def _send(self) -> None:
        client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)
        while True:
            messages = [self._queue.get()]
            time.sleep(GATHER_S)
            while len(messages) < 200 and not self._queue.empty():
                messages.append(self._queue.get_nowait())
            try:
                pipe = client.pipeline(transaction=False)
                for message in latest(messages):
                    pipe.publish(CHANNEL, message)
                pipe.execute()
            except redis.RedisError as error:
                log.warning("live feed: %s", error)


def latest(messages: list[dict[str, Any]]) -> list[str]:
    """The messages to send, in order: of several pointers to one run only the last, the others say nothing more."""
    pointers = {message["run"]: number for number, message in enumerate(messages) if message["t"] == "facts"}
    return [
        json.dumps(message)
        for number, message in enumerate(messages)
        if message["t"] != "facts" or pointers[message["run"]] == number
    ]


class RunFeed:
    """Port Feed for one run."""

    def __init__(self, publisher: Publisher, run_id: str) -> None:
        self._publisher, self._run_id = publisher, run_id

    def delta(self, *, step: int, call: str, kind: str, offset: int, text: str) -> None:
        self._publisher.delta(self._run_id, step=step, call=call, kind=kind, offset=offset, text=text)
