"""System: does the machine keep its promises? (UI page 10). What answers slowly is fetched after the page."""

from __future__ import annotations

import json
import platform
import shutil
import threading
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import redis
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.module_loading import import_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from loops.models import Run
from loops.web import access

BEAT, SANDBOX = "agentops:beat", "agentops:sandbox"
OLDEST_BEAT = 60.0
PACKAGES = ("django", "channels", "celery", "psycopg", "redis", "anthropic", "openai")


@login_required
@never_cache
@require_safe
def system(request: HttpRequest) -> HttpResponse:
    """Promises of the database, migrations, disk and versions."""
    _members_only(request)
    context = {
        "promises": import_string(settings.DATABASE_PROMISES)(),
        "pending": _pending(),
        "disk": _disk(),
        "versions": [("Python", platform.python_version()), *((name, _version(name)) for name in PACKAGES)],
        "counts": _counts(),
    }
    return render(request, "console/system.html", context)


@login_required
@never_cache
@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """Broker, clock, workers and sandbox: asked with short patience."""
    _members_only(request)
    client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1)
    with client:
        broker = _or_fault(lambda: _ping(client))
        beat = _or_fault(lambda: _beat(client))
        sandbox = _or_fault(lambda: json.loads(client.get(SANDBOX) or b"null"))  # type: ignore[arg-type]
    found = {"broker": broker, "beat": beat, "sandbox": sandbox, "workers": _roll.latest()}
    context = {**found, "oldest": OLDEST_BEAT}
    return render(request, "console/_system_live.html", context)


def _members_only(request: HttpRequest) -> None:
    roles = access.roles(request)
    if not (request.user.is_staff or roles.everything or roles.by_project):  # type: ignore[union-attr]
        raise PermissionDenied


def _or_fault(ask: Callable[[], Any]) -> dict[str, Any]:
    """The answer, or what kept it from coming: a page about faults must not fail itself."""
    try:
        return {"answer": ask(), "fault": ""}
    except Exception as error:  # any transport's or worker's error is the very thing to be shown
        return {"answer": None, "fault": type(error).__name__}


def _ping(client: Any) -> dict[str, Any]:
    began = time.perf_counter()
    client.ping()
    took = (time.perf_counter() - began) * 1000
    info = client.info("server")
    return {"ms": f"{took:.1f}", "version": info.get("valkey_version") or info.get("redis_version", "?")}


def _beat(client: Any) -> float | None:
    rang_at = client.get(BEAT)
    return None if rang_at is None else max(0.0, time.time() - float(rang_at))


class Roll:
    """Who answers when workers are called. Calling takes a second, so it is done beside the page, never in it."""

    FRESH = 8.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, Any] = {"answer": None, "fault": "", "asked": False}
        self._at = 0.0

    def latest(self) -> dict[str, Any]:
        """The last answer; a stale one is asked for again, for the next time."""
        if time.monotonic() - self._at > self.FRESH and self._lock.acquire(blocking=False):
            threading.Thread(target=self._call, name="roll", daemon=True).start()
        return self._found

    def _call(self) -> None:
        try:
            self._found = {**_or_fault(_workers), "asked": True}
            self._at = time.monotonic()
        finally:
            self._lock.release()


_roll = Roll()


def _workers() -> list[dict[str, Any]]:
    app = import_string(getattr(settings, "AGENTOPS_CELERY", "agentops.celery.app"))  # pages may not import it
    stats = app.control.inspect(timeout=1.0).stats() or {}
    return [
        {"name": name, "slots": (found.get("pool") or {}).get("max-concurrency"), "uptime": found.get("uptime")}
        for name, found in sorted(stats.items())
    ]


def _pending() -> list[str]:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]


def _disk() -> dict[str, Any]:
    usage = shutil.disk_usage(settings.PATHS.state if settings.PATHS.state.exists() else "/")
    return {"free": usage.free, "total": usage.total, "share": usage.used / usage.total, "used": usage.used}


def _counts() -> dict[str, int]:
    live = Run.objects.live()
    return {"live": live.count(), "runnable": live.filter(runnable=True, owner="").count()}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
