"""System: does the machine keep its promises? (UI page 10). What answers slowly is fetched after the page."""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.module_loading import import_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from loops.models import Run
from loops.web import access, loop_detection

PACKAGES = ("django", "channels", "celery", "psycopg", "redis", "anthropic", "openai")
LOOKS = {"ok": ("good", "circle-check"), "warning": ("wait", "triangle-alert"), "error": ("bad", "circle-x")}
DEAD_LETTERS = 20


@login_required
@never_cache
@require_safe
def system(request: HttpRequest) -> HttpResponse:
    """What `manage.py doctor` checks, disk among it, the runs that were given up, work and versions."""
    members_only(request)
    checks = _shown(_checks("standing"))
    dead = Run.objects.visible_to(request.user).dead_lettered()
    given_up = list(dead.with_names().order_by("-id")[: DEAD_LETTERS + 1])
    roles = access.roles(request)
    context = {
        "database": [check for check in checks if check["group"] == "database"],
        "installation": [check for check in checks if check["group"] != "database"],
        "given_up": [(run, roles.audience(run.project_id).operate) for run in given_up[:DEAD_LETTERS]],
        "more_given_up": dead.count() - DEAD_LETTERS if len(given_up) > DEAD_LETTERS else 0,
        "versions": [("Python", platform.python_version()), *((name, _version(name)) for name in PACKAGES)],
        "counts": _counts(),
    }
    return render(request, "loops/system.html", context)


@login_required
@never_cache
@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """Broker, clock, workers and sandbox: asked with short patience."""
    members_only(request)
    detections, more = _or_fault(lambda: loop_detection.standing(Run.objects.visible_to(request.user)))["answer"] or (
        [],
        0,
    )
    context = {"checks": _shown(_checks("moving")), "workers": _roll.latest(), "detections": detections, "more": more}
    return render(request, "loops/_system_live.html", context)


def _checks(name: str) -> Any:
    """One answer of the module that `doctor` asks too; pages may not import it."""
    return import_string(f"{settings.SYSTEM_CHECKS}.{name}")()


def _shown(checks: Any) -> list[dict[str, str]]:
    """With look and icon; the details of an error stay in the terminal."""
    return [
        {"group": check.group, "name": check.name, "said": check.said, "todo": check.todo, "status": check.status}
        | dict(zip(("look", "icon"), LOOKS[check.status], strict=True))
        for check in checks
    ]


def members_only(request: HttpRequest) -> None:
    """The machine is shown to whoever works here."""
    roles = access.roles(request)
    if not (request.user.is_staff or roles.everything or roles.by_project):
        raise PermissionDenied


def _or_fault(ask: Callable[[], Any]) -> dict[str, Any]:
    """The answer, or what kept it from coming: a page about faults must not fail itself."""
    try:
        return {"answer": ask(), "fault": ""}
    except Exception as error:  # any transport's or worker's error is the very thing to be shown
        return {"answer": None, "fault": type(error).__name__}


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
            self._found = {**_or_fault(lambda: _checks("workers")), "asked": True}
            self._at = time.monotonic()
        finally:
            self._lock.release()


_roll = Roll()


def _counts() -> dict[str, int]:
    live = Run.objects.live()
    return {"live": live.count(), "runnable": live.filter(runnable=True, owner="").count()}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
