"""How often one person may ask. When the cache is down everybody may: losing it must lose nothing.

Rates are by the second, because REST framework keeps the time of every request of the period in one cache entry.
"""

from __future__ import annotations

import logging
from typing import Any

from rest_framework.throttling import UserRateThrottle

log = logging.getLogger(__name__)


class FailsOpen(UserRateThrottle):
    """A rate limit that a broken cache does not turn into an outage."""

    def allow_request(self, request: Any, view: Any) -> bool:
        """Ask the cache; without an answer the request passes."""
        try:
            return bool(super().allow_request(request, view))
        except Exception as error:  # any cache backend's own error
            log.warning("rate limit not checked: %s", error)
            return True


class ReadThrottle(FailsOpen):
    """Any request."""

    scope = "api"
    rate = "200/s"


class WriteThrottle(FailsOpen):
    """Requests that change something."""

    scope = "api-writes"
    rate = "100/s"

    def allow_request(self, request: Any, view: Any) -> bool:
        """Count only what is not a read."""
        return request.method in ("GET", "HEAD", "OPTIONS") or super().allow_request(request, view)
