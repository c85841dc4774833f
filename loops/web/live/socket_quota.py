"""How many sockets one person may have open, over all web processes (ADR 0045).

Each open socket stands in the person's sorted set in Valkey, with the server's time at which it lapses. Its process
renews it, so what a dead one held is free again after ``LASTS_S``. While Valkey is away each process counts its own
alone: nobody is kept from the stored trace.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Awaitable
from typing import Any
from weakref import WeakKeyDictionary

import redis.asyncio
from django.conf import settings
from redis.exceptions import RedisError

from loops.services import audit
from loops.web.live.catch_up import in_thread

log = logging.getLogger(__name__)
LASTS_S = 30
RENEWED_EVERY_S = 10.0
KEY = "agentops:sockets:{}"
TOLD = "agentops:sockets:told:{}"
TOLD_AGAIN_AFTER_S = 60
"""A page dials again by itself: one audit event in a minute says it."""

_TAKE = """
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return redis.call('SET', KEYS[2], '1', 'NX', 'EX', ARGV[4]) and 'tell' or 'no'
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('EXPIRE', KEYS[1], tonumber(ARGV[3]) * 2)
return 'yes'
"""
_RENEW = """
local time = redis.call('TIME')
local until_ = tonumber(time[1]) + tonumber(time[2]) / 1000000 + tonumber(ARGV[1])
for place = 2, #ARGV do redis.call('ZADD', KEYS[1], until_, ARGV[place]) end
redis.call('EXPIRE', KEYS[1], tonumber(ARGV[1]) * 2)
"""


class Shares:
    """The sockets of this process, each with its share. Belongs to one event loop."""

    def __init__(self) -> None:
        self._held: WeakKeyDictionary[Any, tuple[Any, str]] = WeakKeyDictionary()
        """Socket -> (id of the person, member, or "" while it is asked for: renewing that would take it by another
        door). A socket that is gone without a word renews nothing."""
        self._renewing: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()
        """A renewal that is on its way would bring back a share that is given back meanwhile."""

    async def take(self, socket: Any, user: Any) -> bool:
        """A share for ``socket``, or False where the person has as many as there may be."""
        most, member = settings.SOCKETS_PER_PERSON, uuid.uuid4().hex
        own = Counter(person for person, _ in self._held.values())[user.pk]
        self._held[socket] = (user.pk, "")  # before anything is awaited: others of this process see it
        keys = (KEY.format(user.pk), TOLD.format(user.pk))
        try:
            said = await self._ask(_TAKE, keys, (member, most, LASTS_S, TOLD_AGAIN_AFTER_S))
        except (RedisError, OSError) as error:
            log.warning("sockets are counted by each process alone: %s", error)
            said = b"yes" if own < most else b"tell"
        if said == b"yes":
            self._held[socket] = (user.pk, member)
            self._renew_soon()
            return True
        self._held.pop(socket, None)
        if said == b"tell":
            await in_thread(lambda: audit.record("socket.too_many", actor=user, detail={"most": most}))
        return False

    async def give_back(self, socket: Any) -> None:
        """At the end of a socket; what cannot be given back now lapses."""
        person, member = self._held.pop(socket, (None, ""))
        if member:
            try:
                async with self._one_at_a_time, _client() as client:
                    await client.zrem(KEY.format(person), member)
            except (RedisError, OSError) as error:
                log.warning("a socket's share lapses later: %s", error)

    def _renew_soon(self) -> None:
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._keep_renewing())

    async def _keep_renewing(self) -> None:
        while True:
            await asyncio.sleep(RENEWED_EVERY_S)
            async with self._one_at_a_time:
                members: dict[Any, list[str]] = {}
                for person, member in filter(all, list(self._held.values())):
                    members.setdefault(person, []).append(member)
                if not members:
                    return
                try:
                    for person, mine in members.items():
                        await self._ask(_RENEW, (KEY.format(person),), (LASTS_S, *mine))
                except (RedisError, OSError) as error:
                    log.warning("shares of sockets could not be renewed: %s", error)

    async def _ask(self, script: str, keys: tuple[str, ...], given: tuple[Any, ...]) -> Any:
        async with _client() as client:
            answer: Awaitable[Any] = client.eval(script, len(keys), *keys, *given)  # type: ignore[assignment]
            return await answer


def _client() -> redis.asyncio.Redis:
    return redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)


_shares: WeakKeyDictionary[asyncio.AbstractEventLoop, Shares] = WeakKeyDictionary()


def shares() -> Shares:
    """Those of the running event loop."""
    return _shares.setdefault(asyncio.get_running_loop(), Shares())
