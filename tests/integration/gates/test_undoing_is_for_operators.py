"""What becomes of a run that ended is said by whoever may stop, resume and undo runs, by every door (SPEC Q6, S4)."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from gates.models import Decision, Gate
from gates.services.disclosure import whole_proof
from tests.integration.gates.builders import World, make_world, open_gate, person

pytestmark = [pytest.mark.django_db, pytest.mark.spec("Q6", "S4")]
VIEW = {"choices": ["roll_back", "keep", "continue"], "files": [], "others": []}
OTHER_KINDS = {"tool_approval": "approve", "final_review": "approve", "limit_reached": "extend", "in_doubt": "approve"}


@pytest.fixture
def world(db: Any) -> World:
    """Where the policy wants a second pair of eyes."""
    return make_world(own_approval_allowed=False)


def by_page(actor: Any, gate: Gate, verdict: str) -> None:
    client = Client()
    client.force_login(actor)
    sent = {"verdict": verdict, "digest": gate.digest, "sure": "1", "shown": whole_proof(actor, gate)}
    client.post(f"/review/{gate.pk}/decide/", sent)


def by_api(actor: Any, gate: Gate, verdict: str) -> None:
    client = Client()
    client.force_login(actor)
    sent = {"verdict": verdict, "digest": gate.digest, "shown": whole_proof(actor, gate)}
    client.post(f"/api/v1/gates/{gate.pk}/decide/", sent, content_type="application/json")


DOORS = pytest.mark.parametrize("door", [by_page, by_api])


@DOORS
@pytest.mark.parametrize("verdict", VIEW["choices"])
def test_operators_answer_even_whoever_submitted_it(world: World, door: Any, verdict: str) -> None:
    """They may order the same without any gate, so a rule here would keep nobody from anything."""
    gate = open_gate(world, "rollback_choice", view=VIEW)
    door(world.author, gate, verdict)
    assert Decision.objects.get(gate=gate).verdict == verdict


@DOORS
@pytest.mark.parametrize("verdict", VIEW["choices"])
def test_who_may_not_operate_does_not_answer(world: World, door: Any, verdict: str) -> None:
    gate = open_gate(world, "rollback_choice", view=VIEW)
    for other in (world.viewer, world.outsider):
        door(other, gate, verdict)
    assert not Decision.objects.exists()


@DOORS
@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_no_other_kind_is_open_to_operators(world: World, door: Any, kind: str) -> None:
    gate = open_gate(world, kind)
    door(person("op", world.project, "operator"), gate, OTHER_KINDS[kind])
    assert not Decision.objects.exists()
