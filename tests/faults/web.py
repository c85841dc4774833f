"""The stand's web server, and people who press the same button many times at once."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from agentops.embedded import process, stack
from agentops.embedded.process import Command
from tests.faults import bells, guards, house
from tests.faults.stand import start, wait_for


@dataclass(frozen=True)
class Answer:
    """Status 0: the server was gone before it answered."""

    status: int
    body: Mapping[str, Any]


class Web:
    """One web server with an address of its own, and a token that lets the boss in."""

    def __init__(self) -> None:
        from loops.services.tokens import new_token
        from tests.ports import free_port

        self.port = free_port()
        self.token, _ = new_token(actor=None, user=house.boss())
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, off: Sequence[str] = (), **environ: str) -> None:
        command = stack.web("127.0.0.1", self.port)
        argv = [*command.argv[:-1], "tests.faults.asgi:application"]
        more = {"PORT": str(self.port), "AGENTOPS_FAULTS_BELLS": f"{bells.__name__}.silent", **command.environ}
        self.process = start(Command("web", argv, environ={**more, guards.VARIABLE: ",".join(off), **environ}))
        assert wait_for(lambda: stack.answers(f"http://127.0.0.1:{self.port}/healthz"), 120, 0.05) >= 0

    def stop(self) -> None:
        if self.process is not None:
            process.stop(self.process, Command("web", []).stop_signal)

    def post(self, path: str, body: Mapping[str, Any], **headers: str) -> Answer:
        """One request, asked again for as long as the server says when to come back."""
        given = {"Authorization": f"Token {self.token}", "Content-Type": "application/json", **headers}
        while True:
            line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            try:
                line.request("POST", path, json.dumps(body), given)
                answer = line.getresponse()
                found = Answer(answer.status, json.loads(answer.read() or b"{}"))
                later = answer.headers["Retry-After"]
            except (OSError, http.client.HTTPException):
                return Answer(0, {})
            finally:
                line.close()
            if not later:
                return found

    def post_at_once(self, times: int, path: str, body: Mapping[str, Any], **headers: str) -> list[Answer]:
        with ThreadPoolExecutor(times) as people:
            return list(people.map(lambda _: self.post(path, body, **headers), range(times)))


@contextlib.contextmanager
def serving(*, off: Sequence[str] = (), **environ: str) -> Iterator[Web]:
    """A web server, gone at the end."""
    web = Web()
    web.start(off=off, **environ)
    try:
        yield web
    finally:
        web.stop()
