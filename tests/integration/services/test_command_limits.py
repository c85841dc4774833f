"""What a command may use is a policy of its project: on record, and in force at the next command (SPEC S1, I7)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db.models import Field
from django.test import Client
from django.urls import reverse

from loops.admin.configuration import PolicyForm
from loops.api import configuration_shapes as shapes
from loops.engine.ports import CallContext
from loops.engine.state.command_limits import COMMAND_LIMITS, DEFAULTS
from loops.engine.values import Access, ToolCall, ToolResult
from loops.management import set_up
from loops.models import AccessRule, AuditEvent, Policy, PolicyVersion, Workspace
from loops.runs import composition
from loops.runs.composition import LiveTools, rules_of
from loops.services.policy_settings import POLICIES
from loops.storage import blobs, journal
from loops.tools.output import sha256_hex
from loops.workspaces import networked
from tests import factories as make
from tests.unit.tools.harness import reachable

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("S1", "I7")]


@pytest.mark.parametrize("name", COMMAND_LIMITS)
def test_each_row_is_a_field_of_the_policy_at_every_door(name: str) -> None:
    field: Field[Any, Any] = Policy._meta.get_field(name)
    row = COMMAND_LIMITS[name]
    bounds = {one.code: one.limit_value for one in field.validators if one.limit_value in (row.low, row.high)}
    assert bounds == {"min_value": row.low, "max_value": row.high}
    assert (field.default, field.help_text) == (getattr(DEFAULTS, name), row.help)
    assert PolicyForm.Meta.labels[name] == row.form_label
    assert name in shapes.PolicyChange.Meta.fields
    assert name in shapes.PolicyOutput.Meta.fields
    assert set_up.POLICY.options[name.replace("_", "-")] == name


class Team:
    """A project where commands run unasked, and the tools of a run of it that is under way."""

    def __init__(self, folder: Path) -> None:
        self.project = make.project()
        self.admin = make.superuser()
        self.rules = AccessRule.objects.filter(project=self.project, operation="execute")
        self.rules.update(access="allow")
        folder.mkdir()
        self.connection = journal.raw_connection()
        rules, stored = rules_of(str(self.project.pk), self.connection), blobs.Stored(self.connection)
        self.tools = LiveTools("coder", rules, lambda event: None, stored, sha256_hex)
        self.context = CallContext("run-1", 1, "coder", str(self.project.pk), str(reachable(folder)))
        self.folder = folder

    def sets(self, **given: int) -> None:
        POLICIES.change(actor=self.admin, row=Policy.objects.get(project=self.project), given=given, reason="Builds")

    def shell(self, command: str) -> ToolResult:
        call = ToolCall("call-1", "run_command", {"command": command})
        assert asyncio.run(self.tools.judge(call, self.context)).access is Access.ALLOW
        return asyncio.run(self.tools.execute(call, self.context, lambda stream, chunk: None))


@pytest.fixture
def teams(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Team, Team]]:
    """Two; what a policy says is read anew for each call that is judged."""
    settings.AGENTOPS_WORKSPACES = str(tmp_path)
    monkeypatch.setattr(composition, "RULES_FRESH_S", 0.0)
    made = Team(tmp_path / "one"), Team(tmp_path / "other")
    yield made
    for team in made:
        team.connection.close()


def test_a_change_holds_for_the_next_command_of_a_run_under_way_and_for_no_other_project(
    teams: tuple[Team, Team],
) -> None:
    one, other = teams
    assert one.shell("sleep 1.5").ok
    one.sets(command_seconds=1)
    assert "stopped after 1 s (time limit)" in one.shell("sleep 1.5").error
    assert other.shell("sleep 1.5").ok
    one.sets(command_seconds=30, command_output_mib=20)
    assert one.shell("yes | head -c 11M").ok, "more than anybody begins with"
    assert "10485760 bytes of output" in other.shell("yes | head -c 11M; sleep 60").error


def test_it_is_on_record_who_changed_what_from_what(teams: tuple[Team, Team]) -> None:
    one, _ = teams
    one.sets(criterion_seconds=1_200)
    one.sets(criterion_seconds=1_500, command_memory_mib=6_144)
    later, former = PolicyVersion.objects.filter(project=one.project)[:2]
    assert (later.reason, later.created_by) == ("Builds", one.admin)
    assert [version.snapshot["policy"]["criterion_seconds"] for version in (former, later)] == [1_200, 1_500]
    event = AuditEvent.objects.filter(kind="policy.changed", project=one.project).latest("id")
    assert event.detail["changed"] == ["policy.command_memory_mib", "policy.criterion_seconds"]


@pytest.mark.spec("Q5")
def test_what_was_approved_is_as_it_was_approved_after_a_change(teams: tuple[Team, Team]) -> None:
    """Neither is anybody asked anew because of it, nor does it unbind the bytes of a script."""
    one, _ = teams
    one.rules.update(access="ask")
    (one.folder / "build.sh").write_text("echo approved\n")
    call = ToolCall("call-1", "run_command", {"command": "bash build.sh"})
    approved = asyncio.run(one.tools.judge(call, one.context))
    assert approved.access is Access.ASK
    one.sets(command_memory_mib=4_096)
    other_call = ToolCall("call-2", "run_command", {"command": "true"})
    asyncio.run(one.tools.judge(other_call, one.context))  # by now the change is known
    (one.folder / "build.sh").write_text("echo something else\n")
    refused = asyncio.run(one.tools.execute(call, one.context, lambda stream, chunk: None))
    assert "changed since it was approved" in refused.error
    (one.folder / "build.sh").write_text("echo approved\n")
    again = asyncio.run(one.tools.judge(call, one.context))
    assert again.subject == approved.subject
    assert "approved" in asyncio.run(one.tools.execute(call, one.context, lambda stream, chunk: None)).content


def test_a_set_up_may_leave_what_commands_may_use(teams: tuple[Team, Team]) -> None:
    one, other = teams
    one.sets(workspace_mib=4_096, workspace_files=300_000, command_memory_mib=8_192)
    mine, theirs = (networked.limits_of(Workspace(project=team.project)) for team in teams)
    assert (mine.workspace_bytes, mine.workspace_files, mine.memory_bytes) == (4 * 2**30, 300_000, 8 * 2**30)
    assert (theirs.workspace_bytes, theirs.memory_bytes) == (2**30, 4 * 2**30)
    assert mine.tmp_bytes == theirs.tmp_bytes == 2**30
    assert other.project != one.project


def page(team: Team, name: str, **given: Any) -> str:
    client = Client()
    client.force_login(team.admin)
    answer = client.post(reverse(name), given) if given else client.get(reverse(name))
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.spec("J6", "C6")
def test_whoever_writes_a_task_reads_what_the_project_gives(teams: tuple[Team, Team]) -> None:
    """At first, and when another project is chosen."""
    one, other = teams
    for team in teams:
        make.agent(team.project, name=f"Engineer of {team.project.slug}")
    one.sets(criterion_seconds=1_200, command_memory_mib=6_144)
    chosen = page(one, "task-preview", project=one.project.pk, goal="Do it")
    assert 'id="criterion-time" hx-swap-oob="true">20 min<' in chosen
    assert "6 GiB" in chosen
    elsewhere = page(one, "task-preview", project=other.project.pk, goal="Do it")
    assert 'id="criterion-time" hx-swap-oob="true">2 min<' in elsewhere
    assert "6 GiB" not in elsewhere
    other.sets(criterion_seconds=1_200)
    assert 'Each command may take <span id="criterion-time">20 min</span>' in page(one, "new-task")
