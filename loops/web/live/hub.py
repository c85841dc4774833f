"""One hub a web process: one subscription to the feed, rows read once, the same bytes to all watchers (benchmarks.md).

Truth is in Postgres. A pointer that is lost costs a re-read, a watcher that is slow loses frames and re-reads by
itself, and neither ever delays another watcher.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import redis.asyncio
from django.conf import settings
from redis.exceptions import RedisError

from loops.web.access import Audience
from loops.web.live import catch_up, messages

log = logging.getLogger(__name__)
CHANNEL = "agentops:feed"
FRAMES_HELD = 64
"""For one watcher; a slower one is told to re-read."""
DELTA_PAUSE = 0.05
"""Seconds between two bundles of streamed pieces of a run: about 20 a second are enough for eyes."""
READ_PAUSE = 0.005
"""Seconds between two readings of a run: sockets write first, and what happened meanwhile goes into one frame."""
LIST_PAUSE = 0.5
"""Seconds between two hints that a list changed."""
DELTAS_HELD = 2_000
DRAWN_BEFORE = 2
"""Seconds: a page reads its rows this long before it says when it was drawn, other machines' clocks included."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What goes to the wire. A frame with ``seq`` holds everything after ``after`` up to ``seq``; others are hints."""

    messages: tuple[str, ...]
    after: int = 0
    seq: int = 0


@dataclass(eq=False, slots=True)
class Watcher:
    """One socket as the hub sees it: a short queue that never blocks the hub."""

    audience: Audience
    projects: frozenset[str] | None = None
    """Of a list; None sees every project."""
    missed: bool = False
    _frames: deque[Frame] = field(default_factory=deque)
    _some: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, frame: Frame) -> None:
        if len(self._frames) >= FRAMES_HELD:
            self._frames.clear()
            self.missed = True
        self._frames.append(frame)
        self._some.set()

    def wake(self) -> None:
        """Let ``next`` return, so that the socket looks at ``missed``."""
        self._some.set()

    async def next(self) -> Frame | None:
        """The next frame; None to look again."""
        await self._some.wait()
        if not self._frames:
            self._some.clear()
            return None
        frame = self._frames.popleft()
        if not self._frames:
            self._some.clear()
        return frame


class RunFeed:
    """What happens in one run, for all who watch it here."""

    def __init__(self, run_id: uuid.UUID, seq: int) -> None:
        self.run_id = run_id
        self.seq = seq
        self.watchers: set[Watcher] = set()
        self.missed = catch_up.Missed(run_id)
        self._wanted = seq
        self._row_changed = False
        self._reading: asyncio.Task[None] | None = None
        self._deltas: list[dict[str, Any]] = []
        self._flush: asyncio.TimerHandle | None = None

    def pointer(self, seq: int) -> None:
        """Facts up to ``seq`` are committed: read them, once, unless that is under way."""
        self._wanted = max(self._wanted, seq)
        self._read_soon()

    def row(self) -> None:
        """Its row changed without a fact: the head is read again."""
        self._row_changed = True
        self._read_soon()

    def _has_news(self) -> bool:
        return self._wanted > self.seq or self._row_changed

    def _read_soon(self) -> None:
        if self._has_news() and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while self.watchers and self._has_news():
            self._row_changed, wanted = False, self._wanted
            audiences = {watcher.audience for watcher in self.watchers}
            try:
                found = await catch_up.read(self.run_id, self.seq, audiences)
            except Exception:  # whatever it was, watchers must not be left with a silent page
                log.exception("run %s could not be rendered", self.run_id)
                self._tell_to_read_again()
                return
            if found is None:
                return
            self._hand_out(found)
            if not found.news and not self._row_changed and self._wanted == wanted:
                return  # a pointer to what is not there (yet): the next one will bring it
            await asyncio.sleep(READ_PAUSE)

    def _hand_out(self, found: catch_up.Changes) -> None:
        seq = found.seq if found.news else 0
        frames = {audience: Frame(texts, found.after, seq) for audience, texts in found.frames.items()}
        for watcher in self.watchers:
            if frame := frames.get(watcher.audience):
                watcher.put(frame)
            elif found.news:
                watcher.missed = True  # joined while this was read
                watcher.wake()
        self.seq = max(self.seq, found.seq)

    def _tell_to_read_again(self) -> None:
        self.seq = self._wanted
        for watcher in self.watchers:
            watcher.missed = True
            watcher.wake()

    def delta(self, piece: dict[str, Any]) -> None:
        """A streamed piece: neighbours are joined, bundles leave in small intervals."""
        last = self._deltas[-1] if self._deltas else None
        if last and (last["call"], last["kind"]) == (piece["call"], piece["kind"]) and _follows(last, piece):
            last["text"] += piece["text"]
        elif len(self._deltas) < DELTAS_HELD:
            self._deltas.append(piece)
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(DELTA_PAUSE, self._send_deltas)

    def _send_deltas(self) -> None:
        self._flush = None
        frame = Frame(messages.of_deltas(self._deltas))
        self._deltas = []
        for watcher in self.watchers:
            watcher.put(frame)

    def stop(self) -> None:
        if self._flush:
            self._flush.cancel()
        if self._reading:
            self._reading.cancel()


