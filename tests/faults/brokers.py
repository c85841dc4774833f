"""P7: the broker dies, forgets or stands still; every run ends, lost bells are made good by the sweeper (SPEC J4)."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator

import psutil

from agentops.embedded import process, stack
from loops.models import Run
from tests.faults import house, oracle, stand, workers
from tests.faults.outcome import Found, Outcome, TimedOut

SCRIPT = "short_errand"
SWEEP_S = 3.0
FOUND_WITHIN_S = 2 * SWEEP_S
PAUSE_S = 30.0
POLL_S = 1.5
"""A worker asks the broker for a second at a time; a bell that answers such a question is not in the queue any more."""
SUBMIT_WITHIN_S = 5.0
"""Nobody who submits waits for a broker that does not answer."""


def check(count: int) -> list[Outcome]:
    """``count`` deaths without persistence, as many FLUSHALLs and pauses, in a stack with its own clock."""
    outcome = Outcome("P7", faults=3 * count)
    house.agent(SCRIPT)
    pause = PAUSE_S if count >= 10 else 2.0
    faults: dict[str, Callable[[], Run]] = {"killed": kill, "flushed": flush, "paused": lambda: stand_still(pause)}
    slowest: dict[str, float] = {}
    with clock(), workers.at_work(workers.Workers("threads", 4)) as at_work:
        first = house.submit(SCRIPT)
        workers.see_through([first], at_work, 120, sweep=False)
        for _ in range(count):
            for name, fault in faults.items():
                seconds, found = suffered(fault, at_work, name, outcome)
                outcome.found += found
                slowest[name] = max(slowest.get(name, 0.0), seconds)
    told = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in slowest.items())
    allowed = stand.within(FOUND_WITHIN_S)
    outcome.notes.append(f"slowest start of a run after the broker was back: {told} (allowed {allowed:.0f} s)")
    outcome.control = next(filter(None, (without_a_sweeper() for _ in range(3))), "")
    return [outcome]


def suffered(fault: Callable[[], Run], at_work: workers.Workers, name: str, outcome: Outcome) -> tuple[float, Found]:
    """Seconds from the broker's return until somebody owned the run, and what was lost."""
    found = Found()
    began = time.monotonic()
    run = fault()
    back = time.monotonic()
    allowed = stand.within(FOUND_WITHIN_S)
    seconds = stand.wait_for(lambda: Run.objects.filter(pk=run.pk, epoch__gt=0).exists(), allowed + 30)
    if seconds < 0 or seconds > allowed:
        found.lost.append(f"{run.pk}: {name}, found after {seconds:.1f} s (fault took {back - began:.1f} s)")
        outcome.notes.append(what_they_do())
    workers.see_through([run], at_work, 120, sweep=False)
    found += oracle.examine(run)
    return max(seconds, 0.0), found


def what_they_do() -> str:
    """The logs of workers and clock, and where each thread of a worker stands (Celery's answer to SIGUSR1)."""
    for child in workers_of_the_stand():
        os.kill(child.pid, signal.SIGUSR1)
    stand.wait_for(lambda: "=== " in stand.tail(["worker"], lines=5), POLL_S)
    open_runs = Run.objects.filter(completed_at=None).values_list("id", "status", "epoch", "owner")
    return f"open runs: {list(open_runs)}\n{stand.tail(['worker'], lines=250)}\n{stand.tail(['beat'], lines=60)}"


def kill() -> Run:
    stand.STAND.kill_valkey()
    run = submit_quickly()
    time.sleep(random.uniform(0, 0.5))
    stand.STAND.start_valkey()
    return run


def flush() -> Run:
    """The bell is in the queue, nobody has heard it, and the queue is emptied."""
    with frozen_workers():
        run = submit_quickly()
        workers.empty_broker()
    return run


def stand_still(seconds: float) -> Run:
    server = stand.STAND.valkey
    assert server is not None
    server.send_signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        run = submit_quickly()
        time.sleep(max(0.0, seconds - (time.monotonic() - began)))
    finally:
        server.send_signal(signal.SIGCONT)
    return run


def submit_quickly() -> Run:
    began = time.monotonic()
    run = house.submit(SCRIPT)
    took = time.monotonic() - began
    assert took < stand.within(SUBMIT_WITHIN_S), f"who submitted waited {took:.1f} s for the broker"
    return run


@contextlib.contextmanager
def frozen_workers() -> Iterator[None]:
    """All workers of the stand stand still."""
    stopped = workers_of_the_stand()
    for child in stopped:
        os.kill(child.pid, signal.SIGSTOP)
    time.sleep(POLL_S)
    try:
        yield
    finally:
        for child in stopped:
            os.kill(child.pid, signal.SIGCONT)


def workers_of_the_stand() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "celery" in " ".join(child.cmdline())]


@contextlib.contextmanager
def clock() -> Iterator[None]:
    """The product's own beat."""
    beat = stand.start(stack.beat(), AGENTOPS_FAULTS_BELLS="agentops.celery.app")
    try:
        yield
    finally:
        process.stop(beat, signal.SIGTERM)


def without_a_sweeper() -> str:
    """The control: no clock, so nobody finds the run whose bell was lost; one sweep, and the same worker does."""
    from loops import jobs

    with workers.at_work(workers.Workers("threads", 4)) as at_work:
        first = house.submit(SCRIPT)
        workers.see_through([first], at_work, 120, sweep=False)
        run = flush()
        owned = Run.objects.filter(pk=run.pk, epoch__gt=0)
        by_nobody = stand.wait_for(owned.exists, FOUND_WITHIN_S + 1) < 0

        def swept() -> bool:
            jobs.sweep()
            return owned.exists()

        if stand.wait_for(swept, 120, 0.5) < 0:
            raise TimedOut("nobody found the run after a sweep either")
    return f"not found within {FOUND_WITHIN_S + 1:.0f} s, and found after a sweep" if by_nobody else ""
