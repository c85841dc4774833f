"""Which sandbox the workers have: told by them through the broker, read by pages (SPEC I7, X1)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

import redis
from django.conf import settings

from loops.engine.encoding.codec import to_plain
from loops.tools.sandbox.capability import CONFINED, FULL, SandboxLevel

KEY = "agentops:sandbox"
_PATIENCE_S = 0.3


@dataclass(frozen=True, slots=True)
class Weak:
    """For a page: ``title`` says what it means, ``why`` what was found, ``remedy`` what somebody can do."""

    title: str
    why: str
    remedy: str


def tell(level: SandboxLevel) -> None:
    """Say which one this worker has now."""
    _client().set(KEY, json.dumps(to_plain(level)))


def weak() -> Weak | None:
    """What to tell people who are about to run commands; None at full strength and while nobody has told."""
    try:
        told = json.loads(_client().get(KEY) or "null")  # type: ignore[arg-type]
    except (redis.RedisError, OSError, ValueError):
        return None
    if told is None or told["level"] >= FULL:
        return None
    title = "Every command asks a person." if told["level"] == CONFINED else "Commands are refused."
    return Weak(title, told["warning"], told.get("remedy", ""))


@cache
def _client() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=_PATIENCE_S, socket_connect_timeout=_PATIENCE_S)
