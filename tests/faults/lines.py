"""A line to a server that can be slow, cut, half open or reset: a small TCP proxy in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from contextlib import suppress

PIECE = 65_536


class Line:
    """Listens on a port of its own and passes on to a server's socket. ``delay`` in seconds, for each piece."""

    def __init__(self, server: str) -> None:
        self._server, self._open = server, set[asyncio.StreamWriter]()
        self._loop = asyncio.new_event_loop()
        self.delay, self.is_silent, self.is_cut = 0.0, False, False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def mend(self) -> None:
        self.delay, self.is_silent, self.is_cut = 0.0, False, False

    def slow(self) -> None:
        self.delay = 0.2

    def half_open(self) -> None:
        """Nothing comes through, and nobody is told."""
        self.is_silent = True

    def cut(self) -> None:
        """Everybody is hung up on, and nobody new gets through."""
        self.is_cut = True
        self._loop.call_soon_threadsafe(self._hang_up, False)

    def reset(self) -> None:
        """Everybody gets an RST; who calls again gets through."""
        self._loop.call_soon_threadsafe(self._hang_up, True)

    def _run(self) -> None:
        self._loop.run_until_complete(asyncio.start_server(self._meet, sock=self._listener))
        self._loop.run_forever()

    def _hang_up(self, with_reset: bool) -> None:
        for end in self._open:
            if with_reset and (plug := end.get_extra_info("socket")) is not None and plug.family == socket.AF_INET:
                with suppress(OSError):  # it has just been closed from the other side
                    plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.transport.abort()
        self._open.clear()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.transport.abort()
            return
        with suppress(OSError):
            there_reader, there_writer = await asyncio.open_unix_connection(self._server)
            self._open |= {writer, there_writer}
            await asyncio.gather(self._pass_on(reader, there_writer), self._pass_on(there_reader, writer))

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(PIECE):
                await asyncio.sleep(self.delay)
                while self.is_silent:
                    await asyncio.sleep(0.05)
                target.write(data)
                await target.drain()
        target.close()
