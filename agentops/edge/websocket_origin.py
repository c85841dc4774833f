"""Who may open a websocket: pages of this very site, compared by scheme, host and port.

Channels' own validator accepts any scheme and port of an allowed host, so a page on another port of the same machine
could use a visitor's session.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import split_domain_port, validate_host

from agentops.edge import refusals

Application = Callable[[dict[str, Any], Any, Any], Awaitable[None]]
PAGE_SCHEME = {"ws": "http", "wss": "https"}


class SameOrigin:
    """Denies a handshake without an Origin, or with one that is neither our own address nor a trusted one."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Let the handshake through or refuse it."""
        allowed = is_same_origin(dict(scope["headers"]), scope.get("scheme", "ws"))
        if not allowed:
            refusals.of_scope(scope, 403, scope.get("path", ""))
        await (self.application if allowed else WebsocketDenier())(scope, receive, send)


def is_same_origin(headers: dict[bytes, bytes], scheme: str) -> bool:
    """Compare the Origin of a handshake with the address it was sent to."""
    origin = headers.get(b"origin", b"").decode("latin-1").lower()
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if not origin or not validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS):
        return False
    return origin == f"{PAGE_SCHEME.get(scheme, scheme)}://{host}" or origin in settings.CSRF_TRUSTED_ORIGINS
