"""Steps and whole runs a second of many runs at once, against as many threads that only commit (benchmarks.md).

As in a worker, each run has a thread, an event loop and a connection of its own; one process has one interpreter lock,
so the same runs are spread over two processes as well. A run is claimed, started, driven for 20 steps and ended;
submitting it is the web's work and not timed. A raw one writes two rows of 1 KB in two commits a step. All ways take
turns on the same Postgres.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tests import leftovers
from tests.bench import ours, raw, report
from tests.bench.work import Marks

STEPS = 20
RUNS = {1: 10, 8: 4, 64: 1}
"""Runs one after another in each slot, by the number of slots."""
PROCESSES = (1, 2)
ROUNDS = 5
Way = tuple[str, int]
"""(engine, number of processes)."""


def main() -> None:
    ours.new_run()  # what all runs share is there before they race for it
    raw.prepare()
    with contextlib.ExitStack() as open_:
        children = [open_.enter_context(child()) for _ in range(max(PROCESSES))]
        for slots in RUNS:
            tell(slots, interleaved(children, slots))
    print(flush=True)


@dataclass(frozen=True)
class Round:
    seconds: float
    """From the common start to the end of the last run."""
    cpu: float
    """Seconds that our processes computed; the server's are not among them."""


def interleaved(children: list[subprocess.Popen[str]], slots: int) -> dict[Way, list[Round]]:
    """The first round is not counted."""
    ways = [(engine, processes) for engine in ENGINES for processes in PROCESSES if processes <= slots]
    found: dict[Way, list[Round]] = {way: [] for way in ways}
    for number in range(ROUNDS + 1):
        for way in random.sample(ways, len(ways)):
            measured = timed(children[: way[1]], way[0], slots // way[1], RUNS[slots])
            found[way].extend([measured] if number else [])
    return found


def timed(children: list[subprocess.Popen[str]], engine: str, slots: int, runs: int) -> Round:
    for each in children:
        say(each, f"{engine} {slots} {runs}")
    for each in children:
        assert hear(each) == "ready"
    began = time.perf_counter()
    for each in children:
        say(each, "go")
    cpu = sum(float(hear(each)) for each in children)
    return Round(time.perf_counter() - began, cpu)


def tell(slots: int, found: dict[Way, list[Round]]) -> None:
    runs = slots * RUNS[slots]
    for processes in PROCESSES:
        if processes > slots:
            continue
        mine, bare = found["ours", processes], found["raw", processes]
        share = statistics.median(other.seconds / one.seconds for one, other in zip(mine, bare, strict=True))
        rate, bare_rate = (runs / statistics.median(each.seconds for each in way) for way in (mine, bare))
        cpu = statistics.median(each.cpu for each in mine) / (runs * STEPS) * 1e3
        where = f"{slots} at once in {processes} process{'es' if processes > 1 else ''}"
        name = f"throughput, {where}: ours / two commits"
        said = report.at_least(name, share, 0.5) if slots == 64 else f"{name} {share:.2f}"
        print(
            f"{said}: {rate * STEPS:,.0f} against {bare_rate * STEPS:,.0f} steps/s, {rate:,.1f} runs/s, "
            f"{cpu:.2f} ms of Python a step"
        )


# --- A process of workers -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def child() -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "tests.bench.throughput"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, text=True, preexec_fn=leftovers.tied(), **pipes) as running:
        try:
            yield running
        finally:
            running.terminate()


def say(to: subprocess.Popen[str], line: str) -> None:
    assert to.stdin is not None
    to.stdin.write(line + "\n")
    to.stdin.flush()


def hear(from_: subprocess.Popen[str]) -> str:
    assert from_.stdout is not None
    return from_.stdout.readline().strip()


def our_slot(runs: int) -> Callable[[], None]:
    from django.db import connection

    submitted = [ours.new_run() for _ in range(runs)]
    connection.ensure_connection()

    def work() -> None:
        try:
            for run in submitted:
                ours.drive(ours.driver(run, ours.journal_of(run), Marks(STEPS)))
        finally:
            connection.close()

    return work


def raw_slot(runs: int) -> Callable[[], None]:
    connection = raw.connected()

    def work() -> None:
        with connection:
            for _ in range(runs):
                raw.run(connection, Marks(STEPS))

    return work


ENGINES: dict[str, Callable[[int], Callable[[], None]]] = {"raw": raw_slot, "ours": our_slot}


def serve() -> None:
    """A line names the engine, the number of slots and the runs of each; they start at the next line."""
    for line in sys.stdin:
        engine, slots, runs = line.split()
        start = threading.Barrier(int(slots) + 1)

        def slot(engine: str = engine, runs: int = int(runs), start: threading.Barrier = start) -> Any:
            work = ENGINES[engine](runs)
            start.wait(60)
            start.wait(60)
            work()

        with ThreadPoolExecutor(int(slots)) as threads:
            working = [threads.submit(slot) for _ in range(int(slots))]
            start.wait(60)
            gc.collect()
            print("ready", flush=True)
            sys.stdin.readline()
            began = time.process_time()
            start.wait(60)
            for each in working:
                each.result()
        print(time.process_time() - began, flush=True)


if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentops.settings")
    django.setup()
    serve()
