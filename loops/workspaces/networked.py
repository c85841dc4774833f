"""A command of AgentOps in the sandbox that may reach named hosts, through a proxy of its own (SPEC I7, ADR 0067)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from django.db import connection

from loops.engine.text.truncation import shortened
from loops.llm.endpoints.addresses import is_never_a_model, is_of_this_machine
from loops.masking import StreamMasker, known
from loops.models import Policy
from loops.models import Workspace as WorkspaceRow
from loops.runs.composition import command_records, sandbox_level
from loops.tools.limits import GIB, Limits, within
from loops.tools.output import clean_text
from loops.tools.sandbox.capability import FULL
from loops.tools.sandbox.network.hosts import Address, Host, hosts
from loops.tools.sandbox.network.proxy import Proxy, Request
from loops.tools.sandbox.runner import Job, Outcome, run_inside
from loops.tools.workspace import Workspace

LOG_CHARS = 200_000
EVERY_S = 1.0
MOST_HOSTS = 100
MOST_TAKEN = 50
HOST_CHARS = 253


TEMPORARY, MEMORY = GIB, 4 * GIB
"""Room for package clients, and for git, which unpacks what it fetches."""


class Stopped(Exception):
    """A person ended it."""


@dataclass(slots=True)
class Log:
    """Its output so far, and the hosts that it asked for. Known secrets never come into it."""

    text: str = ""
    requests: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    streams: defaultdict[str, StreamMasker] = field(default_factory=lambda: defaultdict(StreamMasker))

    def hear(self, stream: str, chunk: bytes) -> None:
        self._add(self.streams[stream].feed(clean_text(chunk)))

    def heard_all(self) -> None:
        """Nothing comes any more: what might have been the beginning of a secret was none."""
        for stream in self.streams.values():
            self._add(stream.finish())

    def _add(self, text: str) -> None:
        self.text = (self.text + text)[-LOG_CHARS:]

    def tell_of(self, outcome: Outcome) -> None:
        """What the command left, and what became of that."""
        for one in outcome.taken[:MOST_TAKEN]:
            self.hear("stderr", f"{'not as it was' if one.stays else 'taken away'}: {one.path}: {one.why}\n".encode())
        self.heard_all()

    def note(self, request: Request) -> None:
        key = (shortened(request.host, HOST_CHARS), request.why_not)
        if key not in self.requests and len(self.requests) >= MOST_HOSTS:
            key = ("others", "")
        one = self.requests.setdefault(key, {"host": key[0], "why_not": key[1], "count": 0, "sent": 0, "received": 0})
        one["count"] += 1
        one["sent"] += request.sent
        one["received"] += request.received

    def shown(self) -> dict[str, Any]:
        return {"log": known().value(self.text), "requests": list(self.requests.values())}


def run(
    work: Path, granted: Sequence[str], log: Log, job: Job, limits: Limits, goes_on: Callable[[], bool] = lambda: True
) -> Outcome:
    """In ``work``, reaching ``granted`` alone. Every second ``goes_on`` is asked, in a thread of its own. Raises
    Stopped where it says no."""
    return asyncio.run(_run(work, granted, log, job, limits, goes_on))


async def _run(
    work: Path, granted: Sequence[str], log: Log, job: Job, limits: Limits, goes_on: Callable[[], bool]
) -> Outcome:
    def ask() -> bool:
        try:
            return goes_on()
        finally:
            connection.close()  # that of the thread

    proxy = Proxy(hosts(granted), is_never_reached, log.note)
    with Workspace(str(work), limits, made=True, records=command_records()) as workspace:
        async with proxy.listening(job.network) if job.network else nullcontext():
            running = asyncio.ensure_future(
                run_inside(workspace, job, log.hear, namespaces=sandbox_level().level >= FULL)
            )
            while not (await asyncio.wait([running], timeout=EVERY_S))[0]:
                if not await asyncio.to_thread(ask):
                    running.cancel()
    log.heard_all()
    try:
        return running.result()
    except asyncio.CancelledError:
        raise Stopped from None


def is_never_reached(host: Host, address: Address) -> bool:
    """Link-local and where clouds keep credentials: never. This machine: only by a name that says so."""
    return is_never_a_model(address) or (is_of_this_machine(address) and not host.is_of_this_machine)


def limits_of(workspace: WorkspaceRow) -> Limits:
    """Those of the commands there, which are to work with what it leaves, and room for it."""
    own = within(Policy.objects.get(project=workspace.project_id).commands_in(workspace))
    return replace(own, tmp_bytes=TEMPORARY, memory_bytes=max(own.memory_bytes, MEMORY))
