"""What a durable step costs beyond the disk: the real journal and driver against two bare commits (PERFORMANCE 1).

A step is one no-op model call with a constant call and one no-op tool that returns 0.8 KB; its time is the distance
between two model calls. The raw limit writes two rows of
1 KB in two commits on the same Postgres, interleaved with ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from loops.driver import Driver, Ports
from loops.engine import facts as f
from loops.engine.context import Transcript, extend
from loops.engine.fold import initial
from loops.engine.spec import Limits
from loops.engine.values import ModelReply, StopReason, ToolCall, ToolResult, Usage
from tests import fakes

WORDS = (
    "order",
    "shipment",
    "refund",
    "customer",
    "status",
    "invoice",
    "carrier",
    "tracking",
    "policy",
    "region",
    "total",
)


def text(seed: int, size: int) -> str:
    """Repeatable text that compresses about as real tool output does."""
    chance = random.Random(seed)
    parts: list[str] = []
    while sum(map(len, parts)) + len(parts) < size:
        parts.append(chance.choice(WORDS) + (str(chance.randrange(10**6)) if chance.random() < 0.3 else ""))
    return " ".join(parts)[:size]


ARGUMENTS = {"query": text(7, 120), "limit": 10}
RESULTS = [text(number, 800) for number in range(64)]


@dataclass
class Constant:
    """A model that always calls the same tool, and notes when it was asked."""

    steps: int
    marks: list[float]

    async def call(self, request: Any, on_event: Any) -> ModelReply:
        self.marks.append(time.perf_counter())
        number = len(self.marks)
        call = (
            ToolCall(f"call_{number}", "task_completion", {"result": "done"})
            if number > self.steps
            else ToolCall(f"call_{number}", "lookup", ARGUMENTS)
        )
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}
        usage = Usage(input_tokens=10, output_tokens=5, cost_microusd=1)
        return ModelReply((block,), "", "", (call,), StopReason.TOOL_USE, usage, "none", "none")


def lookup(arguments: Mapping[str, Any]) -> ToolResult:
    return ToolResult(ok=True, content=RESULTS[random.randrange(64)])


def our_run(steps: int) -> list[float]:
    """Seconds of each step of one run on the real journal."""
    from loops.storage import journal
    from loops.storage.provenance import PgArchive
    from loops.wiring import SystemClock, gatekeeper, publisher

    run = new_run()
    held = journal.claim(run.pk, "bench")
    assert held is not None
    store = journal.PgJournal(held, run.project_id, publisher())
    limits = replace(Limits(), max_steps=steps + 10, max_seconds=100_000, max_tokens=10**9, max_cost_microusd=10**12)
    spec = fakes.spec(run_id=str(run.pk), project_id=run.project_id, limits=limits)
    started = f.RunStarted(
        spec=spec, system="Be good.", prompt_version="p", tools_sha256="t", at=int(time.time() * 1e6)
    )
    state = initial(started)
    store.append([(started, state)])
    model = Constant(steps, [])
    tools = fakes.Tools({"lookup": lookup})
    ports = Ports(store, model, tools, gatekeeper(), PgArchive(), fakes.Feed(), SystemClock(), lambda: "")
    why = asyncio.run(Driver(ports, state, extend(Transcript(), started), slice_s=1e9).drive())
    assert why == "ended", why
    return [later - earlier for earlier, later in pairwise(model.marks)]


def new_run() -> Any:
    from django.contrib.auth import get_user_model

    from loops.models import Agent, Project, Run, Task
    from loops.services.models import ensure_script

    user, _ = get_user_model().objects.get_or_create(username="bench")
    project, _ = Project.objects.get_or_create(slug="bench", defaults={"name": "Bench"})
    agent, _ = Agent.objects.get_or_create(
        project=project, name="bench", defaults={"actor_model": ensure_script("writes_a_file")}
    )
    task = Task.objects.create(project=project, agent=agent, title="b", goal="b", content_sha256="", created_by=user)
    return Run.objects.create(agent=agent, task=task, project=project)


class Raw:
    """Two single-row commits a step, prepared, autocommit: what the disk and the wire alone cost."""

    def __init__(self) -> None:
        from django.conf import settings

        login = settings.DATABASE_OWNER
        self.connection = psycopg.connect(
            host=login["HOST"],
            user=login["USER"],
            password=login["PASSWORD"],
            dbname=settings.DATABASES["default"]["NAME"],
            autocommit=True,
            prepare_threshold=0,
        )
        self.connection.execute("CREATE TABLE raw_bench (id bigserial PRIMARY KEY, run text, seq int, body jsonb)")

    def run(self, steps: int) -> list[float]:
        marks = [time.perf_counter()]
        for number in range(steps):
            for half in range(2):
                body = Jsonb({"role": "tool", "id": f"call_{number}", "content": RESULTS[number % 64]})
                self.connection.execute(
                    "INSERT INTO raw_bench (run, seq, body) VALUES (%s, %s, %s)", ("r", 2 * number + half, body)
                )
            marks.append(time.perf_counter())
        return [later - earlier for earlier, later in pairwise(marks)]

    def wal(self) -> int:
        row = self.connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
        assert row is not None
        return int(row[0])


def paired(raw: Raw, steps: int, iterations: int) -> dict[str, float]:
    """Medians in milliseconds and the median of the ratios taken pair by pair."""
    our_run(20)
    raw.run(20)
    ratios, ours, bare = [], [], []
    for iteration in range(iterations):
        order = [our_run, raw.run] if iteration % 2 else [raw.run, our_run]
        took = {kind: statistics.fmean(kind(steps)) for kind in order}
        ours.append(took[our_run] * 1e3)
        bare.append(took[raw.run] * 1e3)
        ratios.append(took[our_run] / took[raw.run])
    return {
        "raw_ms": statistics.median(bare),
        "ours_ms": statistics.median(ours),
        "ratio": statistics.median(ratios),
    }


def growth(steps: int = 510) -> dict[str, float]:
    """Median step time around step 500 over that around step 10, in one long run."""
    times = our_run(steps)
    early, late = times[5:40], times[steps - 40 : steps - 5]
    return {
        "step_10_ms": statistics.median(early) * 1e3,
        "step_500_ms": statistics.median(late) * 1e3,
        "growth": statistics.median(late) / statistics.median(early),
    }


def wal_per_step(raw: Raw, steps: int = 100) -> float:
    before = raw.wal()
    our_run(steps)
    return (raw.wal() - before) / steps


def say(label: str, figures: dict[str, float], target: float) -> None:
    print(
        f"durable step, {label}: raw two commits {figures['raw_ms']:.2f} ms, ours {figures['ours_ms']:.2f} ms, "
        f"ratio {figures['ratio']:.2f} (target {target})"
    )


@contextlib.contextmanager
def slow_flush(raw: Raw, microseconds: int = 2000) -> Iterator[None]:
    """Let every commit sleep before its flush, as on a network disk: the least noisy setting there is."""
    names = {"commit_delay": microseconds, "commit_siblings": 0}
    for name, value in names.items():
        raw.connection.execute(f"ALTER SYSTEM SET {name} = {value}")
    raw.connection.execute("SELECT pg_reload_conf()")
    time.sleep(0.5)  # the servers' processes take their new settings between two statements
    yield
    for name in names:
        raw.connection.execute(f"ALTER SYSTEM RESET {name}")
    raw.connection.execute("SELECT pg_reload_conf()")
    time.sleep(0.5)


def main() -> None:
    raw = Raw()
    say("N=20", paired(raw, 20, 15), 2.5)
    say("N=100", paired(raw, 100, 5), 2.5)
    with slow_flush(raw):
        say("N=20, each flush 2 ms slower", paired(raw, 20, 7), 1.3)
    found = [growth() for _ in range(3)]
    middle = sorted(found, key=lambda g: g["growth"])[1]
    print(
        f"growth: step 10 {middle['step_10_ms']:.2f} ms, step 500 {middle['step_500_ms']:.2f} ms, "
        f"ratio {middle['growth']:.2f} (target 1.1)"
    )
    print(f"WAL per step: {wal_per_step(raw):,.0f} bytes")
