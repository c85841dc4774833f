"""What watching live costs: commit to frame, ours against a bare websocket hub on the same feed (benchmarks.md).

The real web process serves N logged-in watchers of one run while a real driver on the real journal commits 50 times a
second. The bare hub is asyncio and websockets: no login, no database, no rendering; for every pointer it sends the
bytes of one of our frames. Publisher, watchers and servers are processes of their own, as in production.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.leftovers import tied

PER_SECOND, SECONDS, ROUNDS = 50, 10, 3
WATCHERS, MANY = 50, 500
DIALLING = 20
"""Sockets that are being opened at a time."""
CHANNEL = "agentops:feed"
FRAME = re.compile(r'"after": ?(\d+), ?"seq": ?(\d+)')
Arrival = tuple[int, int, int]
"""(after, seq, nanoseconds of the monotonic clock)."""


# --- The publisher: one run that commits at a steady pace -----------------------------------------------------------


def publish(run_id: str, seconds: float) -> None:
    """Drive the run for a while; print when each of its commits was done."""
    import django

    django.setup()
    from loops.driver import Driver, Ports
    from loops.engine.values import ModelReply, StopReason, ToolCall, ToolResult, Usage
    from loops.models import Run
    from loops.runs.composition import SystemClock, gatekeeper
    from loops.storage import journal
    from loops.storage.feed import Publisher
    from loops.storage.provenance import PgArchive
    from tests import fakes
    from tests.bench.durable_step import ARGUMENTS, RESULTS

    commits: list[tuple[int, int]] = []

    class Noting(Publisher):
        def facts(self, run_id: Any, project_id: str, seq: int) -> None:
            commits.append((seq, time.monotonic_ns()))
            super().facts(run_id, project_id, seq)

    run = Run.objects.get(pk=run_id)
    loaded, held = journal.load(run.pk), journal.claim(run.pk, "bench")
    assert loaded is not None
    assert held is not None
    began = time.monotonic()

    async def pace() -> int:
        """Wait for the next commit's turn; its number."""
        turn = len(commits) + 1
        await asyncio.sleep(max(0.0, began + turn / PER_SECOND - time.monotonic()))
        return turn

    class Model:
        async def call(self, request: Any, on_event: Any) -> ModelReply:
            turn = await pace()
            over = time.monotonic() - began > seconds
            name, arguments = ("task_completion", {"result": "done"}) if over else ("lookup", ARGUMENTS)
            call = ToolCall(f"call_{turn}", name, arguments)
            block = {"type": "tool_use", "id": call.id, "name": name, "input": dict(arguments)}
            usage = Usage(input_tokens=10, output_tokens=5, cost_microusd=1)
            return ModelReply((block,), "", "", (call,), StopReason.TOOL_USE, usage, "none", "none")

    async def lookup(arguments: Any) -> ToolResult:
        return ToolResult(ok=True, content=RESULTS[await pace() % 64])

    store, tools = journal.PgJournal(held, run.project_id, Noting()), fakes.Tools({"lookup": lookup})
    ports = Ports(store, Model(), tools, gatekeeper(), PgArchive(), fakes.Feed(), SystemClock(), lambda: "")
    driver = Driver(ports, loaded.state, loaded.transcript, slice_s=1e9)
    why = asyncio.run(driver.drive())
    assert why == "ended", why
    time.sleep(0.5)  # the last pointers leave in the background
    print(json.dumps(commits))


# --- The watchers: many sockets in one process ----------------------------------------------------------------------