class Hub:
    """Fans the feed out inside this process. Belongs to one event loop."""

    def __init__(self) -> None:
        self._runs: dict[uuid.UUID, RunFeed] = {}
        self._lists: set[Watcher] = set()
        self._pending: dict[tuple[str, str], None] = {}
        self._hinted: dict[tuple[str, str], float] = {}
        """(what, project) -> epoch seconds of the last change; project "" stands for whatever was not heard."""
        self._flush: asyncio.TimerHandle | None = None
        self._listening: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()

    async def watch_run(
        self, run_id: uuid.UUID, audience: Audience, head: Callable[[], Any], projects: frozenset[str] | None = None
    ) -> Watcher:
        """Begin to collect frames of a run, and hints at the queue of its project: a gate that is shown there may be
        decided elsewhere. ``head`` reads its present end; the caller then sends what lies before."""
        await self._listen()
        feed = self._runs.get(run_id)
        if feed is None:
            seq = await head()
            feed = self._runs.setdefault(run_id, RunFeed(run_id, seq))
        watcher = Watcher(audience, projects)
        feed.watchers.add(watcher)
        return watcher

    async def missed(self, run_id: uuid.UUID, after: int, audience: Audience) -> catch_up.Changes | None:
        """Everything after fact ``after`` of a run that is watched; None when the run is gone."""
        return await self._runs[run_id].missed.since(after, audience)

    async def watch_lists(self, projects: frozenset[str] | None) -> Watcher:
        await self._listen()
        watcher = Watcher(Audience(), projects)
        self._lists.add(watcher)
        return watcher

    def tell_since(self, watcher: Watcher, since: float) -> None:
        """Hint at what changed since a page was drawn (epoch seconds): it happened before its socket was here."""
        drawn = since - DRAWN_BEFORE
        for what in ("queue", "runs"):
            if any(
                kind == what and at >= drawn and _concerns(watcher, project)
                for (kind, project), at in self._hinted.items()
            ):
                watcher.put(_hint_of(what))

    def leave(self, watcher: Watcher, run_id: uuid.UUID | None = None) -> None:
        self._lists.discard(watcher)
        feed = self._runs.get(run_id) if run_id else None
        if feed is None or run_id is None:
            return
        feed.watchers.discard(watcher)
        if not feed.watchers:
            feed.stop()
            del self._runs[run_id]

    async def close(self) -> None:
        """Let go of the broker (the end of a test)."""
        for feed in self._runs.values():
            feed.stop()
        if self._flush:
            self._flush.cancel()
        if self._listening:
            self._listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listening

    async def _listen(self) -> None:
        """Subscribe lazily. A broker that is away does not keep people from the stored trace."""
        if self._listening is None or self._listening.done():
            self._ready.clear()
            _settle()
            self._listening = asyncio.create_task(self._keep_listening())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ready.wait(), 2)

    async def _keep_listening(self) -> None:
        away = False
        while True:
            client = redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_timeout=None)
            try:
                async with client, client.pubsub() as pubsub:
                    await pubsub.subscribe(CHANNEL)
                    self._catch_up()
                    self._ready.set()
                    away = False
                    async for message in pubsub.listen():
                        if message["type"] == "message":
                            self._received(message["data"])
            except (RedisError, OSError) as error:
                if not away:
                    log.warning("the live feed is away, pages show what is stored: %s", error)
                away = True
                await asyncio.sleep(1)

    def _catch_up(self) -> None:
        """Pointers may have been lost while we were not listening: everybody looks at the database once."""
        for feed in self._runs.values():
            for watcher in feed.watchers:
                watcher.missed = True
                watcher.wake()
        self._hint("runs", "")
        self._hint("queue", "")

    def _received(self, data: bytes) -> None:
        try:
            message = json.loads(data)
            self._dispatch(message)
        except (ValueError, KeyError, TypeError) as error:
            log.warning("a message on the feed could not be read: %s", error)

    def _dispatch(self, message: dict[str, Any]) -> None:
        kind = message["t"]
        if kind == "queue":
            self._hint("queue", message["project"])
            return
        feed = self._runs.get(uuid.UUID(message["run"])) if self._runs else None
        if kind == "facts":
            self._hint("runs", message["project"])
            if feed:
                feed.pointer(message["seq"])
        elif kind == "row":
            self._hint("runs", message["project"])
            if feed:
                feed.row()
        elif kind == "delta" and feed:
            feed.delta({name: message[name] for name in ("step", "call", "kind", "offset", "text")})

    def _hint(self, what: str, project: str) -> None:
        """Lists are told that something changed, not what; a few times a second at most."""
        self._hinted[what, project] = time.time()
        if not self._lists and not self._runs:
            return
        self._pending[what, project] = None
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(LIST_PAUSE, self._send_hints)

    def _send_hints(self) -> None:
        self._flush = None
        pending, self._pending = list(self._pending), {}
        of_runs = [watcher for feed in self._runs.values() for watcher in feed.watchers]
        for what, watchers in (("queue", [*self._lists, *of_runs]), ("runs", [*self._lists])):
            projects = [project for kind, project in pending if kind == what]
            for watcher in watchers:
                if any(_concerns(watcher, project) for project in projects):
                    watcher.put(_hint_of(what))


def _hint_of(what: str) -> Frame:
    return Frame((json.dumps({"t": what}),))


@cache
def _settle() -> None:
    """What is loaded when the first watcher comes stays loaded. The collector need not walk it again: each time it did,
    every watcher would wait for some 25 ms."""
    gc.collect()
    gc.freeze()


def _follows(last: dict[str, Any], piece: dict[str, Any]) -> bool:
    return bool(last["offset"] + len(last["text"]) == piece["offset"])


def _concerns(watcher: Watcher, project: str) -> bool:
    return watcher.projects is None or not project or project in watcher.projects


_hubs: dict[int, tuple[asyncio.AbstractEventLoop, Hub]] = {}


def hub() -> Hub:
    """The hub of the running event loop: a web process has one."""
    loop = asyncio.get_running_loop()
    for key, (other, _) in list(_hubs.items()):
        if other.is_closed():
            del _hubs[key]
    if id(loop) not in _hubs:
        _hubs[id(loop)] = (loop, Hub())
    return _hubs[id(loop)][1]
