"""Listens as AgentOps does where runners of tests report, and keeps what every session said."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loops.tools.test_sessions.reporters import BY_LANGUAGE, SOCKET

ROOT = Path(__file__).parents[1]
NODE_REPORTERS = ROOT / "loops/tools/test_reporters/node"


@dataclass
class Heard:
    """Of one command."""

    done: subprocess.CompletedProcess[str]
    sessions: list[list[dict[str, Any]]] = field(default_factory=list)

    @property
    def outcomes(self) -> dict[str, str]:
        """Of all tests; one that is told of twice is a mistake."""
        told = [event for session in self.sessions for event in session if event["event"] == "test"]
        assert len({event["id"] for event in told}) == len(told)
        return {event["id"]: event["outcome"] for event in told}

    @property
    def messages(self) -> dict[str, str]:
        return {event["id"]: event["message"] for session in self.sessions for event in session if event.get("message")}

    def listed(self, what: str) -> list[str]:
        return [name for session in self.sessions for event in session for name in event.get(what, ())]

    @property
    def ends(self) -> list[int | None]:
        """The exit code that each session ended with, and None for one that was cut short."""
        return [session[-1].get("exit") for session in self.sessions]


def environment(address: Path, reporters: Path = NODE_REPORTERS, **more: str) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith(("NODE_", "npm_"))}
    (told,) = BY_LANGUAGE["node"].items()
    return {**known, told[0]: told[1].format(folder=reporters.parent), SOCKET: str(address), **more}


def hear(command: Sequence[str], folder: Path, place: Path, reporters: Path = NODE_REPORTERS, **more: str) -> Heard:
    """``place`` is where the socket is made."""
    sessions: list[list[dict[str, Any]]] = []
    readers: list[threading.Thread] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place / "socket"))
        server.listen(64)

        def read(connection: socket.socket, session: list[dict[str, Any]]) -> None:
            with connection, connection.makefile(encoding="utf-8") as lines:
                session += map(json.loads, lines)

        def accept() -> None:
            while True:
                connection, _ = server.accept()
                if is_over.is_set() and connection.recv(1) == b".":
                    return connection.close()
                sessions.append([])
                readers.append(threading.Thread(target=read, args=(connection, sessions[-1]), daemon=True))
                readers[-1].start()

        is_over = threading.Event()
        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        done = run(command, folder, environment(place / "socket", reporters, **more))
        is_over.set()
        with socket.socket(socket.AF_UNIX) as last:  # behind all others in the queue
            last.connect(str(place / "socket"))
            last.sendall(b".")
            accepting.join(120)
        for reader in readers:
            reader.join(120)
    (place / "socket").unlink()
    return Heard(done, sessions)


def run(command: Sequence[str], folder: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(command), cwd=folder, env=dict(env), capture_output=True, text=True, timeout=120, check=False
    )
