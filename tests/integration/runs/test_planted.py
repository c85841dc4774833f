"""What a command planted for whoever uses the folder later is told to the agent, the trace and the audit (SPEC I7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loops.models import AccessRule, AuditEvent, Workspace
from loops.services import tasks
from tests import factories as make
from tests.factories import create_project
from tests.integration.breakers.wire_runs import drive_on, model
from tests.wire.say import Say
from tests.wire.server import WireServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("I7")]


def hostile(seen: Any) -> Any:
    command = "git init -q made; git -C made config core.fsmonitor ./x; echo x > made/.envrc"
    return Say(calls=[("run_command", {"command": command})]) if seen.number == 0 else Say(text="Done")


def test_what_was_taken_away_is_told(tmp_path: Path) -> None:
    boss = make.superuser("boss")
    project = create_project(actor=boss, name="P", slug="p")
    AccessRule.objects.filter(project=project, operation="execute").update(access="allow")
    tmp_path.chmod(0o777)
    place = Workspace.objects.create(project=project, name="W", path=str(tmp_path), copy_for_each_run=True)
    with WireServer(hostile) as server:
        agent = make.agent(project, actor_model=model(server, timeout_s=20))
        run = tasks.submit_task(
            actor=boss, project=project, agent=agent, goal="Work", final_review="never", workspace=place
        ).run
        drive_on(run)
        told = server.seen[1].raw
    assert b"taken away: made/.envrc: people's tools or agents would obey it" in told
    assert b"core.fsmonitor" in told
    row = AuditEvent.objects.get(run=run, kind="tool.planted")
    assert [one["path"] for one in row.detail["taken"]] == ["made/.envrc", "made/.git/config"]
