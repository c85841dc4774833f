"""Commands of criteria are tried before a task is submitted: red, green, or not able to judge anything (SPEC C6)."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import Client
from django.utils import timezone

from loops import jobs
from loops.models import AccessRule, Agent, AuditEvent, Policy, Preflight, Workspace
from loops.services import preflight
from loops.services.access import NotAllowed
from loops.services.steering import NotPossible
from tests import factories as make
from tests.integration.rollback.world import look

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("C6", "T2", "T3")]
TESTS = """import unittest
class Sums(unittest.TestCase):
    def test_one(self): self.assertEqual(1, 1)
    def test_two(self): self.assertEqual(1, 2)
    def test_three(self): self.assertEqual(1, 3)
"""
SUITE = "python3 -m unittest"


class Shop:
    """A project with an agent, a folder with tests of which two fail, and an operator."""

    def __init__(self, folder: Path) -> None:
        self.project = make.project()
        AccessRule.objects.create(project=self.project, access="ask", operation="execute")
        self.operator = make.user("olga", operator=self.project)
        self.agent = make.agent(self.project, name="Engineer")
        self.folder = folder
        folder.mkdir()
        (folder / "test_sums.py").write_text(TESTS)
        self.workspace = Workspace.objects.create(project=self.project, name="shop", path=str(folder))
        self.client = Client()
        self.client.force_login(self.operator)

    def ask(self, *commands: str, **more: Any) -> Preflight:
        criteria = [{"text": "It holds", "command": one} for one in commands]
        what: dict[str, Any] = {"actor": self.operator, "project": self.project, "agent": self.agent}
        return preflight.ask(**(what | {"workspace": self.workspace, "criteria": criteria} | more))

    def form(self, *commands: str) -> dict[str, Any]:
        ids = {"project": self.project.pk, "agent": self.agent.pk, "workspace": str(self.workspace.pk)}
        return {**ids, "criterion": ["It holds"] * len(commands), "command": list(commands)}


@pytest.fixture
def shop(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Jobs are done at once, by another thread."""
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")

    def now(job: str, after: float = 0, **given: str) -> None:
        if job == "loops.preflight":
            with ThreadPoolExecutor(1) as pool:
                pool.submit(by_a_worker, given["preflight"]).result()

    monkeypatch.setattr("loops.storage.dispatch.dispatch", now)
    return Shop(tmp_path / "shop")


def by_a_worker(preflight_id: str) -> bool:
    try:
        return jobs.preflight(preflight_id)
    finally:
        connections.close_all()


def said(asked: Preflight) -> list[tuple[str, str]]:
    asked.refresh_from_db()
    return [(one["status"], one["said"]) for one in asked.results]


def test_it_says_what_is_red_what_is_green_and_what_is_not_there(shop: Shop) -> None:
    was = look(shop.folder)
    asked = shop.ask(SUITE, "test -f test_sums.py", "test -f nothing", "no-such-runner -q", "echo x > made; rm *.py")
    assert said(asked) == [
        ("failed", "2 failed, 1 passed"),
        ("passed", "Exit code 0."),
        ("failed", "Exit code 1."),
        ("error", "no-such-runner is not installed where commands run. Install no-such-runner there."),
        ("passed", "Exit code 0."),
    ]
    assert "AssertionError: 1 != 2" in asked.results[0]["output"]
    assert look(shop.folder) == was, "they ran on a copy"
    assert list(shop.folder.parent.glob("runs/*")) == [], "which is gone"
    assert AuditEvent.objects.get(kind="task.preflight").actor == shop.operator


@pytest.mark.spec("S1")
def test_a_command_has_the_time_that_the_project_gives_to_criteria(shop: Shop) -> None:
    policy = Policy.objects.filter(project=shop.project)
    policy.update(command_seconds=1, criterion_seconds=1)
    ((status, why),) = said(shop.ask("sleep 1.5"))
    assert status == "error"
    assert "stopped after 1 s" in why
    policy.update(criterion_seconds=1_200)
    asked = shop.ask("sleep 1.5")
    assert said(asked) == [("passed", "Exit code 0.")]
    assert asked.until - asked.asked_at > timedelta(seconds=1_200), "it is not given up before that"


def test_what_the_matrix_denies_does_not_run(shop: Shop) -> None:
    AccessRule.objects.create(project=shop.project, access="deny", operation="execute")
    ((status, why),) = said(shop.ask("echo x"))
    assert status == "refused"
    assert why


