"""How daphne takes a request in: Twisted collects the whole body, and parses it, before ASGI hears of it at all.

Its parser of multipart bodies takes twelve times their size in memory, and nothing bounds a body or its pace. So the
rules of `request_limits` are applied while a request comes in, bodies wait on disk, and Twisted parses none.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

from daphne.http_protocol import HTTPFactory, WebRequest
from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from agentops.edge import refusals, request_limits
from agentops.edge.client_address import of_connection

LINGER_S = 2.0
"""How long a refused client may go on sending: who is cut off at once often never reads why."""


class BoundedRequest(WebRequest):  # type: ignore[misc]
    """A request that is refused as soon as it is known to be too much."""

    refused = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, parsePOSTFormSubmission=False, **kwargs)
        self._deadline = reactor.callLater(request_limits.PATIENCE_S, self._refuse, request_limits.TOO_SLOW)  # type: ignore[attr-defined]
        self._length = 0

    def gotLength(self, length: int | None) -> None:
        """All headers are here: judge the request by them. A long body waits on disk."""
        self.content = tempfile.SpooledTemporaryFile(max_size=request_limits.SMALL)  # noqa: SIM115 - Twisted closes it
        headers = [(name, value) for name, values in self.requestHeaders.getAllRawHeaders() for value in values]
        query = bytes(self.channel._path).partition(b"?")[2]
        if refusal := request_limits.refusal_of(self._method, self._path, query, headers):
            self._refuse(refusal)

    def handleContentChunk(self, data: bytes) -> None:
        """Keep a piece of the body, chunked or not; drop what comes after a refusal."""
        self._length += len(data)
        if not self.refused and self._length > request_limits.longest_body(self._method, self._path):
            self._refuse(request_limits.too_long(self._method, self._path))
        if not self.refused:
            self.content.write(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """The request is whole."""
        self._end_deadline()
        if self.refused:
            self.channel.loseConnection()
        else:
            super().requestReceived(command, path, version)

    def connectionLost(self, reason: Any) -> None:
        self._end_deadline()
        super().connectionLost(reason)

    @property
    def _method(self) -> str:
        return bytes(self.channel._command).decode("latin-1")

    @property
    def _path(self) -> str:
        return bytes(self.channel._path).partition(b"?")[0].decode("latin-1")

    def _refuse(self, refusal: request_limits.Refusal) -> None:
        """Answer now, and hang up when the client has read it."""
        self.refused = True
        self._end_deadline()
        self.requestHeaders.removeHeader(b"expect")  # else it would be told to go on
        said = [(name, value) for name, values in self.requestHeaders.getAllRawHeaders() for value in values]
        peer = getattr(self.channel.transport.getPeer(), "host", "")
        where = of_connection(str(peer), refusals.forwarded(said))
        refusals.counts.add("request.refused", where, refusal.status, self._path)
        headers, body = refusal.answer(self._path)
        lines = [f"HTTP/1.1 {refusal.status} {refusal.title}".encode(), *(b": ".join(pair) for pair in headers)]
        self.channel.transport.write(b"\r\n".join([*lines, b"", body]))
        self._deadline = reactor.callLater(LINGER_S, self.channel.transport.abortConnection)  # type: ignore[attr-defined]

    def _end_deadline(self) -> None:
        if self._deadline.active():
            self._deadline.cancel()


class BoundedFactory(HTTPFactory):  # type: ignore[misc]
    """Makes every request of every connection a bounded one, and every frame that a socket gets."""

    def __init__(self, server: Any) -> None:
        super().__init__(server)
        server.websocket_max_message_size = server.websocket_max_frame_size = request_limits.FRAME
        server.request_buffer_size = request_limits.FORM + 1  # in one piece: many small ones leave holes in the memory

    def buildProtocol(self, addr: Any) -> Any:
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = BoundedRequest
        return protocol


def install() -> None:
    """Have the daphne of this process take requests in this way. It makes its factory when it has the application."""
    # In a thread, for which Twisted waits: in the reactor's own runs an event loop, and Django refuses the database.
    reactor.addSystemEventTrigger("before", "shutdown", deferToThread, refusals.counts.write)  # type: ignore[attr-defined]
    sys.modules["daphne.server"].HTTPFactory = BoundedFactory  # type: ignore[attr-defined]
