"""No effect after the lease: whoever was frozen past it dies before it can act (SPEC J2, J3; reliability#measured, 5).

A look at the clock is not enough, since a process may be frozen between the look and the act. So a kernel timer, whose
signal ends the process, is armed first, then the clock is looked at, then the effect happens. A thread that wakes up
late finds the signal pending and never comes to the effect. The timer belongs to the thread that acts, so this holds
in a pool of threads as in a pool of processes. Commands are held by a process of their own
(``sandbox/lease_wrapper.py``).

A tool that acts over the network does its last step before the bytes leave inside ``Fence.armed``.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from loops.uptime import uptime

MARGIN_S = 1.0
"""Nothing is begun, and nothing goes on, this close to the end of the lease."""
SWITCHED_ON = os.environ.get("AGENTOPS_FENCE") != "off"
"""Off only in the negative controls of the fault tests."""

_CLOCK_BOOTTIME, _SIGEV_THREAD_ID, _TIMER_ABSTIME = 7, 4, 1
_deadly = False


class LeaseOver(Exception):
    """The lease of this run is over, or nearly: the effect did not happen."""


@dataclass(frozen=True, slots=True)
class Fence:
    """``lease_ends`` gives the end of the lease as it is known now, in seconds of ``uptime()``; renewals move it."""

    lease_ends: Callable[[], float] = lambda: math.inf

    def ends(self) -> float:
        """The last moment at which an effect may happen."""
        return self.lease_ends() - MARGIN_S if SWITCHED_ON else math.inf

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Around the one system call that is the effect. Raises LeaseOver when it may not happen any more."""
        ends = self.ends()
        if math.isinf(ends):
            yield
            return
        _check_time(ends)  # who is late already need not end the process, in which other runs go on
        with _alarm(ends):
            _check_time(ends)
            yield


def _check_time(ends: float) -> None:
    if uptime() >= ends:
        raise LeaseOver("the lease of this run is over, or nearly; nothing was done")


def make_deadly() -> None:
    """From now on a late effect ends this process: for workers, once, at their start. Raises RuntimeError when
    somebody handles the signal that has to be deadly."""
    global _deadly  # a property of the process, like its signal handlers
    _check_signal()
    _deadly = sys.platform == "linux"


def _check_signal() -> None:
    if signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        raise RuntimeError("something handles SIGALRM: it would not end a worker that acts too late")
    if signal.SIGALRM in signal.pthread_sigmask(signal.SIG_BLOCK, []):
        raise RuntimeError("SIGALRM is blocked: it would not end a worker that acts too late")


class _Event(ctypes.Structure):
    """struct sigevent of Linux: the signal goes to one thread."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("thread", ctypes.c_int),
        ("rest", ctypes.c_char * 44),
    )


class _Times(ctypes.Structure):
    """struct itimerspec."""

    _fields_ = (
        ("every_s", ctypes.c_long),
        ("every_ns", ctypes.c_long),
        ("at_s", ctypes.c_long),
        ("at_ns", ctypes.c_long),
    )


@contextmanager
def _alarm(ends: float) -> Iterator[None]:
    """While this lasts, ``ends`` is the end of the process as well."""
    if not _deadly:
        yield
        return
    _check_signal()
    libc = ctypes.CDLL(None, use_errno=True)
    event = _Event(signal=signal.SIGALRM, notify=_SIGEV_THREAD_ID, thread=threading.get_native_id())
    timer = ctypes.c_void_p()
    if libc.timer_create(_CLOCK_BOOTTIME, ctypes.byref(event), ctypes.byref(timer)):
        raise OSError(ctypes.get_errno(), "no timer for the end of the lease")
    try:
        times = _Times(0, 0, int(ends), int(ends % 1 * 1e9))
        if libc.timer_settime(timer, _TIMER_ABSTIME, ctypes.byref(times), None):
            raise OSError(ctypes.get_errno(), "the timer for the end of the lease cannot be set")
        yield
    finally:
        libc.timer_delete(timer)
