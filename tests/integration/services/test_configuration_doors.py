"""What a form of Admin refuses, the API and the command line refuse, and nothing is stored (SPEC S1, S3, S4, I3, T2).

One table: each case goes through all three doors as the same person.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.db import models as fields
from django.test import Client
from django.urls import reverse

from loops import masking
from loops.engine.state.command_limits import COMMAND_LIMITS
from loops.management import set_up
from loops.models import AccessRule, Agent, AuditEvent, ModelAddress, ModelConfig, Policy, PolicyVersion, Workspace
from loops.services import people
from tests.integration.services.world import World

pytestmark = [pytest.mark.django_db, pytest.mark.spec("S1", "S3", "S4", "I3", "T2", "T3")]
SECRET = "planted-value-of-this-house-0123456789"
TABLES = {
    "workspace": (Workspace, "workspaces"),
    "agent": (Agent, "agents"),
    "model": (ModelConfig, "models"),
    "rule": (AccessRule, "access-rules"),
    "policy": (Policy, "policies"),
}
ROWS = COMMAND_LIMITS.items()
SANE: dict[str, dict[str, Any]] = {
    "workspace": {"name": "new", "path": "", "copy_for_each_run": True},
    "agent": {
        "name": "new", "agent_type": "coder", "execution_loop": "react", "is_active": True, "actor_model": "tiny",
    },
    "model": {
        "name": "new", "provider": "openai", "model_id": "m", "base_url": "", "api_key_env": "OPENAI_API_KEY",
        "max_tokens": 1000, "thinking": "off", "pace": 0,
    },
    "rule": {"agent_type": "*", "tool": "*", "operation": "write", "access": "deny", "paths": [], "reason": "r"},
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """``given`` differs from what would be saved."""

    kind: str
    given: dict[str, Any]
    who: str = "root"
    kept: str = ""
    """The audit event that is left, where there is one at every door."""
    words: tuple[str, ...] = field(default=())
    """The sentence, where all doors have the same."""


REFUSED = [
    Case("workspace", {"path": "/etc"}, kept="workspace.refused", words=("belongs to the system",)),
    Case("workspace", {"path": "/srv/any"}, kept="workspace.refused", words=("lies outside the workspace roots",)),
    Case("workspace", {"path": "/srv/any"}, who="chief", kept="workspace.refused", words=("a superuser can allow it",)),
    Case("workspace", {"name": SECRET}, kept="access.refused", words=("leave it out",)),
    Case("workspace", {"name": "Invoices"}, words=("already exists",)),
    Case("workspace", {}, who="operator", kept="access.refused"),
    Case("workspace", {}, who="role_only", kept="access.refused"),
    *(Case("workspace", {name: row.high + 1}, words=(f"less than or equal to {row.high}",)) for name, row in ROWS),
    *(Case("workspace", {name: row.low - 1}, who="chief") for name, row in ROWS),
    Case("agent", {"execution_loop": "os.system"}, words=("is not one of",)),
    Case("agent", {"program": "os.system"}, words=("is not one of",)),
    Case("agent", {"instructions": f"Use {SECRET}"}, kept="access.refused", words=("leave it out",)),
    Case("agent", {"name": "Mender"}, words=("already exists",)),
    Case("agent", {"agent_type": "no slug"}),
    Case("agent", {}, who="operator", kept="access.refused"),
    Case("agent", {}, who="role_only", kept="access.refused"),
    Case("model", {"api_key_env": "sk-ant-very-secret"}, words=("not the key",)),
    Case("model", {"api_key_env": "DATABASE_URL"}, words=("no key of a model",)),
    Case("model", {"base_url": "ftp://one.example/v1"}, words=("starts with https",)),
    Case("model", {"base_url": "http://169.254.169.254/v1"}, words=("of the network itself",)),
    Case("model", {"base_url": "http://one.example/v1"}, words=("would be sent to http://one.example",)),
    Case("model", {"thinking": "much"}, words=("adaptive",)),
    Case("model", {"provider": "nowhere"}, words=("is not one of",)),
    Case("model", {"name": "tiny"}, words=("already exists",)),
    Case("model", {"max_tokens": 0}),
    Case("model", {"input_usd_per_mtok": "1"}, words=("prices of input and output",)),
    Case("model", {"model_id": SECRET}, kept="access.refused", words=("leave it out",)),
    Case("model", {}, who="chief", kept="access.refused"),
    Case("rule", {"paths": ["../secret"]}, words=("inside the workspace",)),
    Case("rule", {"paths": ["/etc"]}, words=("inside the workspace",)),
    Case("rule", {"access": "allow", "operation": "*"}, words=("Name a tool or an operation",)),
    Case("rule", {"access": "perhaps"}),
    Case("rule", {"reason": ""}),
    Case("rule", {"note": SECRET}, kept="access.refused", words=("leave it out",)),
    Case("rule", {}, who="operator", kept="access.refused"),
    Case("rule", {}, who="role_only", kept="access.refused"),
    Case("policy", {"reason": "", "final_review": "always"}),
    Case("policy", {"sla_minutes": 100, "gate_expiry_minutes": 5}, words=("late before it expires",)),
    Case("policy", {"warn_at": 7.0}),
    Case("policy", {"final_review": "sometimes"}),
    *(Case("policy", {name: row.high + 1}, words=(f"less than or equal to {row.high}",)) for name, row in ROWS),
    *(Case("policy", {name: row.low - 1}) for name, row in ROWS),
    Case("policy", {"task_limits": {"nothing": 1}}, words=("",)),
    Case("policy", {"task_limits": {"max_steps": -1}}),
    Case("policy", {"final_review": "always"}, who="operator", kept="access.refused"),
    Case("policy", {"final_review": "always"}, who="role_only", kept="access.refused"),
]


@pytest.fixture
def house(world: World, settings: Any, monkeypatch: pytest.MonkeyPatch) -> World:
    """``chief`` administers the project and may open Admin; ``role_only`` has the role and no such access."""
    people.ensure_groups()
    ModelConfig.objects.create(name="tiny", provider="scripted", model_id="repair_a_bug")
    monkeypatch.setattr(masking, "_masker", masking.Masker({"ODD_KEY": SECRET}))
    settings.WORKSPACE_ROOTS = []
    world.chief = world.admin  # type: ignore[attr-defined]
    world.admin.groups.add(Group.objects.get(name="admin"))
    world.admin.is_staff = True
    world.admin.save()
    other = type(world.admin).objects.create_user("role_only")
    people.add_member(actor=None, project=world.project, user=other, role="admin")
    world.role_only = other  # type: ignore[attr-defined]
    return world


def whole(case: Case) -> dict[str, Any]:
    return {**SANE.get(case.kind, {"reason": "r"}), **case.given}


def by_admin(house: World, case: Case) -> str:
    model = TABLES[case.kind][0]
    given = whole(case)
    if case.kind == "policy":
        row = Policy.objects.get(project=house.project)
        now = {name.name: getattr(row, name.name) for name in Policy._meta.fields if name.editable}
        given, page = {**now, **given}, ("change", [row.pk])
    else:
        page = ("add", [])
    if case.kind != "model":
        given["project"] = house.project.pk
    sent = {}
    for name, value in given.items():
        if name.endswith("_model"):
            sent[name] = ModelConfig.objects.get(name=value).pk
        elif value is not False:
            sent[name] = json.dumps(value) if isinstance(value, list | dict) else "on" if value is True else value
    client = Client()
    client.force_login(getattr(house, case.who))
    answer = client.post(reverse(f"admin:loops_{model._meta.model_name}_{page[0]}", args=page[1]), sent)
    assert answer.status_code != 500
    return "" if answer.status_code == 302 and "login" not in answer["Location"] else answer.content.decode() or "no"


def by_api(house: World, case: Case) -> str:
    path, given = TABLES[case.kind][1], whole(case)
    client = Client()
    client.force_login(getattr(house, case.who))
    if "actor_model" in given:
        given["models"] = {"actor": given.pop("actor_model")}
    if case.kind == "policy":
        row = Policy.objects.get(project=house.project)
        answer = client.patch(f"/api/v1/{path}/{row.pk}/", given, content_type="application/json")
    else:
        given |= {} if case.kind == "model" else {"project": house.project.slug}
        answer = client.post(f"/api/v1/{path}/", given, content_type="application/json")
    assert answer.status_code in (200, 201, 400, 403), answer.content
    return "" if answer.status_code in (200, 201) else answer.content.decode()


def by_verb(house: World, case: Case) -> str:
    given, out = whole(case), StringIO()
    words = ["--as", getattr(house, case.who).username, case.kind]
    if case.kind == "workspace":
        words += [given["name"], given["path"] or str(house.workspace.path or "/nowhere/at/all")]
        words += [f"--{name.replace('_', '-')}={given[name]}" for name in COMMAND_LIMITS if name in given]
    else:
        words += ["set"] if case.kind == "policy" else ["make", given.pop("name")] if "name" in given else ["make"]
        words += [word for name, value in given.items() for word in typed(case.kind, name, value)]
    words += [] if case.kind == "model" else ["--project", house.project.slug]
    try:
        call_command("agentops", *words, stdout=out, stderr=out)
    except CommandError as error:
        return str(error)
    return ""


def typed(kind: str, name: str, value: Any) -> list[str]:
    options = {"agent": set_up.AGENT, "model": set_up.MODEL, "rule": set_up.RULE, "policy": set_up.POLICY}[kind].options
    option = "--" + next((option for option, field in options.items() if field == name), name)
    if name == "paths":
        return [word for path in value for word in ("--path", path)]
    if name == "task_limits":
        return [word for limit, amount in value.items() for word in ("--limit", limit, str(amount))]
    if name != "reason" and isinstance(TABLES[kind][0]._meta.get_field(name), fields.BooleanField):
        return [option, "yes" if value else "no"]
    return [f"{option}={value}"]


DOORS: dict[str, Callable[[World, Case], str]] = {"admin": by_admin, "api": by_api, "verb": by_verb}


def kept() -> list[Any]:
    """All that is set up, as it stands."""
    tables = [model for model, _ in TABLES.values()] + [ModelAddress, PolicyVersion]
    return [list(model.objects.order_by("pk").values()) for model in tables]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case.kind} {case.given} by {case.who}"[:60])
def test_every_door_refuses_what_admin_refuses(house: World, door: str, case: Case) -> None:
    before, events = kept(), set(AuditEvent.objects.values_list("pk", flat=True))
    answer = DOORS[door](house, case)
    assert answer, "it was saved"
    assert "unrecognized arguments" not in answer
    assert kept() == before
    new = AuditEvent.objects.exclude(pk__in=events)
    shown = answer.replace("&#x27;", "'").replace("&quot;", '"')
    assert all(word in shown for word in case.words), shown[-3000:]
    assert SECRET not in answer
    if case.kept and not (door == "admin" and case.kept == "access.refused" and case.who != "root"):
        assert new.filter(kind=case.kept, actor=getattr(house, case.who)).exists(), "nobody would see who tried"


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", ["agent", "model", "rule"])
def test_control_the_same_without_the_fault_is_saved_and_on_record(house: World, door: str, kind: str) -> None:
    model, who = TABLES[kind][0], "root" if kind == "model" else "chief"
    before = model.objects.count()
    assert DOORS[door](house, Case(kind, {}, who=who)) == ""
    assert model.objects.count() == before + 1
    assert AuditEvent.objects.filter(kind=f"{kind}.changed", actor=getattr(house, who)).count() == 1


@pytest.mark.parametrize("door", DOORS)
def test_a_policy_is_changed_with_a_version_of_who_and_why(house: World, door: str) -> None:
    most = {name: row.high for name, row in ROWS}
    given = {"final_review": "always", "task_limits": {"max_steps": 70}, "reason": "Two wrong invoices", **most}
    assert DOORS[door](house, Case("policy", given, who="chief")) == ""
    row = Policy.objects.get(project=house.project)
    assert (row.final_review, row.task_limits) == ("always", {"max_steps": 70})
    assert {name: getattr(row, name) for name in most} == most
    version = PolicyVersion.objects.filter(project=house.project).first()
    assert version is not None
    assert (version.reason, version.created_by) == ("Two wrong invoices", house.admin)


@pytest.mark.spec("I3")
def test_the_list_of_rules_in_admin_has_the_rule_of_the_form(house: World) -> None:
    rule = AccessRule.objects.create(project=house.project, access="ask", operation="*")
    client = Client()
    client.force_login(house.root)
    form = {"form-TOTAL_FORMS": 1, "form-INITIAL_FORMS": 1, "form-0-id": rule.pk, "form-0-access": "allow"}
    listing = reverse("admin:loops_accessrule_changelist") + "?operation__exact=*"
    client.post(f"{listing}&project__id__exact={house.project.pk}", {**form, "_save": "Save"})
    rule.refresh_from_db()
    assert rule.access == "ask"
