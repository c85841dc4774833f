"""Drive runs in forked children: prepared once, so that a kill costs milliseconds instead of a worker's start."""

from __future__ import annotations

import os
import pickle
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from loops.crash_points import CrashPoint, arm
from loops.models import Run
from tests import leftovers
from tests.faults import guards, house
from tests.faults.outcome import TimedOut
from tests.faults.stand import forget_connections, tail

T = TypeVar("T")
LONGEST_S = 120.0
_lane_pipes: list[int] = []
"""A lane's way back to who started it; its own children must not keep it open."""


@dataclass(frozen=True)
class Death:
    """A point, how often it is passed before, and what happens there."""

    point: CrashPoint
    count: int = 1
    how: signal.Signals = signal.SIGKILL


def fork(work: Callable[[], object], *, death: Death | None = None, off: Sequence[str] = ()) -> int:
    """Do ``work`` in a child with connections of its own; its process id."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        leftovers.die_with_parent()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _complain_to_a_log()
        while _lane_pipes:
            os.close(_lane_pipes.pop())
        forget_connections()
        guards.off(*off)
        if death is not None:
            arm(death.point, death.count, death.how)
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _complain_to_a_log() -> None:
    """A child whose guard is off ends badly, as it should; nobody needs to see how."""
    from django.conf import settings

    with (settings.PATHS.logs / "lean.log").open("ab") as log:
        os.dup2(log.fileno(), sys.stderr.fileno())


def wait(child: int, patience: float = LONGEST_S) -> int:
    """0 when it ended well, the signal's number when it was killed, -1 for an error. Raises TimedOut."""
    deadline = time.monotonic() + patience
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.WTERMSIG(status) if os.WIFSIGNALED(status) else -1 if os.WEXITSTATUS(status) else 0
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise TimedOut(f"a child was at it for {patience:.0f} s")
        time.sleep(0.002)


def drive(run: Run, **how: Any) -> int:
    """A worker for as long as there is something to do; see ``wait`` for what comes back."""
    return wait(start(run, **how))


def start(run: Run, *, death: Death | None = None, off: Sequence[str] = (), setup: Any = None) -> int:
    from loops.runs.drive import drive
    from loops.storage import owners
    from loops.storage.connections import guard_connections
    from loops.tools import fence

    def work() -> None:
        if setup is not None:
            setup()
        fence.make_deadly()
        guard_connections()
        drive(run.pk, owners.me())

    return fork(work, death=death, off=off)


def lapse(run: Run) -> None:
    """The lease of a lost owner runs out, by the database's clock."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE agent_execution_history SET lease_until = clock_timestamp() - interval '1 second' "
            "WHERE id = %s AND owner <> ''",
            [run.pk],
        )


def wake(run: Run) -> None:
    """The time comes at which a run wanted to be looked at again."""
    Run.objects.filter(pk=run.pk, wake_at__isnull=False).update(wake_at=datetime.now(UTC) - timedelta(seconds=1))


def finish(run: Run, *, off: Sequence[str] = (), setup: Any = None, rounds: int = 25) -> bool:
    """Workers and a person do what there is to do until the run has ended; False when it does not end."""
    for _ in range(rounds):
        run.refresh_from_db()
        if run.completed_at is not None:
            return True
        if (gate := house.open_gate(run)) is not None:
            house.decide(gate)
        house.look_after(run)
        lapse(run)
        drive(run, off=off, setup=setup)
    return False


def lanes(work: Callable[[int, int], list[T]], count: int, number: int = 2) -> list[T]:
    """``work(lane, share)`` in forked lanes side by side, each with chances of its own; all that they found. Raises
    TimedOut."""
    shares = [count // number + (lane < count % number) for lane in range(number)]
    running = []
    chance = random.getrandbits(64)
    for lane, share in enumerate(shares):
        reading, writing = os.pipe()

        def one(lane: int = lane, share: int = share, writing: int = writing) -> None:
            _lane_pipes.append(writing)
            random.seed(f"{chance} {lane}")
            found: list[T] | TimedOut
            try:
                found = work(lane, share)
            except TimedOut as late:
                found = late
            with os.fdopen(_lane_pipes.pop(), "wb") as pipe:
                pipe.write(pickle.dumps(found))

        running.append((fork(one), reading))
        os.close(writing)
    found: list[list[T] | TimedOut] = []
    for child, reading in running:
        with os.fdopen(reading, "rb") as pipe, suppress(EOFError):
            found.append(pickle.load(pipe))
        _, status = os.waitpid(child, 0)
        assert status == 0, f"a lane ended with {status}\n{tail(['lean'], 30)}"
    for part in found:
        if isinstance(part, TimedOut):
            raise part
    return [one for part in found if not isinstance(part, TimedOut) for one in part]
