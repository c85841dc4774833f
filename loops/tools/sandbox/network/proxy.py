"""An HTTP proxy on a local socket that lets named hosts through and writes down each request (SPEC I7, RFC 9110 9.3.6).

It looks a name up itself and connects to the very address that it judged. What is inside of an encrypted connection it
does not see: a grant is for a host, and for all that lies behind it.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import h11

from loops.tools.sandbox.network.hosts import Address, Host, as_address, split

LONGEST_HEAD = 64 * 1024
HEAD_S = 30.0
CONNECT_S = 30.0
AT_ONCE = 64
_CHUNK = 64 * 1024
_HOP_BY_HOP = frozenset({b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"te", b"upgrade"})
NEVER = "it leads to an address that no command may reach"
NOT_NAMED = "this host is not on the list"


@dataclass(slots=True)
class Request:
    """``why_not`` is why it was not let through, or what went wrong; bytes as the command sees them."""

    host: str
    why_not: str = ""
    sent: int = 0
    received: int = 0


class Refused(Exception):
    """The request is not let through; the message is the answer to it."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """``never`` says of a host and one of its addresses that no command may reach it. ``noted`` gets each request at
    its end."""

    granted: Sequence[Host]
    never: Callable[[Host, Address], bool]
    noted: Callable[[Request], None]

    @asynccontextmanager
    async def listening(self, folder: str) -> AsyncIterator[None]:
        """On a socket in ``folder``, until the end of the block; what is under way then is cut."""
        room, tasks = asyncio.Semaphore(AT_ONCE), set[asyncio.Task[None]]()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            try:
                async with room:
                    await self._serve(reader, writer)
            finally:
                tasks.discard(task)
                writer.close()

        path = f"{folder}/proxy"
        server = await asyncio.start_unix_server(accept, sock=_socket(path))
        try:
            yield
        finally:
            server.close()
            for task in list(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            os.unlink(path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request, is_joined = Request(""), False
        try:
            head, rest = await _head(reader)
            host, forwarded = _asked(head)
            request.host = str(host)
            there, away = await self._connected(host)
            is_joined = True
            try:
                if head.method == b"CONNECT":
                    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                away.write(forwarded + rest)
                request.sent += len(rest)
                await _relayed(request, (reader, away), (there, writer))
            finally:
                away.close()
        except (Refused, OSError, TimeoutError, h11.RemoteProtocolError) as error:
            request.why_not = request.why_not or str(error) or "it took too long"
            if not is_joined:
                with suppress(OSError):
                    await _say(writer, 403 if isinstance(error, Refused) else 502, request)
        finally:
            if request.host or request.why_not:
                self.noted(request)

    async def _connected(self, host: Host) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if host not in self.granted:
            raise Refused(NOT_NAMED)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_S):
            found = await loop.getaddrinfo(host.name, host.port, type=socket.SOCK_STREAM)
            places = dict.fromkeys(place[4][0] for place in found)
            allowed = [text for text in places if (at := as_address(str(text))) and not self.never(host, at)]
            if not allowed:
                raise Refused(NEVER)
            for place in allowed[:-1]:
                with suppress(OSError):
                    return await asyncio.open_connection(place, host.port)
            return await asyncio.open_connection(allowed[-1], host.port)


def _socket(path: str) -> socket.socket:
    """By a short name: the kernel takes no path of a socket of more than 107 bytes."""
    folder, name = os.path.split(path)
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        bound = socket.socket(socket.AF_UNIX)
        bound.bind(f"/proc/self/fd/{descriptor}/{name}")
    finally:
        os.close(descriptor)
    os.chmod(path, 0o666)  # noqa: S103 - the sandbox has a user of its own; the folder lets nobody else in
    return bound


async def _head(reader: asyncio.StreamReader) -> tuple[h11.Request, bytes]:
    """(the request line and its fields, what came after them already)."""
    data = b""
    async with asyncio.timeout(HEAD_S):
        while b"\r\n\r\n" not in data:
            chunk = await reader.read(_CHUNK)
            if not chunk or len(data) + len(chunk) > LONGEST_HEAD:
                raise Refused("its head is no whole request, or too long" if data else "")
            data += chunk
    end = data.index(b"\r\n\r\n") + 4
    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
    parser.receive_data(data[:end])
    event = parser.next_event()
    if not isinstance(event, h11.Request):
        raise Refused("it is no request")
    return event, data[end:]


def _asked(head: h11.Request) -> tuple[Host, bytes]:
    """(whom it is for, what they are sent first). Of a tunnel they are sent nothing. Raises Refused."""
    target = head.target.decode("ascii", "replace")
    if head.method == b"CONNECT":
        return _host(*split(target, 0)), b""
    try:
        parts = urlsplit(target)
        name, port = split(parts.netloc.rpartition("@")[2], 80)
    except ValueError:
        name, port, parts = "", 0, urlsplit("")
    if parts.scheme != "http":
        raise Refused("it asks a proxy for what is no http address")
    path = parts._replace(scheme="", netloc="").geturl() or "/"
    fields = [(name, value) for name, value in head.headers if name not in _HOP_BY_HOP]
    lines = [b"%s %s HTTP/1.1" % (head.method, path.encode()), *(b"%s: %s" % field for field in fields)]
    return _host(name, port), b"\r\n".join([*lines, b"Connection: close", b"", b""])


def _host(name: str, port: int) -> Host:
    if not name or not 0 < port < 65_536:
        raise Refused("it names no host")
    return Host(name.lower().rstrip("."), port)


async def _relayed(request: Request, *ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    """Both directions to their ends: the first is what the command sends."""

    async def carry(way: tuple[asyncio.StreamReader, asyncio.StreamWriter], is_sent: bool) -> None:
        reader, writer = way
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
            if is_sent:
                request.sent += len(data)
            else:
                request.received += len(data)
        if writer.can_write_eof():
            with suppress(OSError):
                writer.write_eof()

    await asyncio.gather(*(carry(way, number == 0) for number, way in enumerate(ways)))


async def _say(writer: asyncio.StreamWriter, status: int, request: Request) -> None:
    body = f"{request.host}: {request.why_not}\n".encode()
    head = f"HTTP/1.1 {status} {'Forbidden' if status == 403 else 'Bad Gateway'}\r\n"
    fields = f"Content-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + fields.encode() + body)
    await writer.drain()
