"""The socket on which the worker hears of single tests while one command runs (SPEC L1, ADR 0078).

It is in a folder that the command can only read, gone with the command. Nothing is ever sent back. What is too much or
no report closes all of it at once: nobody inside waits for us, and what they had sent is kept nowhere.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from loops.tools.sandbox.namespaces.user import file_owner
from loops.tools.test_sessions import reporters
from loops.tools.test_sessions.session import MOST_SESSIONS, Outcome, Room, Session, SessionReader, Unusable
from loops.tools.test_sessions.verdict import Verdict, judge

_CHUNK = 64 * 1024
_REST_S = 2.0
"""For what lies in the socket once every process of the command is gone: it is all there, and bounded."""


@dataclass(slots=True)
class Channel:
    """``folder`` is what the command is shown. ``unusable`` says why nothing of its report can be used, or ""."""

    folder: str
    unusable: str = ""
    _readings: list[SessionReader] = field(default_factory=list)
    _room: Room = field(default_factory=Room)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _accepting: asyncio.Task[None] | None = None

    def sessions(self) -> tuple[Session, ...]:
        """What was heard, once the command has ended."""
        return () if self.unusable else tuple(one.session() for one in self._readings)

    def verdict(self, exit_code: int, before: Mapping[str, Outcome] | None = None) -> Verdict:
        """Of what was heard of a command that has ended so."""
        if self.unusable:
            return Verdict(lacking=(f"its report of single tests is unusable, {self.unusable}",))
        return judge(self.sessions(), exit_code, before)

    def refuse(self, why: str) -> None:
        """Nothing more is read, and nothing that was counts."""
        self.unusable = self.unusable or why
        self._readings.clear()
        for task in (*self._tasks, *filter(None, [self._accepting])):
            task.cancel()

    def begin(self, listener: socket.socket) -> None:
        self._accepting = asyncio.create_task(self._accept(listener))

    async def _accept(self, listener: socket.socket) -> None:
        """Sessions as they come."""
        try:
            while not self.unusable:
                self.take((await asyncio.get_running_loop().sock_accept(listener))[0])
        except OSError as error:
            self.refuse(f"the worker could not read it: {error.strerror}")
        finally:
            if self.unusable:
                listener.close()  # with what waits to be accepted

    def take(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        try:
            reading = SessionReader(self._room)
        except Unusable as why:
            connection.close()
            self.refuse(str(why))
            return
        self._readings.append(reading)
        task = asyncio.get_running_loop().create_task(self._read(connection, reading))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: connection.close())  # also where it is cancelled before it begins

    async def _read(self, connection: socket.socket, reading: SessionReader) -> None:
        loop = asyncio.get_running_loop()
        try:
            while data := await loop.sock_recv(connection, _CHUNK):
                reading.feed(data)
        except Unusable as why:
            self.refuse(str(why))
        except OSError:  # as if it had been closed
            pass
        except Exception:  # a mistake of ours is no reason to believe what was read before it
            self.refuse("the worker could not read it")

    async def finish(self, listener: socket.socket) -> None:
        """Read what was sent before the last process of the command was gone."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        with suppress(BlockingIOError):
            while not self.unusable:
                self.take(listener.accept()[0])
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=_REST_S)
        for task in self._tasks:
            task.cancel()


@asynccontextmanager
async def listening() -> AsyncIterator[Channel]:
    """For one command: it has ended, or never begins, when the block is left. ``finish`` is called then."""
    folder = tempfile.mkdtemp(prefix="agentops-tests-")
    try:
        channel = Channel(os.path.realpath(folder))
        with _listener(folder) as listener:
            await asyncio.to_thread(reporters.put_into, folder)
            _show(folder)
            channel.begin(listener)
            try:
                yield channel
            finally:
                await channel.finish(listener)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _listener(folder: str) -> socket.socket:
    """By a short name: the kernel takes no path of a socket of more than 107 bytes."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(f"/proc/self/fd/{descriptor}/socket")
    finally:
        os.close(descriptor)
    listener.listen(MOST_SESSIONS)
    listener.setblocking(False)
    return listener


def _show(folder: str) -> None:
    """Let the command's user pass and connect, and nobody else, where it is not ours."""
    owner = file_owner()
    for base, _, files in os.walk(folder):
        for place in (base, *(os.path.join(base, name) for name in files)):
            if owner is not None:
                os.chown(place, -1, owner[1])
            is_open = place == base or os.path.basename(base) == reporters.PROGRAMS
            os.chmod(place, 0o750 if is_open else 0o660 if place.endswith("/socket") else 0o640)
