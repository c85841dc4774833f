"""Deciding: who, when, what, and exactly once."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import F

from gates import services
from gates.models import Decision, Gate
from gates.policy import digests
from gates.policy.verdicts import REVIEWABLE_BYTES
from gates.services.disclosure import whole_proof
from loops.engine.ports import Judgement
from loops.engine.values import Access
from loops.models import AuditEvent, MailboxItem, Membership, Policy
from tests import decisions
from tests.integration.gates.builders import SUBJECT, World, make_world, open_gate, person, tool_view
from tests.integration.gates.test_gatekeeper import do, expire_now, keeper

pytestmark = [pytest.mark.django_db, pytest.mark.spec("Q5")]
Rejudge = Callable[..., Judgement]


def decide(world: World, gate: Gate, verdict: str = "approve", *, actor: Any = None, **more: Any) -> Decision:
    more.setdefault("digest", gate.digest)
    return decisions.decide(actor=actor or world.reviewer, gate_id=gate.pk, verdict=verdict, **more)


def refused(code: str) -> AuditEvent:
    event = AuditEvent.objects.get(kind="gate.refused")
    assert event.detail["code"] == code
    return event


@pytest.fixture
def wiring(monkeypatch: pytest.MonkeyPatch) -> Callable[[Rejudge], None]:
    def use(rejudge: Rejudge) -> None:
        module = types.ModuleType("loops.runs.composition")
        module.rejudge = rejudge  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "loops.runs.composition", module)

    return use


@pytest.mark.parametrize(
    ("kind", "verdict", "payload", "status"),
    [
        ("tool_approval", "approve", {}, "approved"),
        ("tool_approval", "reject", {}, "rejected"),
        ("irreversible_action", "approve", {"confirm": "write_file"}, "approved"),
        ("question", "respond", {"answer": "The blue one"}, "answered"),
        ("final_review", "approve", {}, "approved"),
        ("limit_reached", "extend", {"max_steps": 50}, "extended"),
        ("loop_detected", "respond", {"answer": "Read the error"}, "answered"),
        ("in_doubt", "respond", {"outcome": "not_done"}, "answered"),
    ],
)
@pytest.mark.spec("Q4")
def test_decision_moves_the_gate_and_reaches_the_run(
    world: World, kind: str, verdict: str, payload: dict[str, Any], status: str
) -> None:
    gate = open_gate(world, kind)
    decide(world, gate, verdict, reason="because", payload=payload)
    gate.refresh_from_db()
    world.run.refresh_from_db()
    item = MailboxItem.objects.get(kind="decision")
    assert (gate.status, gate.decided_at is not None, world.run.runnable) == (status, True, True)
    assert (item.payload["verdict"], item.payload["kind"], item.payload["call_id"]) == (verdict, kind, gate.call_id)
    assert item.payload["payload"] == {k: v for k, v in payload.items() if k != "confirm"}
    assert (item.payload["by"], item.payload["digest"]) == (world.reviewer.username, gate.digest)


def test_second_decision_hears_who_was_first(world: World) -> None:
    gate = open_gate(world)
    decide(world, gate)
    with pytest.raises(services.AlreadyDecided, match=r"approved by Ana at \d\d:\d\d UTC") as caught:
        decide(world, gate, "reject", actor=world.second, reason="no")
    assert (caught.value.by, caught.value.verdict) == ("Ana", "approve")
    assert Decision.objects.count() == 1
    refused("already_decided")


def test_withdrawn_gate_needs_no_decision(world: World) -> None:
    gate = open_gate(world)
    do(keeper.withdraw(str(world.run.pk), "stopped"))
    with pytest.raises(services.AlreadyDecided, match="no longer needs"):
        decide(world, gate)


@pytest.mark.spec("Q4")
@pytest.mark.parametrize(("kind", "verdict"), [("question", "approve"), ("tool_approval", "extend")])
def test_a_verdict_that_does_not_fit_the_kind_is_refused(world: World, kind: str, verdict: str) -> None:
    gate = open_gate(world, kind)
    with pytest.raises(services.InvalidDecision, match="Not possible at this gate"):
        decide(world, gate, verdict, payload={"max_steps": 50} if verdict == "extend" else {})
    assert not Decision.objects.exists()


@pytest.mark.parametrize(
    ("kind", "verdict", "payload", "view", "field"),
    [
        pytest.param("tool_approval", "approve", {"approved": True}, {}, "approved", id="unknown field"),
        pytest.param("tool_approval", "reject", {}, {}, "reason", id="no reason"),
        pytest.param(
            "rollback_choice", "continue", {}, {"choices": ["roll_back", "keep"]}, "verdict", id="cannot go on",
            marks=pytest.mark.spec("O3"),
        ),
    ],
)  # fmt: skip
@pytest.mark.spec("Q4")
def test_what_comes_with_a_verdict_has_to_fit(
    world: World, kind: str, verdict: str, payload: dict[str, Any], view: dict[str, Any], field: str
) -> None:
    with pytest.raises(services.InvalidDecision) as refusal:
        decide(world, open_gate(world, kind, view=tool_view(**view)), verdict, payload=payload)
    assert set(refusal.value.errors) == {field}
    assert not Decision.objects.exists()


def test_digest_of_another_view_is_refused(world: World) -> None:
    gate = open_gate(world)
    with pytest.raises(services.GateChanged, match="since the page was loaded"):
        decide(world, gate, digest=open_gate(world).digest)
    refused("changed")


@pytest.mark.parametrize(
    "change",
    [
        {"view": {"tool": "write_file", "arguments": {"path": "harmless"}}},
        {"subject": b"{}"},
        {"expires_at": F("expires_at") + timedelta(days=1)},
        {"nonce": "0" * 32},
    ],
    ids=["view", "subject", "expires_at", "nonce"],
)
def test_rewriting_the_row_voids_it(world: World, change: dict[str, Any]) -> None:
    gate = open_gate(world)
    Gate.objects.filter(pk=gate.pk).update(**change)
    with pytest.raises(services.GateChanged, match="changed in the database"):
        decide(world, gate)


@pytest.mark.spec("Q7")
def test_decision_after_expiry_is_neither_approval_nor_rejection(world: World) -> None:
    gate = open_gate(world)
    expire_now(gate)
    gate.refresh_from_db()
    with pytest.raises(services.GateExpired):
        decide(world, gate)
    assert not Decision.objects.exists()
    refused("expired")


@pytest.mark.spec("Q6")
def test_requester_cannot_approve_where_policy_says_so(db: Any) -> None:
    world = make_world(own_approval_allowed=False)
    Membership.objects.create(project=world.project, user=world.author, role="reviewer")
    gate = open_gate(world)
    with pytest.raises(services.NotAllowed, match="another person"):
        decide(world, gate, actor=world.author)
    refused("not_allowed")
    assert decide(world, gate, actor=world.second).decided_by == world.second


@pytest.mark.spec("Q6")
def test_requester_may_approve_where_policy_allows(world: World) -> None:
    Membership.objects.create(project=world.project, user=world.author, role="reviewer")
    assert decide(world, open_gate(world), actor=world.author)


@pytest.mark.spec("Q6")
@pytest.mark.parametrize("who", ["viewer", "author"])
def test_other_roles_cannot_decide(world: World, who: str) -> None:
    with pytest.raises(services.NotAllowed):
        decide(world, open_gate(world), actor=getattr(world, who))


@pytest.mark.spec("Q6", "S4")
def test_gate_of_another_project_does_not_exist_for_an_outsider(world: World) -> None:
    with pytest.raises(services.GateNotFound):
        decide(world, open_gate(world), actor=world.outsider)
    assert refused("not_found").actor == world.outsider


def test_role_lost_after_the_page_was_loaded_counts(world: World) -> None:
    gate = open_gate(world)
    Membership.objects.filter(user=world.reviewer).update(role="viewer")
    with pytest.raises(services.NotAllowed):
        decide(world, gate)


@pytest.mark.spec("Q6")
def test_account_closed_after_the_page_was_loaded_counts(world: World) -> None:
    gate = open_gate(world)
    type(world.reviewer).objects.filter(pk=world.reviewer.pk).update(is_active=False)
    with pytest.raises(services.NotAllowed, match="not active"):
        decide(world, gate)


@pytest.mark.spec("O1")
def test_irreversible_action_needs_the_word(world: World) -> None:
    gate = open_gate(world, "irreversible_action")
    with pytest.raises(services.InvalidDecision) as caught:
        decide(world, gate)
    assert "confirm" in caught.value.errors
    assert decide(world, gate, payload={"confirm": "write_file"}).payload == {}


def test_approval_binds_to_the_edited_arguments(world: World, wiring: Callable[[Rejudge], None]) -> None:
    gate = open_gate(world)
    edited = {"path": "b.md", "content": "two\n"}
    subject = {**SUBJECT, "arguments": edited}
    wiring(
        lambda run_id, call_id, tool, arguments: Judgement(
            call_id, Access.ASK, gate_kind="tool_approval", subject=subject
        )
    )
    decision = decide(world, gate, "approve_with_edits", payload={"arguments": edited})
    gate.refresh_from_db()
    assert (decision.digest == gate.digest, bytes(gate.subject)) == (False, digests.subject_bytes(subject))
    with pytest.raises(Exception, match="differs"):
        do(keeper.consume(str(gate.pk), SUBJECT))
    do(keeper.consume(str(gate.pk), subject))


@pytest.mark.parametrize(
    ("judgement", "field"),
    [
        (Judgement("c", Access.DENY, invalid=True, reasons=("path: must not be empty",)), "arguments.path"),
        (Judgement("c", Access.DENY, reasons=("outside the workspace",)), ""),
        (Judgement("c", Access.ASK, gate_kind="irreversible_action"), ""),
        (Judgement("c", Access.ASK, gate_kind="tool_approval", risk="high"), ""),
    ],
)
def test_edited_arguments_are_judged_again(
    world: World, wiring: Callable[[Rejudge], None], judgement: Judgement, field: str
) -> None:
    gate = open_gate(world)
    wiring(lambda *_: judgement)
    with pytest.raises(services.InvalidDecision) as caught:
        decide(world, gate, "approve_with_edits", payload={"arguments": {"path": ""}})
    assert list(caught.value.errors) == [field]
    gate.refresh_from_db()
    assert gate.is_open


def test_role_that_may_not_decide_cannot_even_have_arguments_judged(
    world: World, wiring: Callable[[Rejudge], None]
) -> None:
    def never(*_: Any) -> Judgement:
        pytest.fail("judged for somebody who may not decide")

    wiring(never)
    with pytest.raises(services.NotAllowed):
        decide(world, open_gate(world), "approve_with_edits", actor=world.viewer, payload={"arguments": {}})


@pytest.mark.spec("N1")
@pytest.mark.parametrize("statement", ["UPDATE gates_decision SET verdict = 'approve'", "DELETE FROM gates_decision"])
def test_decisions_cannot_be_rewritten(world: World, statement: str) -> None:
    decide(world, open_gate(world), "reject", reason="no")
    with pytest.raises(DatabaseError, match="permission denied"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


# --- time, claims, bulk ---------------------------------------------------------------------------------------------


@pytest.mark.spec("Q7")
def test_expired_gate_is_closed_by_nobody_and_the_run_hears_it(world: World) -> None:
    gate, fresh = open_gate(world), open_gate(world)
    expire_now(gate)
    assert services.expire_due() == 1
    assert services.expire_due() == 0
    gate.refresh_from_db()
    fresh.refresh_from_db()
    assert (gate.status, gate.decision.verdict, gate.decision.decided_by) == ("expired", "expire", None)
    assert (fresh.status, MailboxItem.objects.get().payload["verdict"]) == ("open", "expire")


@pytest.mark.spec("Q7")
def test_escalated_gate_stays_open_overdue_with_a_new_digest(world: World) -> None:
    Policy.objects.update(expiry_outcome="escalate")
    gate = open_gate(world)
    expire_now(gate)
    gate.refresh_from_db()
    services.expire_due()
    before, gate = gate, Gate.objects.get()
    assert (gate.is_open, gate.overdue, gate.expires_at > before.expires_at) == (True, True, True)
    with pytest.raises(services.GateChanged):
        decide(world, before)
    decide(world, gate)
    do(keeper.consume(str(gate.pk), SUBJECT))


@pytest.mark.spec("Q7")
def test_claim_is_exclusive_until_it_is_released(world: World) -> None:
    gate = open_gate(world)
    assert services.claim(actor=world.reviewer, gate_id=gate.pk).claimed_by == world.reviewer
    with pytest.raises(services.NotAllowed, match="ana"):
        services.claim(actor=world.second, gate_id=gate.pk)
    services.release(actor=world.second, gate_id=gate.pk)
    assert services.claim(actor=world.reviewer, gate_id=gate.pk)
    services.release(actor=world.reviewer, gate_id=gate.pk)
    assert services.claim(actor=world.second, gate_id=gate.pk).claimed_by == world.second


@pytest.mark.spec("Q7")
def test_bulk_decides_each_and_tells_of_each(world: World) -> None:
    gates = [open_gate(world) for _ in range(3)]
    items = [services.BulkItem(str(gate.pk), gate.digest, whole_proof(world.reviewer, gate)) for gate in gates[:2]]
    items.append(services.BulkItem(str(gates[2].pk), "old"))
    results = services.decide_many(actor=world.reviewer, items=items, verdict="approve")
    assert [result.ok for result in results] == [True, True, False]
    assert getattr(results[2].refusal, "code", "") == "changed"


@pytest.mark.spec("Q7")
@pytest.mark.parametrize("more", [{"kind": "final_review"}, {"risk": "high"}])
def test_bulk_never_crosses_kinds_or_risks(world: World, more: dict[str, Any]) -> None:
    gates = [open_gate(world), open_gate(world, **more)]
    items = [services.BulkItem(str(gate.pk), gate.digest) for gate in gates]
    with pytest.raises(services.InvalidDecision, match="one kind and one risk"):
        services.decide_many(actor=world.reviewer, items=items, verdict="reject", reason="no")
    assert not Decision.objects.exists()


@pytest.mark.spec("O1", "Q7")
def test_bulk_never_approves_what_cannot_be_undone(world: World) -> None:
    gate = open_gate(world, "irreversible_action")
    with pytest.raises(services.InvalidDecision, match="one by one"):
        services.decide_many(
            actor=world.reviewer, items=[services.BulkItem(str(gate.pk), gate.digest)], verdict="approve"
        )


# --- the queue ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("Q7")
def test_queue_puts_risk_and_deadline_before_age(world: World) -> None:
    late_low = open_gate(world, risk="low")
    old, young, high = open_gate(world), open_gate(world), open_gate(world, risk="high")
    Gate.objects.filter(pk=young.pk).update(due_at=old.opened_at)
    order = list(Gate.objects.waiting_for(world.reviewer).ranked().values_list("pk", flat=True))
    assert order == [high.pk, young.pk, old.pk, late_low.pk]


@pytest.mark.spec("Q6", "Q7")
def test_queue_holds_exactly_what_a_person_may_decide(db: Any) -> None:
    world = make_world(own_approval_allowed=False)
    Membership.objects.create(project=world.project, user=world.reviewer, role="admin")  # two roles, one row
    root = person("root", is_superuser=True)
    for kind in Gate.Kind.values:
        open_gate(world, kind)
    for user in (world.author, world.reviewer, world.viewer, world.outsider, root):
        queue = list(Gate.objects.waiting_for(user))
        may = [gate for gate in Gate.objects.visible_to(user) if not services.objections_of(user, gate)]
        assert {gate.pk for gate in queue} == {gate.pk for gate in may}
        assert len(queue) == len({gate.pk for gate in queue})


@pytest.mark.spec("Q3", "Q5")
@pytest.mark.parametrize(
    ("view", "named"),
    [
        ({"path": "data.json", "diff": "+x", "diff_chars": 1_616_052}, "data.json: its diff of 1,616,052 characters"),
        ({"scripts": [{"path": "big.sh", "content": "(9 bytes)", "is_hidden": True}]}, "big.sh: this script"),
    ],
)
def test_what_is_shown_in_part_only_cannot_be_approved(view: dict[str, Any], named: str) -> None:
    world = make_world()
    gate = open_gate(world, view=tool_view(**view))
    with pytest.raises(services.InvalidDecision, match="not all of it can be shown") as refusal:
        decide(world, gate)
    assert named in str(refusal.value.errors)
    assert decide(world, gate, "reject", reason="In parts, please").verdict == "reject"


@pytest.mark.spec("Q4")
@pytest.mark.parametrize(("more", "may"), [(0, True), (1, False)])
def test_what_nobody_reads_to_its_end_cannot_be_approved(more: int, may: bool) -> None:
    world = make_world()
    rest = REVIEWABLE_BYTES - len(json.dumps(tool_view(reasoning=""), ensure_ascii=False))
    gate = open_gate(world, view=tool_view(reasoning="x" * (rest + more)))
    with nullcontext() if may else pytest.raises(services.InvalidDecision, match="Not possible at this gate"):
        decide(world, gate)
    assert Decision.objects.exists() is may


@pytest.mark.spec("Q5")
def test_a_deletion_need_not_be_read_to_its_end() -> None:
    world = make_world()
    gate = open_gate(world, view=tool_view(path="old.log", diff="-x", diff_chars=1_000_000, deleted=True))
    assert decide(world, gate).verdict == "approve"
