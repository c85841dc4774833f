"""Whoever shaped a run is its requester, where the policy asks for a second pair of eyes (SPEC Q6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from gates import services
from gates.models import Decision, Gate
from gates.services.disclosure import whole_proof
from loops.models import AuditEvent, Fork, Policy
from loops.services.steering import send_message
from tests import decisions
from tests.integration.gates.builders import World, make_run, make_world, open_gate

pytestmark = [pytest.mark.django_db, pytest.mark.spec("Q6")]


@pytest.fixture
def world(db: Any) -> World:
    world = make_world(own_approval_allowed=False)
    world.reviewer.memberships.create(project=world.project, role="admin")
    return world


def decided(world: World, kind: str, verdict: str, **more: Any) -> None:
    gate = open_gate(world, kind, **more.pop("gate", {}))
    decisions.decide(actor=world.reviewer, gate_id=gate.pk, verdict=verdict, digest=gate.digest, **more)


def wrote(world: World) -> None:
    send_message(actor=world.reviewer, run=world.run, text="Push it to production instead")


def answered(world: World) -> None:
    decided(world, "question", "respond", payload={"answer": "production"})


def guided(world: World) -> None:
    decided(world, "escalation", "respond", payload={"answer": "try the other key"})


def extended(world: World) -> None:
    view = {"limit": "max_steps", "used": 20, "bound": 20}
    decided(world, "limit_reached", "extend", gate={"view": view}, payload={"max_steps": 90})


def edited(world: World) -> None:
    gate = open_gate(world)
    Decision.objects.create(gate=gate, verdict="approve_with_edits", digest=gate.digest, decided_by=world.reviewer)
    Gate.objects.filter(pk=gate.pk).update(status="approved")


def forked(world: World) -> None:
    before = world.run
    world.run = make_run(world.project, world.author)
    Fork.objects.create(
        run=world.run, parent=before, seq=1, step=1, head=b"", content_sha256="", created_by=world.reviewer
    )


def forked_what_they_wrote_to(world: World) -> None:
    wrote(world)
    before = world.run
    world.run = make_run(world.project, world.author)
    Fork.objects.create(
        run=world.run, parent=before, seq=1, step=1, head=b"", content_sha256="", created_by=world.second
    )


def asked_of(user: Any) -> set[str]:
    """The gates that wait for them, as programs are told."""
    client = Client()
    client.force_login(user)
    return {row["id"] for row in client.get("/api/v1/gates/?waiting_for_me=true").json()["results"]}


WAYS = [wrote, answered, guided, extended, edited, forked, forked_what_they_wrote_to]


@pytest.mark.parametrize("shape", WAYS)
def test_whoever_shaped_a_run_approves_nothing_of_it(world: World, shape: Callable[[World], None]) -> None:
    shape(world)
    gate = open_gate(world, run=world.run)
    with pytest.raises(services.NotAllowed, match="You forked, messaged, edited or answered this run"):
        decisions.decide(actor=world.reviewer, gate_id=gate.pk, verdict="approve", digest=gate.digest)
    assert AuditEvent.objects.filter(kind="gate.refused", actor=world.reviewer).count() == 1
    assert str(gate.pk) not in asked_of(world.reviewer)
    decisions.decide(actor=world.reviewer, gate_id=gate.pk, verdict="reject", digest=gate.digest, reason="no")


@pytest.mark.parametrize("shape", WAYS[:-2])
def test_somebody_else_still_may_and_so_may_they_where_the_policy_lets_them(
    world: World, shape: Callable[[World], None]
) -> None:
    shape(world)
    gate, other = open_gate(world), open_gate(world)
    assert str(gate.pk) in asked_of(world.second)
    decisions.decide(actor=world.second, gate_id=gate.pk, verdict="approve", digest=gate.digest)
    Policy.objects.update(own_approval_allowed=True)
    decisions.decide(actor=world.reviewer, gate_id=other.pk, verdict="approve", digest=other.digest)


def test_approving_and_rejecting_shape_nothing(world: World) -> None:
    decided(world, "tool_approval", "approve")
    decided(world, "tool_approval", "reject", reason="another way, please")
    decided(world, "tool_approval", "approve")


@pytest.mark.parametrize("payload", [{"outcome": "done"}, {"outcome": "not_done"}])
def test_saying_what_came_of_it_lets_it_go_on_and_is_for_another(world: World, payload: dict[str, str]) -> None:
    """By a door, as the one who submitted it: *not done* runs the call again."""
    world.author.memberships.create(project=world.project, role="reviewer")
    gate = open_gate(world, "in_doubt")
    client = Client()
    client.force_login(world.author)
    sent = {"verdict": "respond", "digest": gate.digest, "shown": whole_proof(world.author, gate), "payload": payload}
    refused = client.post(f"/api/v1/gates/{gate.pk}/decide/", sent, content_type="application/json")
    assert refused.status_code == 403
    assert not Decision.objects.exists()


def test_the_one_who_asked_still_answers_what_the_agent_wants_to_know(world: World) -> None:
    gate = open_gate(world, "question")
    answer = {"answer": "the blue one"}
    decisions.decide(actor=world.author, gate_id=gate.pk, verdict="respond", digest=gate.digest, payload=answer)


def test_what_shapes_one_run_says_nothing_of_another(world: World) -> None:
    wrote(world)
    gate = open_gate(world, run=make_run(world.project, world.author))
    decisions.decide(actor=world.reviewer, gate_id=gate.pk, verdict="approve", digest=gate.digest)


def test_shaping_gives_no_right_that_its_role_has_not(world: World) -> None:
    """Whoever submitted may answer questions; whoever only wrote may not."""
    operator = type(world.author).objects.create_user("op")
    operator.memberships.create(project=world.project, role="operator")
    send_message(actor=operator, run=world.run, text="hello")
    gate = open_gate(world, "question")
    with pytest.raises(services.NotAllowed, match="needs the role"):
        decisions.decide(
            actor=operator, gate_id=gate.pk, verdict="respond", digest=gate.digest, payload={"answer": "x"}
        )
