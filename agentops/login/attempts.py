"""Log-ins are counted and kept in the audit log, and too many failures wait (SPEC S4).

django-axes counts them in the database, for every door that takes a password. What it counts by, and how many, is here:
few for one name from one address, more for an address, and many for a name from anywhere, so that nobody is kept out by
strangers who only know the name. A link of ``login_link`` takes no password, and lets in meanwhile.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from axes.signals import user_locked_out
from django.conf import settings
from django.contrib.auth.signals import user_logged_in, user_login_failed
from django.core.cache import cache
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from agentops.edge.client_address import counted_of_request
from agentops.edge.client_address import of_request as address
from loops.masking import known
from loops.services import audit

MOST = {("username", "ip_address"): 5, ("ip_address",): 25, ("username",): 100}
"""Failures that are let pass, by what they have in common."""
LIMIT: int = settings.AXES_FAILURE_LIMIT
WAIT: timedelta = settings.AXES_COOLOFF_TIME


def name_of(request: HttpRequest, credentials: dict[str, Any] | None = None) -> str | None:
    """The name that is counted: what was typed, without known secrets."""
    given = (credentials or request.POST).get("username")
    return None if given is None else known().text(str(given))


def knows_addresses() -> bool:
    """Whether people have addresses of their own here: behind a proxy that is not named all have that of the proxy."""
    return not settings.HTTPS or settings.TRUSTED_PROXIES > 0


class Attempts(AxesDatabaseHandler):
    """Counts each kind of failure against a limit of its own."""

    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """Tell the kind that is nearest to its limit, as a share of ``LIMIT``."""
        counted = zip(self.get_user_attempts(request, credentials), MOST.items(), strict=True)
        found = (
            sum(attempts.values_list("failures_since_start", flat=True)) * LIMIT // most
            for attempts, (kind, most) in counted
            if "ip_address" not in kind or knows_addresses()
        )
        return max(found)

    def user_login_failed(self, sender: Any, credentials: dict[str, Any], request: Any = None, **more: Any) -> None:
        """Count it under what may be kept of it: secrets are pasted into the wrong field."""
        for name in ("axes_user_agent", "axes_path_info", "axes_http_accept"):
            if request is not None and isinstance(said := getattr(request, name, None), str):
                setattr(request, name, known().text(said))
        super().user_login_failed(sender, credentials, request, **more)

    def user_logged_in(self, sender: Any, request: HttpRequest, user: Any, **more: Any) -> None:
        """Forget the failures of this name from this address alone: an own account clears no others."""
        super().user_logged_in(sender, request, user, **more)
        self.reset_attempts(ip_address=counted_of_request(request), username=user.get_username())


def refuse(request: HttpRequest, *_: Any) -> HttpResponse:
    """Answer a log-in that has to wait, whatever its password was."""
    minutes = int(WAIT.total_seconds() // 60)
    answer = render(request, "registration/login.html", {"wait_minutes": minutes}, status=429)
    answer.headers["Retry-After"] = str(int(WAIT.total_seconds()))
    return answer


@receiver(user_logged_in)
def _came_in(request: HttpRequest | None, user: Any, **_: Any) -> None:
    audit.record("login.succeeded", actor=user, detail=_whence(request))


@receiver(user_login_failed)
def _failed(credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    if not getattr(request, "axes_locked_out", False):
        audit.record("login.failed", actor=None, detail={"name": str(credentials.get("username")), **_whence(request)})


@receiver(user_locked_out)
def _waits(request: HttpRequest, username: str, ip_address: str, **_: Any) -> None:
    """Once for each wait, not for each try in it: whoever tries on fills no table."""
    who = hashlib.sha256(f"{username}\n{ip_address}".encode()).hexdigest()
    if cache.add(f"login-locked:{who}", 1, WAIT.total_seconds()):
        detail = {"name": username, "minutes": WAIT.total_seconds() / 60, **_whence(request)}
        audit.record("login.locked", actor=None, detail=detail)


def _whence(request: HttpRequest | None) -> dict[str, str]:
    return {"address": address(request), "door": request.path} if request is not None else {}