async def watch(url: str, cookie: str, count: int, *, slow: bool) -> None:
    """Say when all are connected, note every frame until told to stop, print them."""
    from websockets.asyncio.client import connect

    arrivals: list[list[Arrival]] = [[] for _ in range(count)]
    headers = {"Cookie": cookie, "Origin": url.replace("ws://", "http://").split("/ws/")[0]}
    options: dict[str, Any] = {"compression": None, "max_size": None, "ping_interval": None}
    lines = asyncio.Semaphore(DIALLING)

    async def one(into: list[Arrival], open_: asyncio.Semaphore) -> None:
        async with lines:
            ws = await connect(url, additional_headers=headers, open_timeout=60, **options)
        async with ws:
            await ws.send('{"t":"ping","got":0}')
            beat = asyncio.create_task(heartbeat(ws, into))
            open_.release()
            with contextlib.suppress(asyncio.CancelledError):
                async for message in ws:
                    found = FRAME.search(message[:200]) if isinstance(message, str) else None
                    if found:
                        into.append((int(found[1]), int(found[2]), time.monotonic_ns()))
            beat.cancel()

    async def heartbeat(ws: Any, into: list[Arrival]) -> None:
        while True:
            await asyncio.sleep(1)
            await ws.send(f'{{"t":"ping","got":{len(into)}}}')

    with reading_nothing(url, headers) if slow else contextlib.nullcontext():
        ready = asyncio.Semaphore(0)
        tasks = [asyncio.create_task(one(into, ready)) for into in arrivals]
        for _ in tasks:
            await ready.acquire()
        await asyncio.sleep(1)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    print(json.dumps(arrivals))


