"""A plugin of pytest: each test begins two seconds before the next midnight. Time goes forwards, a day for a test."""

from __future__ import annotations

import time

from tests.clock.offset import Offset

DAY_S = 86_400
BEFORE_S = 2


def pytest_runtest_logstart() -> None:
    """Before the first fixture."""
    now = time.time_ns()
    eve = (DAY_S - BEFORE_S) * 10**9
    Offset.of_this_run().move((eve - now) % (DAY_S * 10**9))
