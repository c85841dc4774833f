"""Whoever shaped a run by any door is no second pair of eyes on it (SPEC Q6). A new door is listed here, or fails."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from gates.models import Decision, Gate
from gates.services.disclosure import whole_proof
from loops.models import Agent, ModelConfig, Policy, Run
from tests import decisions, fakes
from tests.addresses import addresses
from tests.integration.gates.builders import open_gate
from tests.integration.services import world as people
from tests.integration.services.test_commands import agentops
from tests.integration.storage import forks
from tests.integration.storage.forks import Ledger
from tests.web.decision_doors import by_api, by_fragment, by_page
from tests.web.test_disclosure import ACTIONS
from tests.wire.say import Say
from tests.wire.server import WireServer

pytestmark = [pytest.mark.django_db, pytest.mark.spec("Q6")]
JSON = "application/json"
GOAL = "Pay the invoice"


@pytest.fixture
def world(db: Any, settings: Any, tmp_path: Path) -> people.World:
    """One person may do everything, and the policy asks for another one's approval."""
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    world = people.make()
    Policy.objects.filter(project=world.project).update(own_approval_allowed=False)
    return world


def browser(world: people.World) -> Client:
    client = Client()
    client.force_login(world.admin)
    return client


def parent(world: people.World, folder: Path) -> Run:
    """A run of somebody else with a step to fork it after."""
    mine = forks.parent_in(folder / "parent", world.submit().run)
    assert mine.drive([fakes.says("1", ("act", {})), fakes.done()], Ledger().tools()) == "ended"
    mine.run.refresh_from_db()
    return mine.run


# --- each door by which what a run does is written: it answers with the run -------------------------------------------


def submitted_on_the_page(world: people.World, folder: Path) -> Run:
    sent = {"project": world.project.pk, "agent": world.agent.pk, "goal": GOAL, "idempotency_key": "k"}
    browser(world).post("/tasks/new/", sent)
    return Run.objects.get(task__goal=GOAL)


def submitted_through_the_api(world: people.World, folder: Path) -> Run:
    sent = {"project": str(world.project.pk), "agent": str(world.agent.pk), "goal": GOAL}
    browser(world).post("/api/v1/tasks/", sent, content_type=JSON)
    return Run.objects.get(task__goal=GOAL)


def submitted_by_command(world: people.World, folder: Path) -> Run:
    run = agentops("--as", "admin", "submit", GOAL, "--project", "invoices", "--agent", "Mender")
    return Run.objects.get(pk=run)


def submitted_by_init(world: people.World, folder: Path) -> Run:
    with WireServer(lambda seen: Say(calls=[("report", {"text": "ready"})])) as server:
        where = {"provider": "openai", "model_id": "m", "base_url": server.openai_url}
        model = ModelConfig.objects.create(name="own", **where)
        Agent.objects.create(project=world.project, name="Engineer", actor_model=model)
        given = ("--model-url", server.openai_url, "--folder", "", "--run", GOAL)
        agentops("--as", "admin", "init", "--project", "invoices", *given)
    return Run.objects.get(task__goal=GOAL)


def forked_on_the_page(world: people.World, folder: Path) -> Run:
    browser(world).post(f"/runs/{parent(world, folder).pk}/fork/", {"step": 1})
    return Run.objects.get(fork__created_by=world.admin)


def forked_through_the_api(world: people.World, folder: Path) -> Run:
    browser(world).post(f"/api/v1/runs/{parent(world, folder).pk}/fork/", {"step": 1}, content_type=JSON)
    return Run.objects.get(fork__created_by=world.admin)


def forked_by_command(world: people.World, folder: Path) -> Run:
    return Run.objects.get(pk=agentops("--as", "admin", "fork", parent(world, folder).pk, "--step", 1))


def told_on_the_page(world: people.World, folder: Path) -> Run:
    run = world.run()
    browser(world).post(f"/runs/{run.pk}/message/", {"text": GOAL})
    return run


def told_through_the_api(world: people.World, folder: Path) -> Run:
    run = world.run()
    browser(world).post(f"/api/v1/runs/{run.pk}/messages/", {"text": GOAL}, content_type=JSON)
    return run


def told_by_command(world: people.World, folder: Path) -> Run:
    run = world.run()
    agentops("--as", "admin", "message", run.pk, GOAL)
    return run


def _decided(way: Callable[..., Any], world: people.World, kind: str, view: dict[str, Any], **sent: Any) -> Run:
    run = world.run(status="waiting")
    gate = open_gate(None, kind, run=run, view=view)
    way(browser(world), gate, whole_proof(world.admin, gate), **sent)
    assert Decision.objects.get(gate=gate).decided_by == world.admin
    return run


def answered_on_the_page(world: people.World, folder: Path) -> Run:
    return _decided(by_page, world, "question", {"question": "Which?"}, verdict="respond", answer=GOAL)


def answered_in_the_run(world: people.World, folder: Path) -> Run:
    return _decided(by_fragment, world, "question", {"question": "Which?"}, verdict="respond", answer=GOAL)


def answered_through_the_api(world: people.World, folder: Path) -> Run:
    payload = {"answer": GOAL}
    return _decided(by_api, world, "question", {"question": "Which?"}, verdict="respond", payload=payload)


