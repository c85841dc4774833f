"""A workspace may have limits of commands of its own, within the product's bounds: who states them at every door, and
what they hold for (SPEC I7, S1, S4, ADR 0069)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from loops.engine.ports import CallContext
from loops.engine.state.command_limits import COMMAND_LIMITS, DEFAULTS
from loops.engine.values import ToolCall, ToolResult
from loops.models import AccessRule, AuditEvent, Policy, Preflight, Run, Task, Workspace
from loops.runs import composition
from loops.runs.composition import tools_of
from loops.services import people
from loops.storage import journal
from loops.workspaces import copies, networked, preflight
from tests import factories as make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("S1", "S4", "I7")]


class Shop:
    """A project whose commands run unasked, with two workspaces. ``chief`` may open Admin; ``keeper`` may as well, and
    may change workspaces there but not the policy."""

    def __init__(self, folder: Path) -> None:
        people.ensure_groups()
        self.project = make.project()
        AccessRule.objects.filter(project=self.project, operation="execute").update(access="allow")
        self.root = make.superuser()
        self.chief, self.keeper = (make.user(name, admin=self.project) for name in ("chief", "keeper"))
        self.chief.groups.add(Group.objects.get(name="admin"))
        self.keeper.user_permissions.add(Permission.objects.get(codename="change_workspace"))
        for person in (self.chief, self.keeper):
            person.is_staff = True
            person.save()
        self.large, self.small = (self._workspace(folder / name) for name in ("large", "small"))

    def _workspace(self, folder: Path) -> Workspace:
        folder.mkdir()
        made: Workspace = Workspace.objects.create(project=self.project, name=folder.name, path=str(folder))
        return made

    def run(self, workspace: Workspace) -> Run:
        run = make.run(make.task(self.project, workspace=workspace))
        Run.objects.filter(pk=run.pk).update(workspace_path=copies.prepare(run))
        run.refresh_from_db()
        return run

    def shell(self, run: Run, command: str, *, is_criterion: bool = False) -> ToolResult:
        tools = tools_of(run, journal.raw_connection())
        call = ToolCall("call-1", "run_command", {"command": command})
        place = (str(run.pk), 1, run.agent.agent_type, str(run.project_id), run.workspace_path)
        context = CallContext(*place, is_criterion=is_criterion)
        asyncio.run(tools.judge(call, context))
        return asyncio.run(tools.execute(call, context, lambda stream, chunk: None))

    def tried(self, workspace: Workspace, command: str) -> dict[str, Any]:
        asked = Preflight(project=self.project, workspace=workspace, agent_type="coder", commands=[command])
        return preflight.measure(asked)[0]


@pytest.fixture
def shop(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Shop:
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    settings.WORKSPACE_ROOTS = (str(tmp_path),)
    (tmp_path / "runs").mkdir()
    monkeypatch.setattr(composition, "RULES_FRESH_S", 0.0)
    return Shop(tmp_path)


def by_admin(shop: Shop, who: Any, **given: Any) -> str:
    row = Workspace.objects.get(pk=shop.large.pk)
    sent: dict[str, Any] = {"name": row.name, "path": row.path, "copy_for_each_run": "on"}
    sent |= {name: "" if getattr(row, name) is None else getattr(row, name) for name in COMMAND_LIMITS} | given
    answer = _client(who).post(reverse("admin:loops_workspace_change", args=[row.pk]), sent)
    return "" if answer.status_code == 302 else answer.content.decode()


def by_page(shop: Shop, who: Any, **given: Any) -> str:
    answer = _client(who).post(reverse("workspace-limits", args=[shop.large.pk]), given, follow=True)
    text: str = answer.content.decode()
    return "" if "Saved." in text else text


def by_api(shop: Shop, who: Any, **given: Any) -> str:
    sent = {name: None if value == "" else value for name, value in given.items()}
    where = f"/api/v1/workspaces/{shop.large.pk}/"
    answer = _client(who).patch(where, sent, content_type="application/json")
    return "" if answer.status_code == 200 else answer.content.decode()


def by_verb(shop: Shop, who: Any, **given: Any) -> str:
    words = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    out = StringIO()
    named = ["workspace", "set", "large", "--project", shop.project.slug, *words]
    try:
        call_command("agentops", "--as", who.username, *named, stdout=out, stderr=out)
    except CommandError as error:
        return str(error)
    return ""


def _client(who: Any) -> Client:
    client = Client()
    client.force_login(who)
    return client


Door = Callable[..., str]
DOORS: dict[str, Door] = {"admin": by_admin, "page": by_page, "api": by_api, "verb": by_verb}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", COMMAND_LIMITS)
def test_an_admin_gives_a_workspace_the_most_or_the_least_and_takes_it_back(shop: Shop, door: str, name: str) -> None:
    row = COMMAND_LIMITS[name]
    for amount in (row.high, row.low):
        assert DOORS[door](shop, shop.chief, **{name: amount}) == ""
        shop.large.refresh_from_db()
        assert shop.large.own_limits == {name: amount}
        event = AuditEvent.objects.filter(kind="workspace.changed").latest("id")
        assert (event.actor, event.detail["limits"]) == (shop.chief, {name: amount})
    assert DOORS[door](shop, shop.chief, **{name: ""}) == ""
    shop.large.refresh_from_db()
    assert shop.large.own_limits == {}
    assert AuditEvent.objects.filter(kind="workspace.changed").latest("id").detail["limits"] == {name: None}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", COMMAND_LIMITS)
def test_what_lies_outside_is_refused_and_never_cut_to_fit(shop: Shop, door: str, name: str) -> None:
    for amount in (COMMAND_LIMITS[name].high + 1, COMMAND_LIMITS[name].low - 1):
        assert "than or equal to" in DOORS[door](shop, shop.root, **{name: amount})
        shop.large.refresh_from_db()
        assert shop.large.own_limits == {}
    assert not AuditEvent.objects.filter(kind="workspace.changed").exists()


def test_what_is_refused_comes_back_as_it_was_typed(shop: Shop) -> None:
    most, fits = COMMAND_LIMITS["command_memory_mib"].high, COMMAND_LIMITS["command_seconds"].low
    said = by_page(shop, shop.chief, command_memory_mib=most + 1, command_seconds=fits)
    assert f'value="{most + 1}"' in said
    assert f'value="{fits}"' in said
    shop.large.refresh_from_db()
    assert shop.large.own_limits == {}


@pytest.mark.parametrize("door", DOORS)
def test_who_may_not_change_the_policy_changes_no_workspace_s_limits(shop: Shop, door: str) -> None:
    said = DOORS[door](shop, shop.keeper, command_memory_mib=4_096)
    assert "To change policies you need access to Admin" in said
    shop.large.refresh_from_db()
    assert shop.large.own_limits == {}
    assert AuditEvent.objects.filter(kind="access.refused", actor=shop.keeper).exists()


@pytest.mark.parametrize("door", ["admin", "api", "verb"])
def test_control_they_change_the_rest_of_it(shop: Shop, door: str) -> None:
    Workspace.objects.filter(pk=shop.large.pk).update(command_memory_mib=4_096)
    if door == "verb":
        named = ["workspace", "set", "large", "--project", shop.project.slug, "--in-place"]
        call_command("agentops", "--as", "keeper", *named, stdout=StringIO())
    else:
        given = {"copy_for_each_run": ""} if door == "admin" else {"copy_for_each_run": False}
        assert DOORS[door](shop, shop.keeper, **given) == ""
    shop.large.refresh_from_db()
    assert (shop.large.copy_for_each_run, shop.large.own_limits) == (False, {"command_memory_mib": 4_096})


def test_they_hold_for_the_next_command_of_its_runs_and_for_no_other_workspace(shop: Shop) -> None:
    mine, other = shop.run(shop.large), shop.run(shop.small)
    Policy.objects.filter(project=shop.project).update(criterion_seconds=1, command_seconds=1)
    assert "stopped after 1 s (time limit)" in shop.shell(mine, "sleep 1.5").error
    Workspace.objects.filter(pk=shop.large.pk).update(criterion_seconds=30, command_seconds=30)
    assert shop.shell(mine, "sleep 1.5").ok, "more than its project"
    assert shop.shell(mine, "sleep 1.5", is_criterion=True).ok
    assert "stopped after 1 s (time limit)" in shop.shell(other, "sleep 1.5").error
    assert "stopped after 1 s (time limit)" in shop.shell(other, "sleep 1.5", is_criterion=True).error
    Policy.objects.filter(project=shop.project).update(command_seconds=30)
    Workspace.objects.filter(pk=shop.large.pk).update(command_seconds=1)
    assert "stopped after 1 s (time limit)" in shop.shell(mine, "sleep 1.5").error, "less than its project"
    assert shop.shell(other, "sleep 1.5").ok


def test_they_hold_where_commands_are_tried(shop: Shop) -> None:
    Workspace.objects.filter(pk=shop.large.pk).update(criterion_seconds=1)
    assert "stopped after 1 s (time limit)" in shop.tried(shop.large, "sleep 1.5")["said"]
    assert shop.tried(shop.small, "sleep 1.5")["status"] == "passed"


def test_they_hold_for_its_set_up(shop: Shop) -> None:
    shop.large.workspace_mib, shop.large.command_memory_mib = 8_192, 16_384
    mine, theirs = (networked.limits_of(one) for one in (shop.large, shop.small))
    assert (mine.workspace_bytes, mine.memory_bytes) == (8 * 2**30, 16 * 2**30)
    assert mine.workspace_files == theirs.workspace_files == DEFAULTS.workspace_files
    assert (theirs.workspace_bytes, theirs.memory_bytes) == (2**30, 4 * 2**30)


@pytest.mark.spec("J6", "X5")
def test_pages_say_which_figures_come_from_the_workspace(shop: Shop) -> None:
    agent = make.agent(shop.project, name="Engineer")
    Workspace.objects.filter(pk=shop.large.pk).update(criterion_seconds=1_200, command_memory_mib=6_144)
    client = _client(shop.root)

    def preview(workspace: Workspace) -> str:
        given = {"project": shop.project.pk, "agent": agent.pk, "workspace": workspace.pk, "goal": "Do it"}
        text: str = client.post(reverse("task-preview"), given).content.decode()
        return text

    tag = ' <span class="tag">workspace</span>'
    assert f">20 min{tag}" in (chosen := preview(shop.large))
    assert 'id="criterion-time" hx-swap-oob="true">20 min<' in chosen
    assert (f">6 GiB{tag}" in chosen, chosen.count(tag)) == (True, 2)
    assert (tag in preview(shop.small), "6 GiB" in preview(shop.small)) == (False, False)
    for workspace, times in ((shop.large, 2), (shop.small, 0)):
        task = make.task(shop.project, workspace=Workspace.objects.get(pk=workspace.pk))
        page = client.get(reverse("run", args=[make.run(Task.objects.get(pk=task.pk)).pk])).content.decode()
        assert page.count(tag) == times
    mine = client.get(reverse("workspace", args=[shop.large.pk])).content.decode()
    assert 'max="7200" value="1200"' in mine
    assert "Project's policy: 2 min. From 1 to 7,200." in mine
    hers = _client(make.user("vera", viewer=shop.project)).get(reverse("workspace", args=[shop.large.pk]))
    assert 'name="criterion_seconds"' not in hers.content.decode()
