"""How many examples a property gets: HYPOTHESIS_PROFILE=full for the thorough run, the quick one otherwise."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

FULL = os.environ.get("HYPOTHESIS_PROFILE", "") == "full"


def examples(quick: int, full: int) -> settings:
    """Settings of one property. In CI the same examples are tried each time."""
    return settings(
        max_examples=full if FULL else quick,
        deadline=None,
        derandomize=bool(os.environ.get("CI")) and not FULL,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
