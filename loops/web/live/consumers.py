"""Sockets of pages (SPEC R2). A socket only listens: all it accepts is a heartbeat; steering goes through forms.

``ws/runs/<id>/?after=<seq>`` sends everything after ``seq`` from the database, then what happens; frames carry
(after, seq] without gap and without double. ``ws/queue/?since=<epoch s>`` only hints that a list or a badge should ask
again; what happened between the drawing of the page and the socket's first word is hinted too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
import uuid
from collections import deque
from typing import Any
from urllib.parse import parse_qs

from autobahn.exception import Disconnected
from channels.generic.websocket import AsyncWebsocketConsumer

from loops.models import Run
from loops.web.access import Audience, roles_of_user
from loops.web.live import catch_up
from loops.web.live.hub import Frame, Watcher, hub
from loops.web.live.socket_auth import LOGGED_OUT, Ticket, guard
from loops.web.live.socket_quota import shares

MOST_BYTES = 65_536
PER_SECOND = 20
UNANSWERED = 300
"""Messages on the way without a heartbeat that counts them: a reader slower than this waits, and re-reads later."""
TOO_BIG, TOO_MUCH, TOO_MANY, FAILED, NOT_FOUND = 4009, 4008, 4029, 4011, 4404
"""Codes of our own (RFC 6455, 7.4.2): of 1000 to 2999 an application may send none but 1000, and daphne refuses to."""
ALL_TAKEN = "This page is not live: you have too many pages open. Close some; this one goes live by itself then."
GONE = (Disconnected, OSError)
"""What daphne, and other servers as ASGI has it, raise where something is sent to who hung up."""
log = logging.getLogger(__name__)


class Listener(AsyncWebsocketConsumer):
    """What both sockets share: the pass, the heartbeat, and room for slow readers."""

    watcher: Watcher | None = None
    issued: Ticket | None = None

    async def connect(self) -> None:
        """Accept first, so that a refusal reaches the page as a code it can act on."""
        self._heard: deque[float] = deque(maxlen=PER_SECOND)
        self._sent = self._got = 0
        self._room = asyncio.Event()
        self._room.set()
        self._pump: asyncio.Task[None] | None = None
        await self.accept()
        user = self.scope.get("user")
        if user is None or not user.is_authenticated or not user.is_active:
            await self.close(LOGGED_OUT)
            return
        if not await shares().take(self, user):
            await self.send(text_data=json.dumps({"t": "refused", "text": ALL_TAKEN}))
            await self.close(TOO_MANY)
            return
        await self.begin(user)

    async def begin(self, user: Any) -> None:
        """Check access, start watching."""
        raise NotImplementedError

    async def pump(self) -> None:
        """Send what comes, for as long as the socket is open."""
        raise NotImplementedError

    def start(self, issued: Ticket) -> None:
        self.issued = issued
        guard().admit(self, issued)
        self._pump = asyncio.create_task(self._keep_pumping())

    async def _keep_pumping(self) -> None:
        """A socket that cannot go on is closed, and the page dials again: nobody looks at a silent one."""
        try:
            await self.pump()
        except Exception:
            log.exception("a socket could not be served")
            await self.close(FAILED)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """A heartbeat says how many frames arrived; whatever else is ignored, too much of it ends the socket."""
        now = time.monotonic()
        if len(text_data or bytes_data or "") > MOST_BYTES:
            await self.close(TOO_BIG)
            return
        if len(self._heard) == PER_SECOND and now - self._heard[0] < 1:
            await self.close(TOO_MUCH)
            return
        self._heard.append(now)
        with contextlib.suppress(ValueError, TypeError, AttributeError):
            message = json.loads(text_data or "")
            if message.get("t") == "ping":
                self._got = min(max(self._got, int(message.get("got", 0))), self._sent)
                if self._sent - self._got < UNANSWERED:
                    self._room.set()
                await self.send(text_data='{"t":"pong"}')

    async def send(self, text_data: str | None = None, bytes_data: bytes | None = None, close: Any = False) -> None:
        """Tell nothing to who hung up a moment ago: `disconnect` follows, and a page that was closed is no fault."""
        with contextlib.suppress(*GONE):
            await super().send(text_data, bytes_data, close)

    async def deliver(self, *messages: str) -> None:
        """Send messages in order, waiting while too many are on the way."""
        for text in messages:
            await self._room.wait()
            self._sent += 1
            if self._sent - self._got >= UNANSWERED:
                self._room.clear()
            await self.send(text_data=text)

    async def turn_out(self, code: int) -> None:
        """The guard's order."""
        await self.close(code)

    async def disconnect(self, code: int) -> None:
        """Leave no trace in hub and guard."""
        guard().dismiss(self)
        if self.watcher is not None:
            hub().leave(self.watcher, getattr(self, "run_id", None))
        if self._pump is not None:
            self._pump.cancel()
        await shares().give_back(self)

    async def make_pass(self, user: Any, **more: Any) -> Ticket:
        session = self.scope["session"]
        return Ticket(user.pk, session.session_key or "", user.get_session_auth_hash(), **more)


