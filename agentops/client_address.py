"""Where a request comes from, at whatever door it is asked."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest

LONGEST = 100
"""Whatever a proxy passes on: an address has 45 characters at the most."""


def of_request(request: HttpRequest) -> str:
    """The address behind a request of Django's."""
    return of_connection(str(request.META.get("REMOTE_ADDR", "")), request.META.get("HTTP_X_FORWARDED_FOR", ""))


def of_connection(peer: str, forwarded_for: str) -> str:
    """The connection's own, or what the last of so many own proxies saw (``TRUSTED_PROXIES``).

    Whoever sends a request writes ``X-Forwarded-For`` as they like; only what own proxies added at its end is believed.
    """
    seen = [part.strip() for part in forwarded_for.split(",") if part.strip()]
    trusted: int = settings.TRUSTED_PROXIES
    return (seen[-trusted] if 0 < trusted <= len(seen) else peer)[:LONGEST]
