"""Workspaces, agents, models, access rules and policies over the API: who sees them, what a change changes, what is
deleted. What is refused stands in ``test_configuration_doors``."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group

from loops import masking
from loops.models import AccessRule, Agent, AuditEvent, ModelAddress, ModelConfig, Policy, PolicyVersion, Workspace
from loops.services import people
from tests.integration.storage import dispatched

pytestmark = [pytest.mark.spec("T2", "S1", "S4")]


@pytest.fixture
def chief(world: Any, api: Any) -> Any:
    """An admin of the project who may open Admin."""
    people.ensure_groups()
    world.admin.groups.add(Group.objects.get(name="admin"))
    world.admin.is_staff = True
    world.admin.save()
    return api(world.admin)


def post(client: Any, where: str, /, **fields: Any) -> Any:
    return client.post(f"/api/v1/{where}/", fields, format="json")


def patch(client: Any, where: str, row: Any, /, **fields: Any) -> Any:
    return client.patch(f"/api/v1/{where}/{row}/", fields, format="json")


def test_a_project_is_set_up_from_nothing_by_a_program(world: Any, api: Any, settings: Any, tmp_path: Any) -> None:
    root, mine = api(world.root), {"project": "invoices"}
    (tmp_path / "shop").mkdir()
    assert post(root, "models", name="mine", provider="scripted", model_id="repair_a_bug").status_code == 201
    made = post(root, "agents", **mine, name="Engineer", agent_type="coder", models={"actor": "mine"})
    assert (made.status_code, made.json()["models"]) == (201, {"actor": "mine"})
    folder = post(root, "workspaces", **mine, name="shop", path=str(tmp_path / "shop"), allow=True)
    assert (folder.status_code, folder.json()["allowed_by"], folder.json()["refused"]) == (201, "root", "")
    rule = {"agent_type": "coder", "operation": "execute", "access": "allow", "reason": "Tests"}
    assert post(root, "access-rules", **mine, **rule).status_code == 201
    policy = Policy.objects.get(project=world.project)
    assert patch(root, "policies", policy.pk, final_review="always", reason="At first").status_code == 200
    sent = {**mine, "agent": "Engineer", "workspace": "shop", "goal": "Mend it"}
    assert post(api(world.operator), "tasks", **sent).status_code == 201


def test_a_change_changes_what_is_sent_and_nothing_else(world: Any, chief: Any) -> None:
    Agent.objects.filter(pk=world.agent.pk).update(instructions="Old.", agent_type="coder")
    answer = patch(chief, "agents", world.agent.pk, instructions=" New. ", reason="They were old")
    assert (answer.status_code, answer.json()["instructions"]) == (200, " New. ")
    world.agent.refresh_from_db()
    assert (world.agent.name, world.agent.agent_type) == ("Mender", "coder")
    version = PolicyVersion.objects.filter(project=world.project)[0]
    assert (version.reason, version.created_by) == ("They were old", world.admin)
    event = AuditEvent.objects.get(kind="agent.changed")
    assert (event.detail["changed"], event.actor, event.project) == (["instructions"], world.admin, world.project)


@pytest.mark.parametrize(("who", "status"), [("viewer", 403), ("operator", 403), ("outsider", 404)])
def test_who_may_not_change(world: Any, api: Any, who: str, status: int) -> None:
    client = api(getattr(world, who))
    rule, policy = (model.objects.filter(project=world.project)[0] for model in (AccessRule, Policy))
    for path, row in (("agents", world.agent), ("access-rules", rule), ("policies", policy)):
        assert patch(client, path, row.pk, reason="r").status_code == status
        if path != "policies":
            assert client.delete(f"/api/v1/{path}/{row.pk}/").status_code == status
    seen = AuditEvent.objects.filter(kind="access.refused", actor=getattr(world, who)).count()
    assert seen == (5 if status == 403 else 0)


def test_the_role_alone_is_not_enough(world: Any, api: Any) -> None:
    """Whom the installation keeps out of Admin, a token lets in no further."""
    answer = patch(api(world.admin), "agents", world.agent.pk, instructions="New.")
    assert answer.status_code == 403
    assert "access to Admin" in answer.json()["detail"]
    assert AuditEvent.objects.get(kind="access.refused").detail["needs"] == ["staff", "loops.change_agent"]


@pytest.mark.spec("S3")
def test_no_known_secret_is_kept(world: Any, chief: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "planted-value-of-this-house-0123456789"
    monkeypatch.setattr(masking, "_masker", masking.Masker({"ODD_KEY": secret}))
    for field in ("instructions", "reason"):
        answer = patch(chief, "agents", world.agent.pk, **{field: f"Use {secret}"})
        assert (answer.status_code, answer.json()["errors"]) == (400, {field: masking.LEAVE_OUT})
    assert AuditEvent.objects.filter(kind="access.refused", detail__fields=["reason"]).count() == 1
    world.agent.refresh_from_db()
    assert world.agent.instructions == ""


@pytest.mark.spec("B1", "I3", "I7")
def test_what_the_services_refuse_is_refused_here(world: Any, chief: Any) -> None:
    allow_all = {"access": "allow", "operation": "*", "tool": "*", "reason": "r"}
    assert post(chief, "access-rules", project="invoices", **allow_all).status_code == 400
    folder = patch(chief, "workspaces", world.workspace.pk, path="/srv/any")
    assert (folder.status_code, list(folder.json()["errors"])) == (400, ["path"])
    assert patch(chief, "agents", world.agent.pk, execution_loop="os.system").status_code == 400


@pytest.mark.parametrize(("who", "sees"), [("operator", True), ("viewer", False), ("outsider", False)])
def test_folders_are_for_those_who_submit(world: Any, api: Any, who: str, sees: bool) -> None:
    client = api(getattr(world, who))
    names = [row["name"] for row in client.get("/api/v1/workspaces/").json()["results"]]
    assert names == (["Invoices"] if sees else [])
    found = client.get(f"/api/v1/workspaces/{world.workspace.pk}/")
    assert found.status_code == (200 if sees else 404)


def test_nothing_is_made_in_a_project_of_others(world: Any, chief: Any) -> None:
    answer = post(chief, "agents", project="elsewhere", name="Spy", models={"actor": world.agent.actor_model.name})
    assert (answer.status_code, answer.json()["errors"]) == (400, {"project": "There is none by that id or name."})
    assert not Agent.objects.filter(name="Spy").exists()


def test_what_something_refers_to_is_not_deleted(world: Any, chief: Any, api: Any) -> None:
    world.submit(workspace=world.workspace)
    for path, row in (("agents", world.agent), ("workspaces", world.workspace)):
        answer = chief.delete(f"/api/v1/{path}/{row.pk}/")
        assert (answer.status_code, answer.json()["code"]) == (409, "not_possible")
        assert "refer to it" in answer.json()["detail"]
    assert "tasks" in answer.json()["detail"]
    assert api(world.root).delete(f"/api/v1/models/{world.agent.actor_model.name}/").status_code == 409
    assert not AuditEvent.objects.filter(kind__endswith=".deleted").exists()


def test_what_nothing_refers_to_is_deleted_and_on_record(world: Any, chief: Any, api: Any) -> None:
    rule = AccessRule.objects.filter(project=world.project)[0]
    spare = Agent.objects.create(project=world.project, name="Spare", actor_model=world.agent.actor_model)
    unused = ModelConfig.objects.create(name="unused", provider="scripted", model_id="x")
    for path, row in (("access-rules", rule.pk), ("agents", spare.pk), ("workspaces", world.workspace.pk)):
        assert chief.delete(f"/api/v1/{path}/{row}/").status_code == 204
    assert api(world.root).delete(f"/api/v1/models/{unused.name}/").status_code == 204
    kinds = AuditEvent.objects.filter(kind__endswith=".deleted").values_list("kind", flat=True)
    assert sorted(kinds) == ["agent.deleted", "model.deleted", "rule.deleted", "workspace.deleted"]
    assert PolicyVersion.objects.filter(project=world.project, reason=f"Deleted: {rule}").exists()


@pytest.mark.spec("J6")
def test_a_rule_that_is_sent_twice_is_one(world: Any, chief: Any) -> None:
    rule = {"project": "invoices", "tool": "pay*", "access": "ask", "paths": ["a/**"], "reason": "r"}
    first, second = post(chief, "access-rules", **rule), post(chief, "access-rules", **rule)
    assert first.json() == second.json()
    assert AccessRule.objects.filter(tool="pay*").count() == 1
    other = post(chief, "access-rules", **{**rule, "paths": ["b/**"]})
    assert other.json()["id"] != first.json()["id"]


@pytest.mark.spec("S3")
def test_a_superuser_answers_for_an_address(world: Any, api: Any, chief: Any) -> None:
    model = {"name": "own", "provider": "openai", "model_id": "m", "api_key_env": "ODD_KEY"}
    model |= {"base_url": "http://one.example/v1"}
    root = api(world.root)
    refused = post(root, "models", **model)
    assert "would be sent to http://one.example" in refused.json()["errors"]["allow"]
    assert not ModelAddress.objects.exists()
    assert post(root, "models", **model, allow=True).json()["settings"]["api_key_env"] == "ODD_KEY"
    assert ModelAddress.objects.get().allowed_by == world.root
    moved = patch(root, "models", "own", base_url="http://two.example/v1")
    assert (moved.status_code, list(moved.json()["errors"])) == (400, ["allow"])
    assert patch(root, "models", "own", max_tokens=2000).status_code == 200, "nothing is sent anywhere new"
    assert AuditEvent.objects.filter(kind="model.address_allowed").count() == 1


@pytest.mark.spec("S3")
def test_addresses_and_variables_are_shown_to_whom_admin_shows_them(world: Any, api: Any, chief: Any) -> None:
    where = "http://one.example/v1"
    found = {"base_url": where, "test_result": f"It did not answer: {where}"}
    ModelConfig.objects.create(name="own", provider="openai", model_id="m", **found)
    for client, sees in ((api(world.root), True), (chief, True), (api(world.operator), False)):
        answer = client.get("/api/v1/models/own/")
        assert (answer.json()["settings"] is not None) is sees
        assert ("one.example" in answer.content.decode()) is sees


@pytest.mark.spec("S4", "I7")
def test_nobody_but_a_superuser_allows(world: Any, chief: Any, settings: Any, tmp_path: Any) -> None:
    settings.WORKSPACE_ROOTS = [str(tmp_path)]
    (tmp_path / "shop").mkdir()
    given = {"project": "invoices", "name": "shop", "path": str(tmp_path / "shop")}
    assert post(chief, "workspaces", **given, allow=True).status_code == 403
    assert not Workspace.objects.filter(name="shop").exists()
    assert post(chief, "workspaces", **given).status_code == 201, "below a root nobody has to"


@pytest.mark.spec("S3")
def test_a_worker_tests_a_model(world: Any, api: Any, chief: Any, settings: Any) -> None:
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"
    dispatched.app.jobs.clear()
    model = world.agent.actor_model
    address = f"/api/v1/models/{model.name}/test/"
    assert chief.post(address).status_code == 403
    assert not dispatched.app.jobs
    answer = api(world.root).post(address)
    assert (answer.status_code, answer.json()["settings"]["tested_at"]) == (202, None)
    assert dispatched.app.jobs == [("loops.test_model", {"model": str(model.pk)})]


def test_lists_are_narrowed(world: Any, api: Any) -> None:
    client = api(world.viewer)
    found = client.get("/api/v1/access-rules/", {"project": world.project.pk, "access": "allow"}).json()["results"]
    assert found
    assert {row["access"] for row in found} == {"allow"}
    assert len(client.get("/api/v1/policies/").json()["results"]) == 1
