"""Steps a second of many runs at once in one process, against as many threads that only commit (PERFORMANCE 1).

As in a worker, each run has a thread, an event loop and a connection of its own. The raw threads write two rows of
1 KB in two commits a step on the same Postgres, in turn with ours.
"""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
from psycopg.types.json import Jsonb

from loops.driver import Driver, Ports
from loops.engine import facts as f
from loops.engine.context import Transcript, extend
from loops.engine.fold import initial
from loops.engine.spec import Limits
from tests import fakes
from tests.bench import durable_step

STEPS = {1: 200, 8: 60, 64: 20}
"""Of each run, by the number of runs."""
ITERATIONS = 5
Work = Callable[[threading.Barrier, int], None]


def our_run(start: threading.Barrier, steps: int) -> None:
    """One run on the real journal; ready before the start, over when its result is committed."""
    from django.db import connections

    try:
        driver = prepared(steps)
        start.wait(60)
        why = asyncio.run(driver.drive())
        assert why == "ended", why
    finally:
        connections.close_all()


def prepared(steps: int) -> Driver:
    from loops.storage import journal
    from loops.storage.provenance import PgArchive
    from loops.wiring import SystemClock, gatekeeper, publisher

    run = durable_step.new_run()
    held = journal.claim(run.pk, "bench")
    assert held is not None
    store = journal.PgJournal(held, run.project_id, publisher())
    limits = replace(Limits(), max_steps=steps + 10, max_seconds=10**5, max_tokens=10**9, max_cost_microusd=10**12)
    spec = fakes.spec(run_id=str(run.pk), project_id=run.project_id, limits=limits)
    started = f.RunStarted(
        spec=spec, system="Be good.", prompt_version="p", tools_sha256="t", at=int(time.time() * 1e6)
    )
    state = initial(started)
    store.append([(started, state)])
    model, tools = durable_step.Constant(steps, []), fakes.Tools({"lookup": durable_step.lookup})
    ports = Ports(store, model, tools, gatekeeper(), PgArchive(), fakes.Feed(), SystemClock(), lambda: "")
    return Driver(ports, state, extend(Transcript(), started), slice_s=1e9)


def raw_run(start: threading.Barrier, steps: int) -> None:
    """Two prepared single-row commits a step."""
    with connected() as connection:
        start.wait(60)
        for number in range(2 * steps):
            body = Jsonb({"role": "tool", "id": f"call_{number}", "content": durable_step.RESULTS[number % 64]})
            connection.execute("INSERT INTO raw_threads (seq, body) VALUES (%s, %s)", (number, body))


def connected() -> psycopg.Connection[tuple[object, ...]]:
    from django.conf import settings

    login = settings.DATABASE_OWNER
    return psycopg.connect(
        host=login["HOST"],
        user=login["USER"],
        password=login["PASSWORD"],
        dbname=settings.DATABASES["default"]["NAME"],
        autocommit=True,
        prepare_threshold=0,
    )


def rate(work: Work, runs: int) -> float:
    """Steps a second over all runs, from the common start to the end of the last one."""
    steps, start = STEPS[runs], threading.Barrier(runs + 1)
    with ThreadPoolExecutor(runs) as threads:
        working = [threads.submit(work, start, steps) for _ in range(runs)]
        start.wait(60)
        began = time.perf_counter()
        for each in working:
            each.result()
        return runs * steps / (time.perf_counter() - began)


def main() -> None:
    with connected() as connection:
        connection.execute("CREATE TABLE raw_threads (id bigserial PRIMARY KEY, seq int, body jsonb)")
    durable_step.new_run()  # what all runs share is there before they race for it
    for runs in STEPS:
        found: dict[Work, list[float]] = {raw_run: [], our_run: []}
        for iteration in range(ITERATIONS + 1):
            for work in list(found)[:: 1 if iteration % 2 else -1]:
                measured = rate(work, runs)
                found[work].extend([measured] if iteration else [])  # the first round warms up
        ours, raw = (statistics.median(found[work]) for work in (our_run, raw_run))
        ratio = statistics.median(one / other for one, other in zip(found[our_run], found[raw_run], strict=True))
        target = " (target 0.5)" if runs == 64 else ""
        print(
            f"throughput, {runs} runs at once: raw two commits {raw:,.0f} steps/s, ours {ours:,.0f}, "
            f"ours / raw {ratio:.2f}{target}"
        )
