"""Time: outcomes, deadlines, how late a gate is."""

from datetime import UTC, datetime, timedelta

import pytest

from gates.policy.expiry import Close, KeepOpen, Outcome, Terms, deadlines, when_expired
from gates.policy.queue import RISK_RANK, WaitState, risk_rank, waiting
from loops.models import Policy

pytestmark = pytest.mark.spec("Q7")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_no_outcome_approves() -> None:
    assert set(Outcome) == set(Policy.ExpiryOutcome.values) == {"reject", "escalate"}


def test_expiry_closes_or_gives_more_time() -> None:
    assert when_expired(Terms(outcome="reject"), NOW) == Close()
    assert when_expired(Terms(outcome="escalate", expiry_minutes=30), NOW) == KeepOpen(NOW + timedelta(minutes=30))
    assert when_expired(Terms(outcome="approve"), NOW) == Close()


def test_deadlines_come_from_the_terms() -> None:
    terms = Terms(expiry_minutes=10, sla_minutes=5)
    assert deadlines(terms, NOW) == (NOW + timedelta(minutes=10), NOW + timedelta(minutes=5))


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [(0, WaitState.FRESH), (29, WaitState.FRESH), (30, WaitState.WARNING), (60, WaitState.LATE)],
)
def test_waiting_turns_from_fresh_to_late(minutes: int, expected: WaitState) -> None:
    assert waiting(NOW, NOW + timedelta(hours=1), NOW + timedelta(minutes=minutes)) is expected


def test_without_a_due_time_nothing_is_late() -> None:
    assert waiting(NOW, None, NOW + timedelta(days=9)) is WaitState.FRESH


def test_unknown_risk_ranks_as_high() -> None:
    assert sorted(RISK_RANK, key=risk_rank) == ["low", "medium", "high", "critical"]
    assert risk_rank("odd") == risk_rank("high")
