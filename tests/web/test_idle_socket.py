"""A socket on which nothing happens stays open: redis-py 8 drops a quiet line after five seconds unless told not to."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from websockets.sync.client import connect

from loops.engine import facts as f
from loops.runs.composition import publisher
from tests import factories as make

IDLE_S = 31
PATIENCE = 180


@pytest.mark.spec("R2")
def test_sockets_that_idle_for_half_a_minute_still_tell_what_happens(live_site: str) -> None:
    project = make.project()
    user, run = make.user(operator=project), make.run(project)
    client = Client()
    client.force_login(user)
    cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    options: dict[str, Any] = {
        "additional_headers": {"Cookie": cookie, "Origin": live_site},
        "ping_interval": None,
        "open_timeout": PATIENCE,
    }
    address = live_site.replace("http://", "ws://")
    with (
        connect(f"{address}/ws/runs/{run.pk}/?after=0", **options) as trace,
        connect(f"{address}/ws/queue/", **options) as queue,
    ):
        assert json.loads(queue.recv(PATIENCE)) == {"t": "hello"}
        trace.send('{"t":"ping"}')
        assert json.loads(trace.recv(PATIENCE)) == {"t": "pong"}
        time.sleep(IDLE_S)
        fact = make.fact(run, f.MessageReceived(text="still there?", by="ana"), step=1)
        publisher().facts(run.pk, run.project_id, fact.seq)
        told = json.loads(trace.recv(PATIENCE))
        assert (told["t"], told["after"], told["seq"]) == ("cards", 0, fact.seq)
        assert json.loads(queue.recv(PATIENCE)) == {"t": "runs"}
