"""Who may decide: the whole table of role x kind x requester."""

import itertools

import pytest

from gates.policy.kinds import Kind
from gates.policy.roles import BY_OPERATORS, BY_REQUESTER, Person, objections
from gates.policy.verdicts import ALLOWED, lets

pytestmark = pytest.mark.spec("Q6")
ROLES = ("viewer", "operator", "reviewer", "admin")


@pytest.mark.parametrize(("role", "kind", "requester"), list(itertools.product(ROLES, Kind, (True, False))))
def test_role_decides_by_kind(role: str, kind: Kind, requester: bool) -> None:
    person = Person(roles=frozenset({role}), is_requester=requester)
    asked = kind in BY_OPERATORS or (requester and kind in BY_REQUESTER)
    may = role in ("reviewer", "admin") or (role == "operator" and asked)
    assert (objections(person, kind) == []) is may


@pytest.mark.parametrize("kind", Kind)
def test_without_a_role_nobody_decides_not_even_the_requester(kind: Kind) -> None:
    assert objections(Person(is_requester=True), kind)


@pytest.mark.parametrize("kind", Kind)
def test_inactive_account_decides_nothing(kind: Kind) -> None:
    assert objections(Person(roles=frozenset({"admin"}), is_superuser=True, is_active=False), kind)


@pytest.mark.parametrize(("kind", "verdict"), [(kind, one) for kind in Kind for one in ALLOWED[kind]])
@pytest.mark.parametrize("superuser", [True, False])
def test_own_approval_rule_stops_exactly_the_letting_verdicts(kind: Kind, verdict: str, superuser: bool) -> None:
    own = Person(roles=frozenset({"admin"}), is_requester=True, is_superuser=superuser)
    assert bool(objections(own, kind, verdict, own_approval_allowed=False)) is (
        lets(kind, verdict) and kind not in BY_OPERATORS
    )
    assert objections(own, kind, verdict, own_approval_allowed=True) == []
    other = Person(roles=frozenset({"reviewer"}))
    assert objections(other, kind, verdict, own_approval_allowed=False) == []
