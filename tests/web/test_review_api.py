"""Gates and decisions through REST."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest
from django.test import Client

from gates.models import Decision, Gate
from gates.services.disclosure import whole_proof
from loops.engine.state.limits import Limits
from tests import decisions
from tests.integration.gates.builders import World, make_world, open_gate, person

pytestmark = [pytest.mark.django_db, pytest.mark.spec("T2", "Q5")]


@pytest.fixture
def world(db: Any) -> World:
    return make_world()


def client(user: Any) -> Client:
    made = Client()
    made.force_login(user)
    return made


def decide(user: Any, gate: Gate, **body: Any) -> Any:
    body = {"verdict": "approve", "digest": gate.digest, "shown": whole_proof(user, gate), **body}
    return client(user).post(f"/api/v1/gates/{gate.pk}/decide/", body, content_type="application/json")


def test_deciding_answers_with_the_decision(world: World) -> None:
    gate = open_gate(world)
    response = decide(world.reviewer, gate)
    assert response.status_code == 201
    assert response.json()["decided_by"] == world.reviewer.username
    shown = client(world.reviewer).get(f"/api/v1/gates/{gate.pk}/").json()
    assert (shown["status"], shown["decision"]["verdict"]) == ("approved", "approve")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"digest": "old"}, 409),
        ({"verdict": "respond", "payload": {"answer": "x"}}, 422),
        ({"verdict": "reject"}, 422),
        ({"payload": {"approved": True}}, 422),
        ({"approved": True}, 400),
        ({"verdict": "expire"}, 400),
        ({"digest": None}, 400),
        ({"payload": []}, 400),
    ],
)
def test_refusals_have_their_status(world: World, body: dict[str, Any], status: int) -> None:
    response = decide(world.reviewer, open_gate(world), **body)
    assert response.status_code == status
    assert not Decision.objects.exists()


def test_second_decision_is_a_conflict_that_names_the_first(world: World) -> None:
    gate = open_gate(world)
    decide(world.reviewer, gate)
    response = decide(world.second, gate)
    assert response.status_code == 409
    assert "approved by Ana" in response.content.decode()


@pytest.mark.spec("Q6", "S4")
def test_scope_and_role(world: World) -> None:
    gate = open_gate(world)
    assert decide(world.outsider, gate).status_code == 404
    assert decide(world.viewer, gate).status_code == 403
    assert client(world.outsider).get(f"/api/v1/gates/{gate.pk}/").status_code == 404
    assert client(world.outsider).get("/api/v1/gates/").json()["results"] == []
    assert Client().get("/api/v1/gates/").status_code in (401, 403)


@pytest.mark.parametrize("method", ["put", "patch", "delete"])
def test_gates_and_decisions_cannot_be_written(world: World, method: str) -> None:
    gate = open_gate(world)
    decision = decisions.decide(actor=world.reviewer, gate_id=gate.pk, verdict="approve", digest=gate.digest)
    for path in (f"gates/{gate.pk}", f"decisions/{decision.pk}"):
        response = getattr(client(world.reviewer), method)(
            f"/api/v1/{path}/", {"status": "approved"}, "application/json"
        )
        assert response.status_code == 405


def test_lists_filter_by_what_waits_for_me(world: World) -> None:
    open_gate(world, risk="high")
    decisions.decide(
        actor=world.reviewer, gate_id=(other := open_gate(world)).pk, verdict="approve", digest=other.digest
    )
    asked = client(world.reviewer)
    assert len(asked.get("/api/v1/gates/?waiting_for_me=true").json()["results"]) == 1
    assert len(asked.get("/api/v1/gates/?status=approved").json()["results"]) == 1
    assert len(asked.get("/api/v1/decisions/").json()["results"]) == 1


@pytest.mark.parametrize("prefix", ["/api/v1/decisions/export", "/review/decisions"])
def test_export_holds_every_decision_of_ones_projects(world: World, prefix: str) -> None:
    for reason in ("=HYPERLINK(1)", "line one\nline two"):
        gate = open_gate(world)
        decisions.decide(actor=world.reviewer, gate_id=gate.pk, verdict="reject", digest=gate.digest, reason=reason)
    asked = client(world.viewer)
    lines = asked.get(f"{prefix}.jsonl").getvalue().decode().splitlines()
    assert [json.loads(line)["reason"] for line in lines] == ["=HYPERLINK(1)", "line one\nline two"]
    rows = list(csv.DictReader(asked.get(f"{prefix}.csv").getvalue().decode().splitlines(keepends=True)))
    assert [row["reason"] for row in rows] == ["'=HYPERLINK(1)", "line one\nline two"]
    assert client(world.outsider).get(f"{prefix}.jsonl").getvalue() == b""


@pytest.mark.spec("S1")
def test_admin_only_shows(world: World) -> None:
    gate = open_gate(world)
    root = client(person("root", is_superuser=True, is_staff=True))
    assert root.get(f"/admin/gates/gate/{gate.pk}/change/").status_code == 200
    assert root.get("/admin/gates/decision/").status_code == 200
    assert root.post(f"/admin/gates/gate/{gate.pk}/change/", {"status": "approved"}).status_code == 403
    assert root.get("/admin/gates/gate/add/").status_code == 403


AT_THE_BOUND = {
    "limit": "max_steps",
    "used": 20,
    "bound": 20,
    "least": 21,
    "extensions_used": 20,
    "extensions_allowed": 20,
}
EXTEND = {"verdict": "extend", "payload": {"max_steps": 30}}


@pytest.mark.spec("D3", "X5")
@pytest.mark.parametrize(("kind", "body"), [
    ("limit_reached", EXTEND),
    ("loop_detected", {"verdict": "respond", "payload": {"answer": "look elsewhere"}}),
])  # fmt: skip
def test_the_last_extension_is_the_last(world: World, kind: str, body: dict[str, Any]) -> None:
    """Until now the 21st was accepted, and the run ended as "not extended"."""
    gate = open_gate(world, kind, view=AT_THE_BOUND)
    refused = decide(world.reviewer, gate, **body)
    assert refused.status_code == 422
    assert "all 20 extensions that its limits allow are used" in refused.content.decode()
    assert not Decision.objects.exists()
    assert decide(world.reviewer, gate, verdict="reject", reason="enough").status_code == 201
    another = open_gate(world, kind, view=AT_THE_BOUND | {"extensions_used": 19})
    assert decide(world.reviewer, another, **body).status_code == 201


@pytest.mark.spec("D3", "A6")
def test_gates_of_earlier_versions_are_counted_by_what_was_granted(world: World) -> None:
    """Their views do not say how many extensions there were."""
    view = {name: value for name, value in AT_THE_BOUND.items() if not name.startswith("extensions")}
    for number in range(Limits().max_extensions):
        kind, status = (("limit_reached", "extended"), ("loop_detected", "answered"))[number % 2]
        Gate.objects.filter(pk=open_gate(world, kind, view=view).pk).update(status=status)
    refused = decide(world.reviewer, open_gate(world, "limit_reached", view=view), **EXTEND)
    assert refused.status_code == 422
    assert "extensions that its limits allow are used" in refused.content.decode()


@pytest.mark.spec("D3", "X5")
def test_a_gate_that_does_not_say_how_many_there_were_is_counted(world: World) -> None:
    """It was opened by an earlier version."""
    view = {"limit": "max_steps", "used": 20, "bound": 20}
    for _ in range(20):
        assert decide(world.reviewer, open_gate(world, "limit_reached", view=view), **EXTEND).status_code == 201
    assert decide(world.reviewer, open_gate(world, "limit_reached", view=view), **EXTEND).status_code == 422
