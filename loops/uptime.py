"""A clock that nobody sets, and that goes on while the machine sleeps: what lasts is measured with it."""

from __future__ import annotations

import sys
import time


def uptime() -> float:
    """Seconds; comparable between the processes of one machine, and with nothing else."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()
