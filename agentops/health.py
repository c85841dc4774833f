"""Is the process alive, and is the whole stack ready to work?

Both are answered whatever name the request is for: load balancers probe a machine by its IP address, which is none of
ALLOWED_HOSTS. So they are answered before anything that asks for the host, and use nothing of the request but its path.
"""

import time
from collections.abc import Callable

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache

BEAT_KEY = "agentops:beat"  # seconds since 1970, written by the worker on every ring of the clock
OLDEST_BEAT = 60.0

_migrated = False  # a schema that was current stays so for the life of this process


class Probes:
    """Middleware that answers the two health addresses; it stands in front of what checks the Host header."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer a probe here; everything else goes on, and has its host checked."""
        probe = PROBES.get(request.path_info)
        return probe(request) if probe else self.get_response(request)


@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """Answer for this process only: neither database nor broker is asked."""
    return JsonResponse({"status": "ok"})


@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """Answer for everything a run needs; 503 names what is missing."""
    checks = {name: _outcome(check) for name, check in CHECKS.items()}
    ready = all(outcome == "ok" for outcome in checks.values())
    answer = {"status": "ok" if ready else "unavailable", "checks": checks}
    response = JsonResponse(answer, status=200 if ready else 503)
    response._has_been_logged = True  # type: ignore[attr-defined]  # an expected 503 is no error of ours
    return response


PROBES: dict[str, Callable[[HttpRequest], HttpResponse]] = {"/healthz": healthz, "/readyz": readyz}


def _outcome(check: Callable[[], str]) -> str:
    try:
        return check()
    except (DatabaseError, redis.RedisError, OSError) as error:
        return type(error).__name__  # details stay in the log of the service


def _database() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return "ok"


def _migrations() -> str:
    global _migrated
    if not _migrated:
        executor = MigrationExecutor(connection)
        _migrated = not executor.migration_plan(executor.loader.graph.leaf_nodes())
    return "ok" if _migrated else "pending"


def _broker() -> str:
    with _redis() as client:
        client.ping()
    return "ok"


def _beat() -> str:
    with _redis() as client:
        rang_at = client.get(BEAT_KEY)
    if rang_at is None:
        return "not heard yet"
    age = time.time() - float(rang_at)
    return "ok" if age <= OLDEST_BEAT else f"silent for {age:.0f} s"


def _redis() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)


CHECKS: dict[str, Callable[[], str]] = {
    "database": _database,
    "migrations": _migrations,
    "broker": _broker,
    "beat": _beat,
}
