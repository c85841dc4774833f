"""Opening, using up and withdrawing gates on the real database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gates.gatekeeper import SqlGatekeeper
from gates.models import Gate
from gates.policy import digests
from loops.engine.ports import ApprovalVoid
from tests import decisions
from tests.integration.gates.builders import SUBJECT, World, open_gate, tool_view

pytestmark = [pytest.mark.django_db, pytest.mark.spec("Q5")]
keeper = SqlGatekeeper()
other = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text(), max_size=3)


def do(within: Callable[[Any], None]) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        within(cursor)


def approved(world: World, **more: Any) -> Gate:
    gate = open_gate(world, **more)
    decisions.decide(actor=world.reviewer, gate_id=gate.pk, verdict="approve", digest=gate.digest)
    return gate


def set_gate(gate: Gate, **values: Any) -> None:
    Gate.objects.filter(pk=gate.pk).update(**values)


def expire_now(gate: Gate) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp() - interval '1 second'")
        moment = cursor.fetchone()[0]
    digest = digests.digest(subject=bytes(gate.subject), view=gate.view_hash, expires_at=moment, nonce=gate.nonce)
    set_gate(gate, expires_at=moment, digest=digest)


def test_opening_stores_what_was_shown_and_its_digest(world: World) -> None:
    gate = open_gate(world)
    assert gate.status == "open"
    assert gate.view_hash == digests.view_hash(gate.view)
    assert (gate.due_at - gate.opened_at).total_seconds() == 3600
    assert (gate.expires_at - gate.opened_at).days == 7


def test_opening_twice_with_one_id_makes_one_gate(world: World) -> None:
    from loops.engine.ports import GateRequest

    gate = open_gate(world)
    request = GateRequest(str(gate.pk), str(gate.run_id), gate.project_id, gate.kind, "again", call_id=gate.call_id)
    do(keeper.open(request))
    assert Gate.objects.get().title == gate.title


def test_approval_is_used_up_by_exactly_what_was_approved(world: World) -> None:
    gate = approved(world)
    do(keeper.consume(str(gate.pk), SUBJECT))
    gate.refresh_from_db()
    assert gate.consumed_at is not None


@pytest.mark.parametrize("field", list(SUBJECT))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(value=other)
def test_any_changed_field_voids_the_approval(world: World, field: str, value: Any) -> None:
    if value == SUBJECT[field]:
        return
    gate = Gate.objects.filter(status="approved").first() or approved(world)
    with pytest.raises(ApprovalVoid, match="differs"):
        do(keeper.consume(str(gate.pk), {**SUBJECT, field: value}))
    gate.refresh_from_db()
    assert gate.consumed_at is None


def test_second_use_is_refused(world: World) -> None:
    gate = approved(world)
    do(keeper.consume(str(gate.pk), SUBJECT))
    with pytest.raises(ApprovalVoid, match="already used"):
        do(keeper.consume(str(gate.pk), SUBJECT))


def test_approval_of_one_gate_does_not_open_another(world: World) -> None:
    approved(world)
    waiting = open_gate(world)
    with pytest.raises(ApprovalVoid, match="nobody has approved"):
        do(keeper.consume(str(waiting.pk), SUBJECT))


def test_approval_not_used_in_time_is_void_by_the_clock_of_the_database(world: World) -> None:
    gate = approved(world)
    expire_now(gate)
    with pytest.raises(ApprovalVoid, match="expired"):
        do(keeper.consume(str(gate.pk), SUBJECT))


@pytest.mark.parametrize("status", ["open", "rejected", "answered", "extended", "expired", "void"])
def test_only_approved_gates_can_be_used(world: World, status: str) -> None:
    gate = open_gate(world)
    set_gate(gate, status=status)
    with pytest.raises(ApprovalVoid):
        do(keeper.consume(str(gate.pk), SUBJECT))


def test_nested_deeper_than_reviewable_is_void_not_a_crash(world: World) -> None:
    gate = approved(world)
    deep: Any = 1
    for _ in range(500):
        deep = [deep]
    with pytest.raises(ApprovalVoid, match="deeper"):
        do(keeper.consume(str(gate.pk), {**SUBJECT, "arguments": deep}))


def test_missing_gate_is_void(world: World) -> None:
    with pytest.raises(ApprovalVoid, match="no such"):
        do(keeper.consume(str(world.run.pk), SUBJECT))


def test_withdrawing_voids_open_gates_and_leaves_decided_ones(world: World) -> None:
    decided, waiting = approved(world), open_gate(world)
    do(keeper.withdraw(str(world.run.pk), "stopped\x00"))
    decided.refresh_from_db()
    waiting.refresh_from_db()
    assert (decided.status, waiting.status) == ("approved", "void")
    assert "withdrawn: stopped" in waiting.reasons[-1]


@pytest.mark.parametrize(
    "bad", ["a\x00b", "\ud800", float("nan"), float("inf"), 2**70, 1e300, -0.0, "x" * 300_000, {"a\x00": {"$int": "1"}}]
)
def test_whatever_a_model_writes_can_be_stored_and_decided(world: World, bad: Any) -> None:
    gate = open_gate(world, subject={**SUBJECT, "arguments": bad}, view=tool_view(arguments={"x": bad}), title=str(bad))
    decisions.decide(actor=world.reviewer, gate_id=gate.pk, verdict="reject", digest=gate.digest, reason="no")
    assert Gate.objects.get().status == "rejected"


def test_works_on_a_plain_psycopg_cursor(world: World) -> None:
    gate = approved(world)
    with connection.cursor() as cursor:
        keeper.consume(str(gate.pk), SUBJECT)(cursor.connection.cursor())
    assert Gate.objects.get().consumed_at is not None


def test_without_the_condition_a_changed_action_would_pass(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: the digest in the UPDATE is what voids, nothing before it."""
    monkeypatch.setattr(
        "gates.gatekeeper._CONSUME", "UPDATE gates_gate SET consumed_at = now() WHERE id = %s AND %s <> ''"
    )
    gate = approved(world)
    do(keeper.consume(str(gate.pk), {**SUBJECT, "arguments": "other"}))
