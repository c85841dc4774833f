"""How many examples a property gets, by HYPOTHESIS_PROFILE: quick at work, usual in the suite and CI, full by hand."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE") or ("usual" if os.environ.get("CI") else "quick")
FULL = PROFILE == "full"


def examples(usual: int, full: int) -> settings:
    """Settings of one property. In CI the same examples are tried each time."""
    return settings(
        max_examples={"quick": max(3, usual // 15), "usual": usual, "full": full}[PROFILE],
        deadline=None,
        derandomize=bool(os.environ.get("CI")) and not FULL,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
