"""The verdict tables are complete and say what the models store."""

import itertools

import pytest

from gates.models import Decision, Gate
from gates.policy.verdicts import ALLOWED, LETTING, RESULT, REVIEWABLE_BYTES, SAID, Kind, Status, Verdict, allowed

pytestmark = pytest.mark.spec("Q4")


def test_tables_cover_every_kind_and_verdict() -> None:
    assert set(ALLOWED) == set(Kind)
    assert set(RESULT) == set(SAID) == set(Verdict)


def test_tables_and_models_use_the_same_words() -> None:
    assert set(Kind) == set(Gate.Kind.values)
    assert set(Verdict) == set(Decision.Verdict.values)
    assert set(Status) == set(Gate.Status.values)


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_can_be_refused_with_a_reason_and_passed_in_some_way(kind: Kind) -> None:
    no = Verdict.KEEP if kind is Kind.ROLLBACK_CHOICE else Verdict.REJECT
    assert no in ALLOWED[kind]
    assert len(ALLOWED[kind]) >= 2


@pytest.mark.parametrize("kind", Kind)
def test_no_person_can_expire_a_gate(kind: Kind) -> None:
    assert Verdict.EXPIRE not in ALLOWED[kind]


@pytest.mark.spec("Q7")
def test_time_never_approves_and_expired_is_not_rejected() -> None:
    assert RESULT[Verdict.EXPIRE] is Status.EXPIRED
    assert Verdict.EXPIRE not in LETTING


@pytest.mark.parametrize(
    ("kind", "verdict"), [pair for pair in itertools.product(Kind, Verdict) if pair[1] not in ALLOWED[pair[0]]]
)
def test_verdict_outside_the_table_is_not_allowed(kind: Kind, verdict: Verdict) -> None:
    assert verdict not in allowed(kind)


def test_unknown_kind_allows_nothing() -> None:
    assert allowed("plan") == ()


@pytest.mark.parametrize("kind", Kind)
def test_view_too_large_to_read_can_only_be_refused(kind: Kind) -> None:
    assert not set(allowed(kind, REVIEWABLE_BYTES + 1)) & LETTING
    assert allowed(kind, REVIEWABLE_BYTES) == ALLOWED[kind]
