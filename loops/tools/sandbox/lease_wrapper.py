"""Hold a command by the lease of its worker: a small process between the two, which the kernel ends with the lease.

A frozen worker cannot stop its command, and one that wakes up late would start it. The leash arms an alarm for the
end of the lease before it starts anything, and again at every renewal that it hears of; when the alarm rings, or the
worker is gone, the leash dies, and the sandbox with it, which dies with its parent (reliability#measured, 5 and 7).

When the worker is gone, the first process of the sandbox is ended by name: bubblewrap ties it to its own life a few
milliseconds after it starts it, and without a parent it would run the whole command. So a command of a worker that has
no lease, such as that of a set-up, is held as well.
"""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import sys
from contextlib import suppress

from loops.tools.fence import Fence

ENDED_BY_LEASE = -signal.SIGALRM
"""Return code of a command whose lease was over before it had ended, or before it had begun."""
_TOLD_EVERY_S = 0.5

_HELD = """
import os, select, signal, struct, sys, time

def arm(ends):
    left = ends - time.clock_gettime(time.CLOCK_BOOTTIME)
    signal.setitimer(signal.ITIMER_REAL, max(left, 1e-6) if left < 1e9 else 0)
    if left <= 0:
        signal.pause()

signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
told = int(sys.argv[1])
os.set_inheritable(told, False)
arm(struct.unpack("d", os.read(told, 8))[0])
def end():
    # Stopped, it cannot start another one between the look at its children and its end.
    os.kill(child, signal.SIGSTOP)
    if os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1]):
        with open(f"/proc/{child}/task/{child}/children") as children:
            for one in children.read().split():
                os.kill(int(one), int(sys.argv[2]))
        os.kill(child, signal.SIGKILL)
    os._exit(137)

plain = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT)
child = os.posix_spawn(sys.argv[3], sys.argv[3:], {}, setsigdef=plain)
over = os.pidfd_open(child)
poll = select.poll()
poll.register(told, select.POLLIN)
poll.register(over, select.POLLIN)
while True:
    ready = [descriptor for descriptor, _ in poll.poll()]
    if over in ready:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os._exit(code if code >= 0 else 128 - code)
    news = os.read(told, 8)
    if not news:
        end()
    arm(struct.unpack("d", news)[0])
"""


class LeaseWrapper:
    """What the worker has of it: the end of a pipe. ``argv`` comes before the command's own words; ``ended_by`` is the
    signal that ends the first process of the sandbox, and with it every other one."""

    def __init__(self, fence: Fence, ended_by: int) -> None:
        self._fence = fence
        self._told = fence.ends()
        self._reading, self._writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self._reading, True)
        self.argv = [sys.executable, "-ISc", _HELD, str(self._reading), str(int(ended_by))]
        self.descriptors = [self._reading]
        self._tell(self._told)

    def started(self) -> None:
        os.close(self._reading)
        self.descriptors = []

    async def keep_told(self) -> None:
        """Pass every renewal on, until cancelled."""
        while True:
            await asyncio.sleep(_TOLD_EVERY_S)
            if (ends := self._fence.ends()) != self._told:
                self._told = ends
                self._tell(ends)

    def close(self) -> None:
        """Let go: a command that still runs is killed."""
        for descriptor in (*self.descriptors, self._writing):
            os.close(descriptor)
        self.descriptors = []

    def _tell(self, ends: float) -> None:
        with suppress(BrokenPipeError, BlockingIOError):
            os.write(self._writing, struct.pack("d", ends))
