"""In front of Django: a request that is larger than its address takes is answered here, and nothing of it is parsed.

A body is read whole before Django hears of it, never more of it than its address takes, so that neither a chunked body
nor a slow one holds a thread. Behind daphne most of that was done before (`request_limits.daphne`); behind another
server this is all there is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from agentops.edge import refusals, request_limits

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
log = logging.getLogger(__name__)


class Gone(Exception):
    """Whoever asked hung up before the request was whole."""


class Edge:
    """Lets requests through whose size, kind and pace fit their address."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.in_hand = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, then hand request and body on together."""
        method, path = scope.get("method", "GET"), scope["path"]
        refusal = request_limits.refusal_of(method, path, scope.get("query_string", b""), scope["headers"])
        body = b""
        if refusal is None:
            try:
                body = await asyncio.wait_for(
                    _read(receive, request_limits.longest_body(method, path)), request_limits.PATIENCE_S
                )
            except OverflowError:
                refusal = request_limits.too_long(method, path)
            except TimeoutError:
                refusal = request_limits.TOO_SLOW
            except Gone:
                return
        weight = request_limits.weight(body)
        if refusal is None and len(body) > request_limits.SMALL and self.in_hand + weight > request_limits.IN_HAND:
            refusal = request_limits.BUSY
        if refusal is not None:
            del body
            await _refuse(refusal, scope, send)
            return
        self.in_hand += weight
        try:
            await self.application(scope, _again(body, receive), send)
        finally:
            self.in_hand -= weight


async def _read(receive: Receive, most: int) -> bytes:
    """The whole body, or OverflowError for one of more than ``most`` bytes."""
    pieces, length = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        piece = message.get("body", b"")
        length += len(piece)
        if length > most:
            raise OverflowError
        pieces.append(piece)
        if not message.get("more_body", False):
            return b"".join(pieces)


def _again(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives the body that was read, once, and then what comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> Message:
        return waiting.pop() if waiting else await receive()

    return given


async def _refuse(refusal: request_limits.Refusal, scope: Scope, send: Send) -> None:
    path = scope["path"]
    refusals.of_scope(scope, refusal.status, path)
    log.info("refused before it was read: %s %.200r", refusal.status, path)
    headers, body = refusal.answer(path)
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
