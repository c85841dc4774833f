"""The project's policy is a floor: whoever is no admin tightens, by whatever door (SPEC S1, S4, ADR 0045)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from drf_spectacular.generators import SchemaGenerator

from agentops.ops import policy_floor
from gates.services import InvalidDecision
from loops.engine.state.limits import DEFAULTS, LIMITS
from loops.models import AuditEvent, Membership, Policy, PolicyVersion, Run, Task
from loops.services import policy_floor as policy_floor_rules
from loops.services.forks import InvalidTask, fork_run
from loops.services.tasks import run_spec
from tests import fakes
from tests.decisions import decide
from tests.integration.gates.builders import open_gate
from tests.integration.services.test_admin import policy_form, url
from tests.integration.services.world import World
from tests.integration.storage import forks
from tests.integration.storage.forks import Ledger

pytestmark = [pytest.mark.django_db, pytest.mark.spec("S1", "S4", "D2")]
REFUSED, HELD, EXCEEDED = "policy.loosening_refused", "policy.loosening_held", "policy.exceeded"
LOOSER: dict[str, Any] = {
    "max_steps": 101,
    "max_seconds": 1_801,
    "max_tokens": 4_000_001,
    "max_cost_microusd": 40_000_001,
    "max_failures": 6,
    "max_repairs": 4,
    "max_attempts": 4,
    "reflect_after": 0,
    "max_backtracks": 6,
    "confirm_after": 0,
    "max_extensions": 21,
}
"""One more than the profiles that are shipped give at most, or never."""


def test_a_limit_that_profiles_have_no_field_for_is_as_everywhere() -> None:
    profile: Any = SimpleNamespace(max_cost_usd=2, max_steps=7)
    assert policy_floor_rules.amounts(profile) == {
        **{name: getattr(DEFAULTS, name) for name in LIMITS},
        "max_steps": 7,
        "max_cost_microusd": 2_000_000,
        "allow_unknown_cost": 1,
    }
    assert LOOSER.keys() >= LIMITS.keys() - {"allow_unknown_cost"}, "each limit has its case here"


def client_of(person: Any) -> Client:
    client = Client()
    client.force_login(person)
    return client


def by_page(world: World, actor: Any, run: Run, limits: dict[str, Any], review: str) -> str:
    given = {"project": world.project.pk, "agent": world.agent.pk, "goal": "Mend it", "final_review": review, **limits}
    answer = client_of(actor).post(reverse("new-task"), given)
    return "" if answer.status_code == 302 else answer.content.decode()


def by_api(world: World, actor: Any, run: Run, limits: dict[str, Any], review: str) -> str:
    body = {"project": world.project.slug, "agent": world.agent.name, "goal": "Mend it", "limits": limits}
    body |= {"final_review": review} if review else {}
    answer = client_of(actor).post("/api/v1/tasks/", json.dumps(body), content_type="application/json")
    return "" if answer.status_code == 201 else answer.content.decode()


def by_command(world: World, actor: Any, run: Run, limits: dict[str, Any], review: str) -> str:
    stated = [word for name, amount in limits.items() for word in ("--limit", name, str(amount))]
    return commanded(actor, "submit", "Mend it", "--project", world.project.slug, "--agent", world.agent.name, *stated)


def by_fork_page(world: World, actor: Any, run: Run, limits: dict[str, Any], review: str) -> str:
    answer = client_of(actor).post(reverse("run-fork", args=[run.pk]), {"step": "1", **limits})
    return "" if answer.status_code == 302 else answer.content.decode()


def by_fork_api(world: World, actor: Any, run: Run, limits: dict[str, Any], review: str) -> str:
    body = json.dumps({"step": 1, "limits": limits})
    answer = client_of(actor).post(f"/api/v1/runs/{run.pk}/fork/", body, content_type="application/json")
    return "" if answer.status_code == 201 else answer.content.decode()


def by_fork_command(world: World, actor: Any, run: Run, limits: dict[str, Any], review: str) -> str:
    stated = [word for name, amount in limits.items() for word in ("--limit", name, str(amount))]
    return commanded(actor, "fork", str(run.pk), "--step", "1", *stated)


def commanded(actor: Any, *words: str) -> str:
    try:
        call_command("agentops", "--as", actor.username, *words)
    except CommandError as error:
        return str(error)
    return ""


Door = Callable[[World, Any, Run, dict[str, Any], str], str]
SUBMITTING: dict[str, Door] = {"page": by_page, "API": by_api, "command": by_command}
FORKING: dict[str, Door] = {"fork page": by_fork_page, "fork API": by_fork_api, "fork command": by_fork_command}
DOORS = SUBMITTING | FORKING


@pytest.fixture
def run(world: World, settings: Any, tmp_path: Path) -> Run:
    """A committed run of the operator."""
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"
    mine = forks.parent_in(tmp_path / "parent", world.submit().run)
    assert mine.drive([fakes.says("1", ("act", {})), fakes.done()], Ledger().tools()) == "ended"
    mine.run.refresh_from_db()
    Policy.objects.filter(project=world.project).update(final_review="unless_verified")
    return mine.run


@pytest.mark.parametrize("door", DOORS)
def test_more_than_the_policy_gives_is_refused_with_field_figures_and_who_can_raise_it(
    world: World, run: Run, door: str
) -> None:
    before = Run.objects.count()
    said = DOORS[door](world, world.operator, run, {"max_steps": 101}, "")
    assert "asks for 101; the policy of Invoices allows 100: an admin of the project can submit it" in said
    assert "Steps" in said or "max_steps" in said or "max steps" in said.lower()
    event = AuditEvent.objects.get(kind=REFUSED)
    assert (event.actor, event.project, event.detail) == (
        world.operator,
        world.project,
        {"limits.max_steps": {"asked": 101, "allowed": 100}},
    )
    assert Run.objects.count() == before


@pytest.mark.parametrize("door", DOORS)
def test_what_the_policy_gives_is_taken_by_every_door(world: World, run: Run, door: str) -> None:
    assert DOORS[door](world, world.operator, run, {"max_steps": 100, "max_failures": 1}, "") == ""
    assert not AuditEvent.objects.filter(kind=REFUSED).exists()


@pytest.mark.parametrize("door", DOORS)
def test_an_admin_of_the_project_gives_more_and_it_stands_and_is_recorded(world: World, run: Run, door: str) -> None:
    assert DOORS[door](world, world.admin, run, {"max_steps": 500, "max_seconds": 9_000}, "") == ""
    made = Run.objects.order_by("-pk")[0]
    if door in FORKING:
        limits = forks.begin(made).state.limits
        assert (limits.max_steps, limits.max_seconds) == (500, 9_000)
    else:
        limits = run_spec(made)["limits"]
        assert (limits["max_steps"], limits["max_seconds"]) == (500, 9_000)
    assert not AuditEvent.objects.filter(kind__in=(REFUSED, HELD)).exists()
    exceeded = AuditEvent.objects.get(kind=EXCEEDED)
    assert (exceeded.run_id, exceeded.actor) == (made.pk, world.admin)
    asked = {
        "limits.max_steps": {"asked": 500, "allowed": 100},
        "limits.max_seconds": {"asked": 9_000, "allowed": 1_800},
    }
    assert exceeded.detail.items() >= asked.items()


@pytest.mark.parametrize("name", LOOSER)
def test_each_limit_is_a_floor(world: World, name: str) -> None:
    world.agent.actor_model.provider = "scripted"
    world.agent.actor_model.save()
    with pytest.raises(InvalidTask) as refused:
        world.submit(limits={name: LOOSER[name]})
    assert set(refused.value.errors) == {f"limits.{name}"}
    world.submit(limits={name: LOOSER[name]}, actor=world.admin)
    assert Task.objects.get().created_by == world.admin


@pytest.mark.parametrize("door", ["page", "API"])
@pytest.mark.parametrize(("floor", "looser"), [("unless_verified", "never"), ("always", "unless_verified")])
@pytest.mark.parametrize("who", ["operator", "admin"])
def test_a_review_is_never_made_looser(world: World, run: Run, door: str, floor: str, looser: str, who: str) -> None:
    """By nobody whom the policy binds: an admin of the project changes it for all, as a version, or not at all."""
    Policy.objects.filter(project=world.project).update(final_review=floor)
    person = getattr(world, who)
    said = DOORS[door](world, person, run, {}, looser).replace("&quot;", '"').replace('\\"', '"')
    assert f'asks for "{looser}"; the policy of Invoices allows "{floor}": an admin of the project can change' in said
    event = AuditEvent.objects.get(kind=REFUSED)
    assert (event.actor, event.detail) == (person, {"final_review": {"asked": looser, "allowed": floor}})
    assert DOORS[door](world, person, run, {}, "always") == ""
    assert run_spec(Run.objects.order_by("-pk")[0])["final_review"] == "always"


def test_a_review_that_a_superuser_makes_looser_stands_and_is_recorded(world: World, run: Run) -> None:
    assert by_page(world, world.root, run, {}, "never") == ""
    made = Run.objects.order_by("-pk")[0]
    assert run_spec(made)["final_review"] == "never"
    exceeded = AuditEvent.objects.get(kind=EXCEEDED)
    assert (exceeded.actor, exceeded.run_id) == (world.root, made.pk)
    assert exceeded.detail == {"final_review": {"asked": "never", "allowed": "unless_verified"}}


def test_a_model_without_a_price_is_asked_for_only_where_the_policy_lets_people(world: World, run: Run) -> None:
    limits = {"max_cost_usd": 2, "allow_unknown_cost": 1}
    assert by_api(world, world.operator, run, limits, "") == ""
    Policy.objects.filter(project=world.project).update(task_limits={"allow_unknown_cost": 0})
    assert "no model without a known price" in by_api(world, world.operator, run, limits, "")
    assert by_api(world, world.admin, run, limits, "") == ""
    assert run_spec(world.submit().run)["limits"]["allow_unknown_cost"] == 0


def test_a_range_that_an_admin_gave_in_admin_is_what_operators_have(world: World, client: Client) -> None:
    """More than the profiles for one limit, less for another: a profile cannot be chosen to get round it."""
    client.force_login(world.root)
    policy = Policy.objects.get(project=world.project)
    given = json.dumps({"max_steps": 300, "max_seconds": 700, "max_cost_usd": 60})
    form = policy_form(client, policy, task_limits=given, reason="Long migrations")
    assert client.post(url("policy", "change", policy.pk), form).status_code == 302
    version = PolicyVersion.objects.filter(project=world.project).first()
    assert version.snapshot["policy"]["task_limits"] == {
        "max_steps": 300, "max_seconds": 700, "max_cost_microusd": 60_000_000,
    }  # fmt: skip
    limits = run_spec(world.submit(limits={"max_steps": 300}, complexity="complex").run)["limits"]
    assert (limits["max_steps"], limits["max_seconds"]) == (300, 700)
    silent = run_spec(world.submit(actor=world.admin, complexity="complex").run)["limits"]
    assert silent["max_seconds"] == 700  # an admin who asks for nothing gets what the policy says
    for more in ({"max_steps": 301}, {"max_seconds": 701}):
        with pytest.raises(InvalidTask):
            world.submit(limits=more, complexity="complex")


@pytest.mark.parametrize(
    "nonsense", ["[]", "7", '{"max_gpus": 1}', '{"max_steps": 0}', '{"max_steps": "9"}', '{"max_steps": 1000000}', "{"]
)
def test_a_range_that_makes_no_sense_is_not_saved(world: World, client: Client, nonsense: str) -> None:
    client.force_login(world.root)
    policy = Policy.objects.get(project=world.project)
    form = policy_form(client, policy, task_limits=nonsense, reason="r")
    assert client.post(url("policy", "change", policy.pk), form).status_code == 200
    policy.refresh_from_db()
    assert policy.task_limits == {}


def test_a_row_that_was_written_by_no_door_is_held_where_its_run_begins(world: World) -> None:
    run = world.submit().run
    Task.objects.filter(pk=run.task_id).update(limits={**LOOSER, "allow_unknown_cost": 1}, final_review="never")
    spec = run_spec(Run.objects.get(pk=run.pk))
    assert (spec["limits"]["max_steps"], spec["limits"]["confirm_after"], spec["final_review"]) == (
        100,
        20,
        "unless_verified",
    )
    held = AuditEvent.objects.get(kind=HELD)
    assert (held.run_id, held.actor) == (run.pk, world.operator)
    assert set(held.detail) == {*(f"limits.{name}" for name in LOOSER), "final_review"}


def test_an_admins_row_keeps_its_limits_and_not_its_review(world: World) -> None:
    run = world.submit(actor=world.admin, limits={"max_steps": 500}).run
    Task.objects.filter(pk=run.task_id).update(final_review="never")
    spec = run_spec(Run.objects.get(pk=run.pk))
    assert (spec["limits"]["max_steps"], spec["final_review"]) == (500, "unless_verified")
    assert set(AuditEvent.objects.get(kind=HELD).detail) == {"final_review"}
    assert set(AuditEvent.objects.get(kind=EXCEEDED).detail) == {"limits.max_steps"}


def test_what_an_admin_gave_ends_with_the_role(world: World) -> None:
    run = world.submit(actor=world.admin, limits={"max_steps": 500}).run
    assert run_spec(run)["limits"]["max_steps"] == 500
    Membership.objects.filter(user=world.admin).update(role="operator")
    spec = run_spec(Run.objects.get(pk=run.pk))
    assert (spec["limits"]["max_steps"], spec["final_review"]) == (100, "unless_verified")


def test_a_fork_of_a_generous_run_gets_what_its_own_author_may_give(
    world: World, settings: Any, tmp_path: Path
) -> None:
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"
    submitted = world.submit(actor=world.admin, limits={"max_steps": 1_000}).run
    mine = forks.parent_in(tmp_path / "parent", submitted)  # which begins with a thousand steps and a million seconds
    Policy.objects.filter(project=world.project).update(final_review="always")
    assert mine.drive([fakes.says("1", ("act", {})), fakes.done()], Ledger().tools()) == "ended"
    mine.run.refresh_from_db()
    theirs = forks.begin(fork_run(actor=world.operator, run=mine.run, step=1).run).state
    assert (theirs.limits.max_steps, theirs.limits.max_seconds, theirs.spec.final_review) == (100, 1_800, "always")
    own = forks.begin(fork_run(actor=world.admin, run=mine.run, step=1).run).state
    assert (own.limits.max_steps, own.limits.max_seconds, own.spec.final_review) == (1_000, 10**6, "always")


@pytest.mark.spec("D3")
def test_an_extension_gives_as_much_again_as_a_task_may_ask_for(world: World, run: Run) -> None:
    def extend(actor: Any, payload: dict[str, Any], view: dict[str, Any]) -> None:
        gate = open_gate(world, "limit_reached", run=run, view=view)  # type: ignore[arg-type]
        decide(actor=actor, gate_id=gate.pk, verdict="extend", digest=gate.digest, payload=payload)

    steps = {"limit": "max_steps", "used": 100, "bound": 100, "least": 101}
    with pytest.raises(InvalidDecision, match=r"201 is more than the policy of Invoices lets you give at once.* 200"):
        extend(world.reviewer, {"max_steps": 201}, steps)
    assert AuditEvent.objects.get(kind="gate.refused").actor == world.reviewer
    extend(world.reviewer, {"max_steps": 200}, steps)
    extend(world.admin, {"max_steps": 2_000}, steps)
    money = {"limit": "max_cost_usd", "used": 40_000_000, "bound": 40_000_000, "least": 40_000_001}
    with pytest.raises(InvalidDecision, match=r"80\.01 US dollars is more"):
        extend(world.reviewer, {"max_cost_usd": 80.01}, money)
    extend(world.reviewer, {"max_cost_usd": 80}, money)


@pytest.mark.spec("D3")
def test_a_run_without_a_price_goes_on_by_a_reviewer_only_where_the_policy_lets_tasks(world: World, run: Run) -> None:
    def approve(actor: Any) -> None:
        gate = open_gate(world, "no_price", run=run, view={"limit": "max_cost_usd"})  # type: ignore[arg-type]
        decide(actor=actor, gate_id=gate.pk, verdict="approve", digest=gate.digest)

    approve(world.reviewer)
    Policy.objects.filter(project=world.project).update(task_limits={"allow_unknown_cost": 0})
    with pytest.raises(InvalidDecision, match="The policy of Invoices allows no model without a known price"):
        approve(world.reviewer)
    assert AuditEvent.objects.get(kind="gate.refused").actor == world.reviewer
    approve(world.admin)


def test_new_task_and_fork_show_the_range_beside_each_limit(world: World, run: Run) -> None:
    Policy.objects.filter(project=world.project).update(task_limits={"max_steps": 250, "max_cost_microusd": 1_500_000})
    form = client_of(world.operator).get(reverse("new-task")).content.decode()
    assert '<p class="hint num" id="range-max_steps">1 to 250</p>' in form
    assert '<p class="hint num" id="range-max_cost_usd">0 to 1.5</p>' in form
    asked = {"project": world.project.pk, "agent": world.agent.pk, "complexity": "complex"}
    preview = client_of(world.operator).post(reverse("task-preview"), asked).content.decode()
    assert 'id="range-max_steps" hx-swap-oob="true">1 to 250</p>' in preview
    fork = client_of(world.operator).get(reverse("run-fork", args=[run.pk])).content.decode()
    assert 'id="range-max_steps">1 to 250</p>' in fork
    assert "1 to 250; more as an admin" in client_of(world.admin).get(reverse("new-task")).content.decode()


def test_doctor_names_projects_whose_open_runs_were_asked_for_more(world: World) -> None:
    assert policy_floor.open_runs()[0] == "ok"
    run = world.submit(limits={"max_steps": 90}).run
    world.submit(actor=world.admin, limits={"max_steps": 900})
    mild = world.submit(actor=world.admin).run
    Task.objects.filter(pk=mild.task_id).update(final_review="never")
    assert policy_floor.open_runs()[1].endswith(": 1"), "an admin's review, and no limit of an admin's"
    Task.objects.filter(pk=mild.task_id).update(final_review="")
    Policy.objects.filter(project=world.project).update(task_limits={"max_steps": 50})
    state, what, todo, where = policy_floor.open_runs()
    assert (state, where) == ("warning", "in Invoices")
    assert what.endswith(": 1")
    assert "held at the policy" in todo
    Run.objects.filter(pk=run.pk).update(status="completed")
    assert policy_floor.open_runs()[0] == "ok"


def test_every_address_that_takes_limits_or_a_review_is_a_door_that_is_tried_here() -> None:
    """Of the API by its schema; pages post to what the table of addresses names."""
    schema = SchemaGenerator().get_schema(request=None, public=True)
    parts, found = schema["components"]["schemas"], set()
    for path, methods in schema["paths"].items():
        for method in methods.values():
            content = (method.get("requestBody") or {}).get("content", {}).get("application/json", {})
            name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
            if {"limits", "final_review", "payload"} & set(parts.get(name, {}).get("properties", {})):
                found.add(path)
    makes_the_floor = {"/api/v1/policies/{id}/"}
    assert found == {"/api/v1/tasks/", "/api/v1/runs/{id}/fork/", "/api/v1/gates/{id}/decide/"} | makes_the_floor


def test_only_two_services_make_runs() -> None:
    """Whatever else made one would be a door that nobody tries here."""
    signs = re.compile(r"\bRun\.objects\.(?:bulk_)?create\(|\b(?:Fork|Task)\(\n")
    folders = (Path(part).rglob("*.py") for part in ("loops", "gates", "agentops"))
    files = [file for folder in folders for file in folder if "migrations" not in file.parts]
    made = {str(file) for file in files if signs.search(file.read_text())}
    assert made == {"loops/services/forks.py", "loops/services/tasks.py"}