def test_a_folder_that_no_run_could_have_is_named(shop: Shop, settings: Any) -> None:
    (shop.folder / "out").symlink_to("/etc/passwd")
    ((status, why),) = said(shop.ask(SUITE))
    assert status == "error"
    assert "leads out of the workspace" in why
    settings.WORKSPACE_ROOTS = []
    with pytest.raises(NotPossible, match="outside the workspace roots"):
        shop.ask(SUITE)


def test_only_who_may_submit_and_one_at_a_time(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotAllowed):
        shop.ask(SUITE, actor=make.user("rita", reviewer=shop.project))
    with pytest.raises(NotPossible, match="No criterion has a command"):
        shop.ask("")
    monkeypatch.setattr("loops.storage.dispatch.dispatch", lambda *_, **__: None)
    first = shop.ask(SUITE)
    with pytest.raises(NotPossible, match="still running"):
        shop.ask(SUITE)
    shop.ask(SUITE, actor=make.user("oleg", operator=shop.project))
    Preflight.objects.filter(pk=first.pk).update(until=timezone.now() - timedelta(seconds=1))
    first.refresh_from_db()
    assert first.is_lost
    assert not by_a_worker(str(first.pk)), "too late"
    shop.ask(SUITE)


def test_one_that_reached_no_worker_is_handed_over_again_and_begun_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(jobs, "hand_over", lambda job, **given: asked.append({"job": job, **given}))
    monkeypatch.setattr("loops.storage.dispatch.dispatch", lambda *_, **__: None)
    made = shop.ask(SUITE)
    monkeypatch.setattr(jobs, "UNHEARD_S", 600)
    jobs.sweep()
    assert not asked
    monkeypatch.setattr(jobs, "UNHEARD_S", -1)
    jobs.sweep()
    assert asked == [{"job": "loops.preflight", "preflight": str(made.pk)}]
    assert by_a_worker(str(made.pk))
    assert not by_a_worker(str(made.pk))
    assert said(made) == [("failed", "2 failed, 1 passed")]


def test_the_form_shows_it_to_whoever_asked(shop: Shop) -> None:
    page = shop.client.post("/tasks/new/try/", shop.form(SUITE)).content.decode()
    assert "Waiting for a worker" in page
    asked = Preflight.objects.get()
    shown = shop.client.get(f"/tasks/tried/{asked.pk}/")
    assert "2 failed, 1 passed" in shown.content.decode()
    assert "hx-get" not in shown.content.decode()
    other = Client()
    other.force_login(make.user("oleg", operator=shop.project))
    assert other.get(f"/tasks/tried/{asked.pk}/").status_code == 404
    assert other.get(f"/api/v1/preflights/{asked.pk}/").status_code == 404
    hostile = shop.client.post("/tasks/new/try/", shop.form("echo '<script>alert(1)</script>'; false"))
    assert hostile.status_code == 200
    latest = Preflight.objects.first()
    assert latest is not None
    assert "<script>alert" not in shop.client.get(f"/tasks/tried/{latest.pk}/").content.decode()
    assert "No criterion has a command" in shop.client.post("/tasks/new/try/", shop.form("")).content.decode()


def test_programs_and_terminals_try_the_same(shop: Shop) -> None:
    names = {"project": shop.project.slug, "agent": "Engineer", "workspace": "shop"}
    body = {**names, "criteria": [{"text": "It holds", "command": SUITE}]}
    made = shop.client.post("/api/v1/preflights/", json.dumps(body), content_type="application/json")
    assert made.status_code == 202, made.content
    told = shop.client.get(f"/api/v1/preflights/{made.json()['id']}/").json()
    assert [(one["status"], one["said"]) for one in told["results"]] == [("failed", "2 failed, 1 passed")]
    out = StringIO()
    words = ["agentops", "--as", "olga", "try", "--project", shop.project.slug]
    call_command(*words, "--agent", "Engineer", "--workspace", "shop", SUITE, stdout=out)
    assert f"failed  {SUITE}: 2 failed, 1 passed" in out.getvalue()
    with pytest.raises(CommandError, match="Some commands cannot run here"):
        call_command(*words, "--agent", "Engineer", "no-such-runner", stdout=out)


def test_whoever_tests_runs_what_judges(shop: Shop) -> None:
    """``Agent.agent_type`` decides which rules hold."""
    AccessRule.objects.create(project=shop.project, access="deny", operation="execute", agent_type="reader")
    reader = Agent.objects.create(
        project=shop.project, name="Reader", agent_type="reader", actor_model=shop.agent.actor_model
    )
    assert said(shop.ask("true"))[0][0] == "passed"
    assert said(shop.ask("true", agent=reader))[0][0] == "refused"
