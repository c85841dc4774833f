"""What one request may bring along, by its address: asked by the web server and at the ASGI edge, before any parsing.

Whoever sends it is not known yet, so these bounds are for strangers: what a request costs has to be bounded by what it
is for, not by who claims to send it. Nothing is uploaded anywhere, so multipart bodies are for nobody.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus

from django.template.loader import render_to_string

Headers = Iterable[tuple[bytes, bytes]]
KB, MB = 1024, 1024 * 1024
UNDER_API = "/api/"
"""Where programs ask: what is refused there is JSON."""

BY_ADDRESS = (
    ("/login/", 16 * KB),
    ("/logout/", 16 * KB),
    ("/healthz", 0),
    ("/readyz", 0),
    (UNDER_API, 1 * MB),  # what its parser reads
)
"""The longest body of a request that changes something. The first that fits counts."""
FORM = 5 * MB // 2
"""Of every page: what Django reads of a form. The longest goal, percent-encoded in a wide script, has 1.8 MB."""
READING = 16 * KB
"""Of a request that changes nothing."""
HEADERS = 32 * KB
QUERY = 8 * KB
IN_HAND = 8 * MB
"""Of all bodies above `SMALL` that one process works on at once, by `weight`; the next is asked to come back."""
ESCAPE = 6
"""What a byte that is written as %XX weighs besides its three: a form is taken apart at each, in two hundred bytes."""
SMALL = 16 * KB
PATIENCE_S = 60.0
"""From the first byte of a request to its last."""
FRAME = 64 * KB
"""Of a websocket: all that pages send is a heartbeat."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not read: an HTTP status, and a sentence that says what to do."""

    status: int
    detail: str

    @property
    def title(self) -> str:
        return HTTPStatus(self.status).phrase

    def answer(self, path: str) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """Headers and body: problem details for programs, a page for people."""
        as_problem = path.startswith(UNDER_API)
        body = _problem(self, path) if as_problem else _page(self)
        media_type = "application/problem+json" if as_problem else "text/html; charset=utf-8"
        more = {"Retry-After": "1"} if self.status == HTTPStatus.SERVICE_UNAVAILABLE else {}
        headers = {"Content-Type": media_type, "Content-Length": str(len(body)), **_ALWAYS, **more}
        return [(name.encode(), value.encode()) for name, value in headers.items()], body


CODES = {
    400: "bad_request",
    403: "permission_denied",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    429: "throttled",
    500: "error",
}
"""As the API's own views say them; everything else is `refused`."""
TOO_SLOW = Refusal(408, "The request took too long to arrive. Nothing was changed; send it again.")
BUSY = Refusal(503, "Too much is being sent at once. Nothing was changed; send it again in a moment.")
_ALWAYS = {
    "Connection": "close",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; "
    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
}


def longest_body(method: str, path: str) -> int:
    """Bytes that a request to ``path`` may have as its body."""
    bound = next((most for start, most in BY_ADDRESS if path.startswith(start)), FORM)
    return bound if method in ("POST", "PUT", "PATCH", "DELETE") else min(bound, READING)


def weight(body: bytes) -> int:
    """What a body takes of `IN_HAND`. A form of nothing but escapes holds seventy times its length while it is read."""
    return len(body) + ESCAPE * body.count(b"%")


def too_long(method: str, path: str) -> Refusal:
    """Refuse a body above what its address takes."""
    most = longest_body(method, path)
    return Refusal(413, f"The body is larger than the {most:,} bytes that this address takes. Nothing was changed.")


def refusal_of(method: str, path: str, query: bytes, headers: Headers) -> Refusal | None:
    """Judge a request by what it says of itself, before its body is read; None lets it in."""
    held = list(headers)
    if sum(len(name) + len(value) for name, value in held) > HEADERS:
        return Refusal(431, f"The headers are larger than {HEADERS:,} bytes. Clearing this site's cookies may help.")
    if len(query) > QUERY:
        return Refusal(414, f"The query in the address is longer than {QUERY:,} bytes. Shorten it.")
    said = {name.lower(): value for name, value in held}
    if said.get(b"content-type", b"").lstrip().lower().startswith(b"multipart/"):
        return Refusal(415, "Uploads (multipart) are not accepted: send forms URL-encoded, and JSON to the API.")
    length = said.get(b"content-length", b"0")
    if not length.isdigit() or len(length) > 15 or int(length) > longest_body(method, path):
        return too_long(method, path)
    return None


def _problem(refusal: Refusal, path: str) -> bytes:
    code = CODES.get(refusal.status, "refused")
    said = {"type": "about:blank", "title": refusal.title, "status": refusal.status, "detail": refusal.detail}
    return json.dumps({**said, "instance": path, "code": code}).encode()


@cache
def _page(refusal: Refusal) -> bytes:
    return render_to_string("refused.html", {"refusal": refusal}).encode()