class RunConsumer(Listener):
    """The trace of one run."""

    async def begin(self, user: Any) -> None:
        """Watch first, then send what lies before: nothing falls between."""
        self.run_id: uuid.UUID = self.scope["url_route"]["kwargs"]["run_id"]
        found = await catch_up.in_thread(lambda: _visible(user, self.run_id))
        if found is None:
            await self.close(NOT_FOUND)
            return
        project_id, audience, everything = found
        self.audience = audience
        self.at = _number(self.scope, "after")
        projects = None if everything else frozenset({project_id})
        self.watcher = await hub().watch_run(self.run_id, audience, lambda: catch_up.head(self.run_id), projects)
        self.watcher.missed = True
        self.watcher.wake()
        self.start(await self.make_pass(user, project_id=project_id, audience=audience, projects=projects))

    async def pump(self) -> None:
        """Frames of the hub in order; whatever does not follow is read from the database instead."""
        assert self.watcher is not None
        while True:
            if self.watcher.missed:
                self.watcher.missed = False
                await self._catch_up()
            frame = await self.watcher.next()
            if frame is None:
                continue
            if frame.seq == 0:
                await self.deliver(*frame.messages)
            elif frame.seq > self.at:
                await self._follow(frame)

    async def _follow(self, frame: Frame) -> None:
        if frame.after > self.at:
            await self._catch_up()
        elif frame.seq > self.at:
            await self.deliver(*frame.messages)
            self.at = frame.seq

    async def _catch_up(self) -> None:
        found = await hub().missed(self.run_id, self.at, self.audience)
        if found is None:
            return
        if found.news and found.seq > self.at:
            await self.deliver(*found.frames[self.audience])
            self.at = found.seq
        elif not found.news and self.audience in found.frames:
            await self.deliver(*found.frames[self.audience])


class QueueConsumer(Listener):
    """Hints for lists and badges of every project one may see."""

    async def begin(self, user: Any) -> None:
        """Watch first, say hello, then hint at what the page cannot know."""
        roles = await catch_up.in_thread(lambda: roles_of_user(user))
        projects = None if roles.everything else frozenset(roles.by_project)
        self.watcher = await hub().watch_lists(projects)
        await self.deliver('{"t":"hello"}')
        if since := _number(self.scope, "since"):
            hub().tell_since(self.watcher, since)
        self.start(await self.make_pass(user, projects=projects))

    async def pump(self) -> None:
        """Hints as they come; a lost one is like another."""
        assert self.watcher is not None
        while True:
            frame = await self.watcher.next()
            if frame is not None:
                await self.deliver(*frame.messages)


def _visible(user: Any, run_id: uuid.UUID) -> tuple[str, Audience, bool] | None:
    """(project, audience, sees everything): the permission is the lookup."""
    run = Run.objects.visible_to(user).filter(pk=run_id).only("project_id").first()
    if run is None:
        return None
    roles = roles_of_user(user)
    return run.project_id, roles.audience(run.project_id), roles.everything


def _number(scope: Any, name: str) -> int:
    text = parse_qs(scope.get("query_string", b"").decode("latin-1")).get(name, ["0"])[0]
    return int(text) if text.isdigit() and len(text) < 16 else 0
