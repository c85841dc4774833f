"""What happens when nobody decides in time (SPEC Q7): reject the wait or escalate it, never approve."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class Outcome(StrEnum):
    """``Policy.expiry_outcome``. There is no third: time never approves anything."""

    REJECT = "reject"
    ESCALATE = "escalate"


@dataclass(frozen=True, slots=True)
class Terms:
    """The part of a project's policy that concerns waiting: how long a gate may, and when it is late. A project without
    a policy has these; what new policies begin with are the defaults of ``Policy`` in ``loops/models/policies.py``."""

    expiry_minutes: int = 7 * 24 * 60
    sla_minutes: int = 60
    outcome: str = Outcome.REJECT
    own_approval_allowed: bool = True


@dataclass(frozen=True, slots=True)
class Close:
    """The gate ends as ``expired``, which is not ``rejected``: nobody said no."""


@dataclass(frozen=True, slots=True)
class KeepOpen:
    """The gate stays open, is marked overdue, and gets a new deadline (so also a new digest)."""

    expires_at: datetime


def when_expired(terms: Terms, now: datetime) -> Close | KeepOpen:
    if terms.outcome == Outcome.ESCALATE:
        return KeepOpen(now + timedelta(minutes=terms.expiry_minutes))
    return Close()


def deadlines(terms: Terms, now: datetime) -> tuple[datetime, datetime]:
    """(expires_at, due_at) of a gate that opens now."""
    return now + timedelta(minutes=terms.expiry_minutes), now + timedelta(minutes=terms.sla_minutes)
