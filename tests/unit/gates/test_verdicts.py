"""The verdict tables are complete and say what the models store."""

import itertools

import pytest

from gates.models import Decision, Gate
from gates.policy.kinds import Kind
from gates.policy.verdicts import (
    ALLOWED,
    LETS,
    LETTING,
    ONLY_TELLS,
    RESULT,
    REVIEWABLE_BYTES,
    SAID,
    Status,
    allowed,
    lets,
)
from loops.engine.values import Verdict

pytestmark = pytest.mark.spec("Q4")


def test_tables_cover_every_kind_and_verdict() -> None:
    assert set(ALLOWED) == set(Kind)
    assert set(RESULT) == set(SAID) == set(LETS) == set(Verdict)


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


@pytest.mark.spec("Q6")
def test_only_what_stops_or_keeps_lets_nothing_happen() -> None:
    """Complete over the tables: whoever adds a verdict or a kind has to say what it lets happen."""
    harmless = {(kind, one) for kind in Kind for one in ALLOWED[kind] if not lets(kind, one)}
    told = {(Kind.QUESTION, Verdict.RESPOND)}
    refusals = {(kind, one) for kind in Kind for one in ALLOWED[kind] if one in (Verdict.REJECT, Verdict.KEEP)}
    assert harmless == told | refusals
    assert told == ONLY_TELLS
    assert lets(Kind.IN_DOUBT, Verdict.RESPOND), "not_done runs it again"
    assert lets("a kind of tomorrow", "a verdict of tomorrow")


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
    assert not any(lets(kind, one) for one in allowed(kind, REVIEWABLE_BYTES + 1))
    assert allowed(kind, REVIEWABLE_BYTES) == ALLOWED[kind]