SHAPING: dict[str, tuple[Callable[[people.World, Path], Run], ...]] = {
    "tasks/new/": (submitted_on_the_page,),
    "api/v1/tasks/": (submitted_through_the_api,),
    "runs/<uuid:run_id>/fork/": (forked_on_the_page,),
    "api/v1/runs/<uuid:pk>/fork/": (forked_through_the_api,),
    "runs/<uuid:run_id>/message/": (told_on_the_page,),
    "api/v1/runs/<uuid:pk>/messages/": (told_through_the_api,),
    "review/<uuid:gate_id>/decide/": (answered_on_the_page, answered_in_the_run),
    "api/v1/gates/<uuid:pk>/decide/": (answered_through_the_api,),
    "submit": (submitted_by_command,),
    "init": (submitted_by_init,),
    "fork": (forked_by_command,),
    "message": (told_by_command,),
}
"""Address or verb of the command line -> how one shapes a run there."""
SHAPE_NOTHING = {
    "review/bulk/": "approves and rejects, as the gate asks it",
    "review/<uuid:gate_id>/claim/": "says who looks at it",
    "review/<uuid:gate_id>/take-back/": "withdraws an approval, and no more",
    "api/v1/gates/<uuid:pk>/take-back/": "the same for programs",
    "runs/bulk/": "stops, pauses and resumes: an order, and no word of what to do",
    "runs/<uuid:run_id>/steer/": "the same for one run",
    "api/v1/runs/<uuid:pk>/steer/": "the same for programs",
    "runs/<uuid:run_id>/rollback/": "undoes, as was shown",
    "api/v1/runs/<uuid:pk>/rollback/": "the same for programs",
    "runs/<uuid:run_id>/apply/": "carries the result of an ended run into its folder, as was shown",
    "api/v1/runs/<uuid:pk>/apply/": "the same for programs",
    "runs/<uuid:run_id>/commit/": "carries it onto a branch of its own, as was shown",
    "api/v1/runs/<uuid:pk>/commit/": "the same for programs",
    "runs/<uuid:run_id>/push/": "carries it to the server of its repository, as was shown",
    "api/v1/runs/<uuid:pk>/push/": "the same for programs",
    "runs/<uuid:run_id>/provenance/verify/": "reads",
    "tasks/new/preview/": "reads",
    "tasks/new/try/": "is about no run yet",
    "api/v1/preflights/": "the same for programs",
    "api/v1/workspaces/": "sets up what later runs begin with, as Admin does",
    "api/v1/agents/": "the same",
    "api/v1/models/": "the same",
    "api/v1/models/<slug:name>/test/": "is about a model",
    "api/v1/access-rules/": "the same as Admin: who may do what, for all runs",
    "workspaces/<uuid:workspace_id>/": "the same as Admin: what the copies of later runs begin with",
    "workspaces/<uuid:workspace_id>/setup/": "runs that, or stops it",
    "api/v1/workspaces/<uuid:pk>/setup/": "the same for programs",
    "workspaces/<uuid:workspace_id>/limits/": "gives the commands of later runs other limits",
    "workspaces/<uuid:workspace_id>/toml/": "accepts what later runs begin with",
    "api/v1/workspaces/<uuid:pk>/toml/": "the same for programs",
    "system/breakers/reset/": "is about a tool or model of all runs",
    "api/v1/breakers/<uuid:pk>/reset/": "the same for programs",
    "api/v1/me/token/": "is about the person",
    "favicon.ico": "leads to the picture",
    "login/": "is about the person",
    "login/once/<str:token>/": "is about the person",
    "logout/": "is about the person",
}
VERBS_THAT_SHAPE_NOTHING = {
    "watch", "stop", "pause", "resume", "retry", "check_confidence", "runs", "test-model", "token",
    "diff", "patch", "apply", "commit", "push", "pull-request", "try", "workspace", "setup", "toml", "agent", "model",
    "rule", "policy",
}  # fmt: skip
EACH = pytest.mark.parametrize("shape", [way for ways in SHAPING.values() for way in ways])


@EACH
def test_who_shaped_a_run_by_this_door_lets_nothing_of_it_happen(
    world: people.World, tmp_path: Path, shape: Callable[[people.World, Path], Run]
) -> None:
    run = shape(world, tmp_path)
    gate = open_gate(None, run=run)
    client = browser(world)
    refused = by_api(client, gate, whole_proof(world.admin, gate))
    assert refused.status_code == 403
    assert "asks for another person's approval" in json.dumps(refused.json())
    assert gate not in Gate.objects.waiting_for(world.admin)
    assert not Decision.objects.filter(gate=gate).exists()
    decisions.decide(actor=world.reviewer, gate_id=gate.pk, verdict="approve", digest=gate.digest)


def test_who_only_steered_still_may(world: people.World) -> None:
    """Else the walk above would hold for everybody."""
    run = world.run()
    browser(world).post(f"/runs/{run.pk}/steer/", {"action": "pause"})
    gate = open_gate(None, run=run)
    assert by_api(browser(world), gate, whole_proof(world.admin, gate)).status_code == 201


def test_every_address_that_takes_a_post_is_known(world: people.World) -> None:
    client = Client()
    client.force_login(world.root)
    takes = set()
    for address in addresses():
        sent = address.filled(uuid=uuid.uuid4(), int=1, str="x", slug="x")
        if client.post(sent, {}, content_type=JSON if address.of_api else "text/plain").status_code != 405:
            takes.add(address.path)
        client.force_login(world.root)
    assert takes - set(SHAPE_NOTHING) == {path for path in SHAPING if path.endswith("/")}
    assert set(SHAPE_NOTHING) <= takes


def test_every_verb_of_the_command_line_is_known() -> None:
    assert VERBS_THAT_SHAPE_NOTHING | {door for door in SHAPING if not door.endswith("/")} == ACTIONS
