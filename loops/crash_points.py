"""The places where the fault tests kill or freeze a process (reliability#crash-points). Off, they cost one comparison.

``AGENTOPS_CRASH_AT=AFTER_INTENT:2`` kills the process with SIGKILL when it comes to that point for the second time;
``AGENTOPS_CRASH_AT=IN_TRANSITION:1:SIGSTOP`` freezes it instead.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any


class CrashPoint(StrEnum):
    """In the order of a run's life. A transition is a commit with a PhaseEntered in it."""

    SUBMITTED = "submit committed, bell not rung"
    BELL_HEARD = "bell heard, not claimed"
    CLAIMED = "claimed"
    BEFORE_TRANSITION = "before the transaction of a transition"
    IN_TRANSITION = "inside it"
    AFTER_TRANSITION = "after it"
    MODEL_ASKED = "request journalled, about to be sent"
    MID_STREAM = "in the middle of an answer"
    MODEL_ANSWERED = "whole answer received, nothing of it used"
    GATE_OPENED = "gate opened, worker not released"
    DECIDED = "decision committed, bell not rung"
    BEFORE_INTENT = "before the transaction of an INTENT"
    IN_INTENT = "inside it, the approval used up"
    AFTER_INTENT = "INTENT committed, no effect"
    EFFECT_DONE = "effect done, no COMPLETE"
    IN_COMPLETE = "inside the transaction of a COMPLETE"
    AFTER_COMPLETE = "COMPLETE committed, nothing after it"
    BETWEEN_COMPENSATIONS = "between two compensations"
    IN_PROVENANCE = "inside the commit of the provenance"
    BEFORE_PUBLISH = "committed, watchers not told"


class Moments:
    """What happens around one commit: nothing, unless a point is armed."""

    def __init__(
        self, before: Iterable[CrashPoint] = (), inside: Iterable[CrashPoint] = (), after: Iterable[CrashPoint] = ()
    ) -> None:
        self._before, self._after = tuple(before), tuple(after)
        self.inside: tuple[Callable[[Any], None], ...] = tuple(_joining(point) for point in inside)
        """Writes that join the transaction, after everything else in it."""

    def before(self) -> None:
        for point in self._before:
            reach(point)

    def after(self) -> None:
        for point in self._after:
            reach(point)


_NONE = Moments()
_BEFORE = {"PhaseEntered": CrashPoint.BEFORE_TRANSITION, "ToolIntended": CrashPoint.BEFORE_INTENT}
_INSIDE = {
    "PhaseEntered": CrashPoint.IN_TRANSITION,
    "ToolIntended": CrashPoint.IN_INTENT,
    "ToolCompleted": CrashPoint.IN_COMPLETE,
}
_AFTER = {
    "PhaseEntered": CrashPoint.AFTER_TRANSITION,
    "ToolIntended": CrashPoint.AFTER_INTENT,
    "ToolCompleted": CrashPoint.AFTER_COMPLETE,
}
_armed: CrashPoint | None = None
_left = 0
_signal = signal.SIGKILL
_lock = threading.Lock()


def reach(point: CrashPoint) -> None:
    """Die or freeze here if this is the armed point and its turn has come."""
    if _armed is point:
        _count_down()


def moments(kinds: Iterable[str]) -> Moments:
    """The points around a commit of facts of these kinds."""
    if _armed is None:
        return _NONE
    found = set(kinds)
    return Moments(*([table[kind] for kind in table if kind in found] for table in (_BEFORE, _INSIDE, _AFTER)))


def arm(point: CrashPoint | None, count: int = 1, how: signal.Signals = signal.SIGKILL) -> None:
    """Let this process end, or freeze, at the ``count``-th time it reaches ``point``; None disarms."""
    global _armed, _left, _signal
    _armed, _left, _signal = point, count, how


def _count_down() -> None:
    global _left
    with _lock:
        _left -= 1
        if _left == 0:
            signal.pthread_kill(threading.get_ident(), _signal)  # this very thread, so that it comes no further


def _joining(point: CrashPoint) -> Callable[[Any], None]:
    return lambda cursor: reach(point)


def _from_environment(asked: str) -> None:
    name, _, rest = asked.partition(":")
    count, _, how = rest.partition(":")
    arm(CrashPoint[name], int(count or 1), signal.Signals[how or "SIGKILL"])


if _asked := os.environ.get("AGENTOPS_CRASH_AT"):
    _from_environment(_asked)
