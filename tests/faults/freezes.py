"""P4, P5: an owner that froze past its lease wakes up; it writes nothing and it does nothing (SPEC J2, J3)."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Sequence

from loops.crash_points import CrashPoint
from loops.models import Run
from tests.faults import bank, guards, house, lean, oracle, stand
from tests.faults.outcome import Found, Outcome, first_harm

SCRIPT = "moves_money"
LEASE_S, UNHURRIED_S, LATE_S = 3.0, 10.0, 5.0
"""Seconds of a lease, the same beside others, and how long after it a new owner may take."""
LANES = 6
"""They mostly wait for leases."""
INSIDE = (CrashPoint.IN_TRANSITION, CrashPoint.IN_INTENT, CrashPoint.IN_COMPLETE, CrashPoint.IN_PROVENANCE)
OUTSIDE = (
    CrashPoint.CLAIMED,
    CrashPoint.BEFORE_TRANSITION,
    CrashPoint.AFTER_TRANSITION,
    CrashPoint.MODEL_ASKED,
    CrashPoint.MID_STREAM,
    CrashPoint.MODEL_ANSWERED,
    CrashPoint.BEFORE_INTENT,
    CrashPoint.AFTER_INTENT,
    CrashPoint.EFFECT_DONE,
    CrashPoint.AFTER_COMPLETE,
    CrashPoint.BEFORE_PUBLISH,
)


def check(count: int) -> list[Outcome]:
    """``count`` frozen owners of each kind."""
    wakes_up = Outcome("P4", faults=count)
    slowest = 0.0
    for found, seconds in lean.lanes(lambda lane, share: [_frozen_anywhere() for _ in range(share)], count, LANES):
        wakes_up.found += found
        slowest = max(slowest, seconds)
    wakes_up.notes.append(f"slowest takeover {slowest:.1f} s after the lease (allowed {stand.within(LATE_S):.0f} s)")
    wakes_up.control = first_harm(
        lambda: frozen(CrashPoint.MODEL_ASKED, off=["fence", "deadline"])[0], "after the end", 8
    )
    acts_late = Outcome("P5", faults=count)
    for found in lean.lanes(lambda lane, share: [retried() for _ in range(share)], count, LANES):
        acts_late.found += found
    acts_late.control = first_harm(lambda: retried(off=["deadline"]), "happened", 8)
    return [wakes_up, acts_late]


def _frozen_anywhere() -> tuple[Found, float]:
    """At a point inside a transaction, at one outside of all, or whenever it happens to be."""
    point = random.choice((random.choice(INSIDE), random.choice(OUTSIDE), None))
    return frozen(point)


def frozen(point: CrashPoint | None, off: Sequence[str] = ()) -> tuple[Found, float]:
    """One owner freezes, another goes on to the end, the first wakes up. Seconds until the run was somebody else's."""
    run = house.submit(SCRIPT)
    death = lean.Death(point, random.choice((1, 1, 2)), signal.SIGSTOP) if point is not None else None
    owner = lean.start(run, death=death, off=off, setup=_short_lease)
    if point is None:
        time.sleep(random.uniform(0.0, 0.2))
        os.kill(owner, signal.SIGSTOP)
    if not _stopped(owner):
        lean.finish(run, off=off, setup=_short_lease)
        return oracle.examine(run), 0.0
    seconds = 0.0
    try:
        seconds = _taken_over(run, off)
        ended = lean.finish(run, off=off, setup=_short_lease)
    finally:
        os.kill(owner, signal.SIGCONT)
        lean.wait(owner)
    found = oracle.examine(run)
    if seconds > stand.within(LATE_S) or not ended:
        found.lost.append(f"{run.pk}: frozen at {point and point.name}, taken over after {seconds:.1f} s")
    return found, seconds


def _taken_over(run: Run, off: Sequence[str]) -> float:
    """Seconds from the end of the lease until another worker got the run, as a sweeper keeps ringing for it."""
    run.refresh_from_db()
    if run.epoch and not run.owner:
        return 0.0  # it froze when it had just given the run back: there is nothing to take
    epoch = run.epoch
    _wait_for_end_of_lease(run)
    began = time.monotonic()
    while time.monotonic() - began < stand.within(3 * LATE_S):
        lean.drive(run, off=off, setup=_short_lease)
        run.refresh_from_db()
        if run.epoch > epoch:
            return time.monotonic() - began
    return stand.within(3 * LATE_S)


def _stopped(child: int) -> bool:
    """Did it freeze? False when it came to its end before."""
    _, status = os.waitpid(child, os.WUNTRACED)
    return os.WIFSTOPPED(status)


def retried(off: Sequence[str] = ()) -> Found:
    """The owner freezes between INTENT and effect, a person has the call made again, then the owner wakes up."""
    run, owner = _frozen_before_the_effect(off)
    found, ended = Found(), False
    try:
        _wait_for_end_of_lease(run)
        for _ in range(3):  # a short lease may be over before the next one comes as far as its question, too
            lean.drive(run, off=off, setup=_short_lease)
            if (gate := house.open_gate(run)) is not None:
                break
            _wait_for_end_of_lease(run)
        if gate is None:
            found.broken.append(f"{run.pk}: nobody was asked about a call in doubt")
        else:
            house.decide(gate)
        ended = lean.finish(run, off=off, setup=_short_lease)
    finally:
        os.kill(owner, signal.SIGCONT)
        lean.wait(owner)
    found += oracle.examine(run)
    if not ended:
        found.lost.append(f"{run.pk}: has not ended")
    return found


def _frozen_before_the_effect(off: Sequence[str]) -> tuple[Run, int]:
    """A run and its frozen owner. On a busy machine a short lease may be over before the owner comes that far."""
    for _ in range(10):
        run = house.submit("short_errand")
        death = random.choice((lean.Death(CrashPoint.AFTER_INTENT, 1, signal.SIGSTOP), None))
        owner = lean.start(
            run, death=death, off=off, setup=lambda in_the_fence=death is None: _about_to_freeze(in_the_fence)
        )
        if _stopped(owner):
            return run, owner
        lean.finish(run, off=off, setup=_short_lease)
    raise AssertionError("no owner came as far as its effect within its lease")


def _short_lease() -> None:
    guards.lease(LEASE_S if stand.is_alone() else UNHURRIED_S)


def _about_to_freeze(in_the_fence: bool) -> None:
    """A lease of seconds, and a freeze right after the INTENT or at the very last
    moment, when it has looked at the clock already."""
    _short_lease()
    if in_the_fence:
        bank.last_moment = lambda: os.kill(os.getpid(), signal.SIGSTOP)


def _wait_for_end_of_lease(run: Run) -> None:
    """By the database's clock: nothing is moved here, the lease really runs out."""
    from django.db import connection

    def over() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT coalesce(lease_until < clock_timestamp(), true) FROM agent_execution_history WHERE id = %s",
                [run.pk],
            )
            return bool(cursor.fetchone()[0])

    assert stand.wait_for(over, 120) >= 0
