"""The order of the queue and how late a gate is: risk first, then deadline, then age (SPEC Q7)."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

RISK_RANK = {"low": 0, "medium": 1, "high": 2, "critical": 3}
UNKNOWN_RISK = 2
"""A risk nobody knows is treated as high."""

WARNING_AT = 0.5


class WaitState(StrEnum):
    FRESH = "fresh"
    WARNING = "warning"
    LATE = "late"


def risk_rank(risk: str) -> int:
    return RISK_RANK.get(risk, UNKNOWN_RISK)


def waiting(opened_at: datetime, due_at: datetime | None, now: datetime) -> WaitState:
    """``late`` after the due time, ``warning`` when half of the allowed time has passed."""
    if due_at is None:
        return WaitState.FRESH
    if now >= due_at:
        return WaitState.LATE
    allowed = max(due_at - opened_at, timedelta(seconds=1))
    return WaitState.WARNING if (now - opened_at) / allowed >= WARNING_AT else WaitState.FRESH
