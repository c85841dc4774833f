"""An approval is taken back before the call it lets run has begun; a grave one waits for that."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from gates import services
from gates.gatekeeper import SqlGatekeeper
from gates.models import Decision, Gate
from loops.engine.ports import ApprovalVoid
from loops.jobs import _TO_RING
from loops.models import AuditEvent, MailboxItem, Run
from loops.storage import inbox, journal
from loops.storage.feed import Publisher
from tests import decisions
from tests.integration.gates.builders import SUBJECT, World, make_world, open_gate, proof_of
from tests.integration.services.world import closing_connections

pytestmark = [pytest.mark.django_db, pytest.mark.spec("Q5")]
keeper = SqlGatekeeper()
SECONDS = 600.0
GRAVE = [
    ("tool_approval", "high"),
    ("tool_approval", "critical"),
    ("tool_approval", "?"),
    ("irreversible_action", "low"),
]


@pytest.fixture(autouse=True)
def as_in_the_product(settings: Any) -> None:
    settings.TAKE_BACK_S = SECONDS


def waiting(world: World, kind: str = "tool_approval", **more: Any) -> Gate:
    """A gate of a run that has nothing else to do."""
    Run.objects.filter(pk=world.run.pk).update(runnable=False)
    return open_gate(world, kind, **more)


def approved(world: World, kind: str = "tool_approval", risk: str = "high", **more: Any) -> Gate:
    gate = waiting(world, kind, risk=risk, **more)
    payload = {"confirm": gate.tool} if kind == "irreversible_action" else {}
    decisions.decide(actor=world.reviewer, gate_id=gate.pk, verdict="approve", digest=gate.digest, payload=payload)
    gate.refresh_from_db()
    return gate


def use(gate: Gate) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        keeper.consume(str(gate.pk), SUBJECT)(cursor)


def is_heard_of(run: Run) -> tuple[bool, bool]:
    """Whether the clock rings for the run, and whether somebody who comes for it finds anything to do."""
    Run.objects.filter(pk=run.pk).update(last_activity_at=timezone.now() - timedelta(minutes=1))
    with connection.cursor() as cursor:
        cursor.execute(_TO_RING, [500])
        rings = run.pk in [row[0] for row in cursor.fetchall()]
    with transaction.atomic():
        held = journal.claim(run.pk, "somebody")
        transaction.set_rollback(True)
    return rings, held is not None


def time_passes(run: Run) -> None:
    MailboxItem.objects.filter(run=run).update(not_before=timezone.now() - timedelta(seconds=1))


@pytest.mark.parametrize(("kind", "risk"), GRAVE)
def test_a_grave_approval_is_not_heard_of_at_once(world: World, kind: str, risk: str) -> None:
    gate = approved(world, kind, risk)
    item = MailboxItem.objects.get(run=gate.run)
    assert item.not_before is not None, "it is heard of at once"
    assert timedelta(0) < item.not_before - timezone.now() <= timedelta(seconds=SECONDS)
    assert 0 < services.seconds_left(gate) <= SECONDS
    assert is_heard_of(gate.run) == (False, False)
    time_passes(gate.run)
    assert is_heard_of(gate.run) == (True, True)


@pytest.mark.parametrize(
    ("kind", "risk"), [("tool_approval", "low"), ("tool_approval", "medium"), ("final_review", "high")]
)
def test_anything_else_is(world: World, kind: str, risk: str) -> None:
    gate = approved(world, kind, risk)
    assert MailboxItem.objects.get(run=gate.run).not_before is None
    assert services.seconds_left(gate) == 0
    assert is_heard_of(gate.run) == (True, True)


def test_a_rejection_and_other_orders_do_not_wait(world: World) -> None:
    gate = waiting(world, risk="critical")
    decisions.decide(actor=world.reviewer, gate_id=gate.pk, verdict="reject", digest=gate.digest, reason="not that one")
    assert is_heard_of(gate.run) == (True, True)


def test_what_comes_meanwhile_is_heard_of_without_the_approval(world: World) -> None:
    gate = approved(world)
    inbox.put(gate.run_id, "stop", actor=world.author)
    held = journal.claim(gate.run_id, "somebody")
    assert held is not None
    mine = journal.PgJournal(held, gate.project_id, Publisher())
    assert mine.mail_kinds() == {"stop"}
    assert [signal.kind for signal in mine.mail()] == ["stop"]


@pytest.mark.parametrize(("kind", "risk"), [*GRAVE, ("tool_approval", "low")])
def test_taken_back_it_is_void_and_the_decision_stays(world: World, kind: str, risk: str) -> None:
    gate = approved(world, kind, risk)
    services.take_back(actor=world.second, gate_id=gate.pk)
    gate.refresh_from_db()
    assert gate.status == "void"
    assert gate.reasons[-1] == "taken back by Bo"
    assert Decision.objects.get(gate=gate).verdict == "approve"
    row = AuditEvent.objects.get(kind="gate.taken_back")
    assert (row.actor, row.run, row.detail["gate"]) == (world.second, gate.run, str(gate.pk))
    with pytest.raises(ApprovalVoid, match="it was taken back"):
        use(gate)
    with pytest.raises(services.AlreadyDecided, match=r"approved by Ana .* and taken back: it is asked again"):
        decisions.decide(actor=world.reviewer, gate_id=gate.pk, verdict="approve", digest=gate.digest)


def refused(world: World, gate: Gate, actor: Any, match: str) -> None:
    before = gate.status
    with pytest.raises(services.DecisionRefused, match=match) as caught:
        services.take_back(actor=actor, gate_id=gate.pk)
    gate.refresh_from_db()
    assert gate.status == before
    assert AuditEvent.objects.get(kind="gate.refused").detail["code"] == caught.value.code


def test_what_has_begun_is_not_taken_back(world: World) -> None:
    gate = approved(world)
    use(gate)
    assert services.seconds_left(Gate.objects.get(pk=gate.pk)) == 0
    refused(world, gate, world.reviewer, "It has begun")


@pytest.mark.parametrize("who", ["viewer", "author"])
def test_only_somebody_who_may_decide_takes_back(world: World, who: str) -> None:
    refused(world, approved(world), getattr(world, who), "needs the role")


def test_a_stranger_learns_nothing(world: World) -> None:
    refused(world, approved(world), world.outsider, "There is no such gate")


def test_neither_what_is_open_nor_rejected_nor_accepted_is_taken_back(world: World) -> None:
    gate = open_gate(world)
    refused(world, gate, world.reviewer, "no approval of a call")
    for kind, verdict in (("tool_approval", "reject"), ("final_review", "approve")):
        made = open_gate(world, kind)
        decisions.decide(
            actor=world.reviewer, gate_id=made.pk, verdict=verdict, digest=made.digest, reason="because it is so"
        )
        with pytest.raises(services.DecisionRefused, match="no approval of a call"):
            services.take_back(actor=world.reviewer, gate_id=made.pk)


def test_after_the_end_of_the_run_there_is_nothing_to_take_back(world: World) -> None:
    gate = approved(world)
    Run.objects.filter(pk=gate.run_id).update(status="interrupted")
    assert services.seconds_left(Gate.objects.get(pk=gate.pk)) == 0
    refused(world, gate, world.reviewer, "The run has ended")


def test_several_that_were_approved_together_are_taken_back_one_by_one(world: World) -> None:
    gates = [waiting(world, risk="high") for _ in range(2)]
    client = Client()
    client.force_login(world.reviewer)
    items = [f"{gate.pk}:{gate.digest}:{proof_of(client, gate)}" for gate in gates]
    page = client.post("/review/bulk/", {"item": items, "verdict": "approve", "confirmed": "yes"}).content.decode()
    assert "2 of 2 decided" in page
    addresses = [f"/review/{gate.pk}/take-back/" for gate in gates]
    assert [page.count(address) for address in addresses] == [1, 1]
    assert client.post(addresses[1], {"place": "bulk"}).status_code == 302
    assert [Gate.objects.get(pk=gate.pk).status for gate in gates] == ["approved", "void"]


@pytest.mark.django_db(transaction=True)
def test_of_the_call_and_whoever_takes_it_back_one_wins() -> None:
    """Both at once, twenty times: used and void exclude each other."""
    for _ in range(20):
        world = make_world()
        gate = approved(world)
        won: list[str] = []
        together = threading.Barrier(2)

        @closing_connections
        def race(act: Callable[[], Any], name: str, against: threading.Barrier, first: list[str]) -> None:
            against.wait(120)
            try:
                act()
            except (services.DecisionRefused, ApprovalVoid):
                return
            first.append(name)

        ways = {
            "used": lambda gate=gate: use(gate),
            "taken back": lambda gate=gate, world=world: services.take_back(actor=world.reviewer, gate_id=gate.pk),
        }
        racers = [threading.Thread(target=race, args=(act, name, together, won)) for name, act in ways.items()]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        gate.refresh_from_db()
        assert won == (["used"] if gate.consumed_at else ["taken back"])
        assert (gate.consumed_at is None) == (gate.status == "void")