@contextlib.contextmanager
def reading_nothing(url: str, headers: dict[str, str]) -> Iterator[None]:
    """A watcher whose machine fell asleep: connected, and not a byte taken off the line."""
    host, _, path = url.removeprefix("ws://").partition("/")
    lines = [f"GET /{path} HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade"]
    lines += ["Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.connect((host.split(":")[0], int(host.split(":")[1])))
        line.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        yield


# --- The bare hub ---------------------------------------------------------------------------------------------------


async def bare(port: int, redis_url: str, frame: Path) -> None:
    """As little as a hub can do: one subscription, the same bytes to every socket."""
    import redis.asyncio
    from websockets.asyncio.server import ServerConnection, broadcast, serve

    sockets: set[ServerConnection] = set()
    body = FRAME.sub('"after": {after}, "seq": {seq}', frame.read_text().replace("{", "{{").replace("}", "}}"), count=1)

    async def hold(ws: ServerConnection) -> None:
        sockets.add(ws)
        async for _ in ws:
            pass
        sockets.discard(ws)

    client = redis.asyncio.Redis.from_url(redis_url, socket_timeout=None)
    async with serve(hold, "127.0.0.1", port, compression=None, ping_interval=None), client.pubsub() as pubsub:
        await pubsub.subscribe(CHANNEL)
        latest: dict[str, int] = {}
        async for message in pubsub.listen():
            if message["type"] == "message":
                told = json.loads(message["data"])
                if told["t"] == "facts":
                    text = body.format(after=latest.get(told["run"], 1), seq=told["seq"])
                    latest[told["run"]] = told["seq"]
                    broadcast(sockets, text)


# --- The measurement ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Figures:
    """Milliseconds from commit to frame, and the share of (commit, watcher) pairs that arrived."""

    p50: float
    p95: float
    p99: float
    delivered: float
    per_second: float


class Bench:
    """Both servers, side by side; only the one that is measured has watchers."""

    def __init__(self, web: int, bare: int, cookie: str) -> None:
        self.web, self.bare, self.cookie = web, bare, cookie

    def ours(self, watchers: int, *, slow: bool = False) -> Figures:
        run_id = new_run()
        return self._measure(run_id, f"ws://127.0.0.1:{self.web}/ws/runs/{run_id}/?after=1", watchers, slow=slow)

    def reference(self, watchers: int) -> Figures:
        return self._measure(new_run(), f"ws://127.0.0.1:{self.bare}/", watchers)

    def _measure(self, run_id: str, url: str, watchers: int, *, slow: bool = False) -> Figures:
        arguments = [url, self.cookie, str(watchers), "slow" if slow else ""]
        with role("watch", *arguments, stdin=subprocess.PIPE) as clients:
            assert clients.stdout is not None
            assert clients.stdout.readline() == "ready\n"
            commits = published(run_id)
            time.sleep(1)
            arrivals = json.loads(clients.communicate("stop\n", timeout=60)[0])
        return figures(commits, arrivals)


def published(run_id: str, seconds: float = SECONDS) -> list[tuple[int, int]]:
    with role("publish", run_id, str(seconds)) as publisher:
        return [(seq, at) for seq, at in json.loads(publisher.communicate(timeout=seconds + 60)[0])]


def figures(commits: list[tuple[int, int]], arrivals: list[list[Arrival]]) -> Figures:
    """A commit has arrived with the first frame that covers it; frames must follow each other without gap or double."""
    waits: list[float] = []
    for frames in arrivals:
        at = 1
        covered = []
        for after, seq, when in frames:
            if after != at:
                break
            covered.append((seq, when))
            at = seq
        ends = [seq for seq, _ in covered]
        for seq, committed in commits:
            place = bisect.bisect_left(ends, seq)
            if place < len(ends):
                waits.append((covered[place][1] - committed) / 1e6)
    cuts = statistics.quantiles(waits, n=100)
    took = (commits[-1][1] - commits[0][1]) / 1e9
    return Figures(cuts[49], cuts[94], cuts[98], len(waits) / (len(commits) * len(arrivals)), len(commits) / took)


@contextlib.contextmanager
def role(*arguments: str, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """This module in a process of its own."""
    argv = [sys.executable, "-m", "tests.bench.fanout", *arguments]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, preexec_fn=tied(), **more) as running:
        try:
            yield running
        finally:
            running.terminate()


def new_run() -> str:
    """A run that has begun and belongs to nobody."""
    from loops.engine import facts as f
    from loops.engine.apply import initial
    from loops.engine.state.limits import Limits
    from loops.runs.composition import publisher
    from loops.storage import journal
    from tests import fakes
    from tests.bench import durable_step

    run = durable_step.new_run()
    held = journal.claim(run.pk, "bench")
    assert held is not None
    store = journal.PgJournal(held, run.project_id, publisher())
    limits = replace(Limits(), max_steps=10**5, max_seconds=10**5, max_tokens=10**9, max_cost_microusd=10**12)
    spec = fakes.spec(run_id=str(run.pk), project_id=run.project_id, limits=limits)
    started = f.RunStarted(spec=spec, system="", prompt_version="p", tools_sha256="t", at=int(time.time() * 1e6))
    store.append([(started, initial(started))])
    store.release(runnable=True)
    return str(run.pk)


def logged_in() -> str:
    """The cookie of a person who sees everything."""
    from django.conf import settings
    from django.contrib.auth import get_user_model
    from django.test import Client

    user = get_user_model().objects.create_superuser("watcher")
    client = Client()
    client.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


@contextlib.contextmanager
def servers() -> Iterator[Bench]:
    """The real web process and the bare hub, which sends a frame of a step in the middle of a run."""
    from django.conf import settings

    from agentops.embedded import stack
    from agentops.embedded.process import Command
    from tests.ports import free_port
    from tests.stack import process, wait_until

    web, bare_port, cookie = free_port(), free_port(), logged_in()
    frame = settings.PATHS.state / "frame.json"
    command = stack.web("127.0.0.1", web)
    many = {"AGENTOPS_SOCKETS_PER_PERSON": "100000"}
    environ = {**command.environ, **many, "BASE_URL": f"http://127.0.0.1:{web}", "PORT": str(web)}
    hub = Command(
        "bare", [sys.executable, "-m", "tests.bench.fanout", "bare", str(bare_port), settings.REDIS_URL, frame]
    )
    with process(Command(command.name, command.argv, environ=environ)):
        wait_until(lambda: stack.answers(f"http://127.0.0.1:{web}/healthz"), "web")
        frame.write_text(asyncio.run(one_frame(web, cookie)))
        with process(hub):
            wait_until(lambda: is_open(bare_port), "the bare hub")
            print(f"fan-out: frames of {frame.stat().st_size:,} bytes")
            yield Bench(web, bare_port, cookie)


async def one_frame(web: int, cookie: str) -> str:
    """What a watcher is sent for one commit, in the middle of a run."""
    from websockets.asyncio.client import connect

    run_id = await asyncio.to_thread(new_run)
    headers = {"Cookie": cookie, "Origin": f"http://127.0.0.1:{web}"}
    frames: list[str] = []
    url = f"ws://127.0.0.1:{web}/ws/runs/{run_id}/?after=1"
    async with connect(url, additional_headers=headers, max_size=None) as ws:
        await ws.send('{"t":"ping"}')
        await ws.recv()
        work = asyncio.create_task(asyncio.to_thread(published, run_id, 2))
        while not work.done():
            with contextlib.suppress(TimeoutError):
                frames.append(str(await asyncio.wait_for(ws.recv(), 0.5)))
    cards = [frame for frame in frames if FRAME.search(frame[:200])]
    return cards[len(cards) // 2]


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def line(what: str, found: list[Figures]) -> str:
    def middle(name: str) -> float:
        return statistics.median(getattr(each, name) for each in found)

    return (
        f"{what}: p50 {middle('p50'):.1f}, p95 {middle('p95'):.1f}, p99 {middle('p99'):.1f} ms, "
        f"delivered {min(each.delivered for each in found):.1%}"
    )


def main() -> None:
    with servers() as bench:
        compare(bench, 1)
        compare(bench, WATCHERS)
        crowd(bench, MANY)


def crowd(bench: Bench, watchers: int) -> None:
    """As many as one process is promised to serve."""
    ours, bare = bench.ours(watchers), bench.reference(watchers)
    print(line(f"fan-out, {watchers} watchers, {ours.per_second:.0f} commits/s", [ours]), "(target p99 500)")
    print(line("  bare hub", [bare]))
    print(f"  p99 ours / bare {ours.p99 / bare.p99:.2f}")


def compare(bench: Bench, watchers: int) -> None:
    """Ours, the bare hub, and ours with one more watcher that reads nothing, in turn."""
    kinds = {
        "ours": lambda: bench.ours(watchers),
        "bare": lambda: bench.reference(watchers),
        "slow": lambda: bench.ours(watchers, slow=True),
    }
    found: dict[str, list[Figures]] = {name: [] for name in kinds}
    for number in range(ROUNDS):
        for name in list(kinds)[:: 1 if number % 2 else -1]:
            found[name].append(kinds[name]())

    def ratio(name: str, to: str) -> float:
        return statistics.median(one.p99 / other.p99 for one, other in zip(found[name], found[to], strict=True))

    commits = statistics.median(each.per_second for each in found["ours"])
    print(line(f"fan-out, {watchers} watchers, {commits:.0f} commits/s", found["ours"]))
    print(line("  bare hub", found["bare"]))
    print(line("  ours beside one that reads nothing", found["slow"]))
    target = " (target 2.0)" if watchers > 1 else ""
    print(f"  p99 ours / bare {ratio('ours', 'bare'):.2f}{target}, with the slow one / without it", end=" ")
    print(f"{ratio('slow', 'ours'):.2f}")


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentops.settings")
    match sys.argv[1:]:
        case ["publish", run, seconds]:
            publish(run, float(seconds))
        case ["watch", url, cookie, count, slow]:
            asyncio.run(watch(url, cookie, int(count), slow=bool(slow)))
        case ["bare", port, redis_url, frame]:
            asyncio.run(bare(int(port), redis_url, Path(frame)))
        case _:
            raise SystemExit("make bench ARGS=fanout")
