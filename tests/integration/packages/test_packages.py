"""Packages of other people on the real parts: the guide's example, really installed, and broken ones at every door."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from agentops.ops import checks
from gates.models import Gate
from loops.engine import facts as f
from loops.engine import strategies
from loops.llm.scripted import scripts
from loops.models import Agent, AuditEvent, Run
from loops.runs import composition
from loops.runs.drive import drive
from loops.services import prompts, steering
from loops.services.forks import fork_run
from loops.services.models import ensure_script
from loops.services.tasks import InvalidTask, submit_task
from loops.storage import reader
from tests import acme
from tests.factories import create_project

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("B1")]
ROLLBACK = Path(__file__).parents[1] / "rollback"
PROMPT = "You are {{agent_name}}."
RAISES = """
from importlib.resources import files
from loops.engine.strategies.react import React

class found(React):
    name = "{name}"
    prompts = files(__package__)
    def {part}(self, state):
        raise ValueError("off by one")
"""


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Puts a folder of installed packages on the path, and has tools and loops read anew."""
    monkeypatch.setattr(strategies, "_registered", {"react": strategies.get("react")})
    monkeypatch.setattr(strategies, "_broken", [])

    def use(folder: Path) -> None:
        monkeypatch.syspath_prepend(folder)
        monkeypatch.setattr(strategies, "_loaded", False)
        composition.tool_registry.cache_clear()

    yield use
    for name in [name for name in sys.modules if name.startswith("acme_")]:
        del sys.modules[name]
    composition.tool_registry.cache_clear()


@pytest.fixture
def project(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    monkeypatch.setattr(scripts, "__path__", [*scripts.__path__, str(ROLLBACK)])
    boss = get_user_model().objects.create_superuser("ana", password="x")
    return create_project(actor=boss, name="P", slug="p")


def submit(project: Any, loop: str = "", calls: Any = (), agents_loop: str = "react") -> Run:
    model = ensure_script("scripted", pace=0)
    agent = Agent.objects.create(
        project=project, name=f"A {uuid.uuid4()}", actor_model=model, execution_loop=agents_loop
    )
    boss = get_user_model().objects.get()
    return submit_task(
        actor=boss, project=project, agent=agent, workspace=None, goal=json.dumps(list(calls)), execution_loop=loop
    ).run


def report_of(run: Run) -> Any:
    return [fact.report for fact in reader.history(run.pk) if isinstance(fact, f.RunEnded)][-1]


@pytest.mark.spec("B1", "I2", "I3")
def test_the_example_of_the_guide_works_and_pays_nothing_unasked(packages: Any, project: Any, tmp_path: Path) -> None:
    packages(acme.install(tmp_path / "site"))
    assert composition.broken_packages() == ()
    assert "planner_first" in strategies.names()
    calls = [("account_balance", {"customer": "acme"}), ("pay_invoice", {"customer": "acme"})]
    run = submit(project, "planner_first", calls)
    assert drive(run.pk, "w1") == "gate:irreversible_action"
    started, *_ = reader.history(run.pk)
    assert isinstance(started, f.RunStarted)
    assert started.system.startswith("You are A ")
    assert "Your first answer is a plan" in started.system
    prompt = strategies.prompt("planner_first")
    assert prompt is not None
    assert started.prompt_version == prompt.version
    gate = Gate.objects.get(run=run.pk)
    assert (gate.tool, gate.risk) == ("pay_invoice", "high")
    assert list(run.tool_calls.filter(ok=True).values_list("tool", flat=True)) == ["account_balance"]
    roles = [fact.role for fact in reader.history(run.pk) if isinstance(fact, f.ModelRequested)]
    assert [role.value for role in roles] == ["planner", "actor"]
    page = Client()
    page.force_login(get_user_model().objects.get())
    said = page.get(reverse("tools")).content.decode()
    assert "planner_first" in said
    assert "pay_invoice" in said
    assert "Packages that cannot be used" not in said


@pytest.mark.spec("A5", "B1")
@pytest.mark.parametrize("part", ["plan", "act"])
def test_a_loop_that_raises_ends_its_run_in_the_first_worker(
    packages: Any, project: Any, tmp_path: Path, part: str
) -> None:
    code = RAISES.format(name="odd", part=part)
    packages(acme.write(tmp_path / "site", "loops", f"raises_{part}", code, entry="odd", odd=PROMPT))
    run = submit(project, "odd")
    assert drive(run.pk, "w1") == "ended"
    run.refresh_from_db()
    assert (run.status, run.end_reason) == ("failed", "loop_failed")
    report = report_of(run)
    assert report["kind"] == "FailureReport"
    assert f"the execution loop 'odd' failed in {part}: ValueError: off by one" in report["diagnosis"]
    assert not AuditEvent.objects.filter(kind="run.worker_failed").exists()
    boss = get_user_model().objects.get()
    steering.retry_run(actor=boss, run=run)  # the package was repaired meanwhile, as far as anybody knows
    assert drive(run.pk, "w2") == "ended"


@pytest.mark.spec("A5", "B1")
def test_a_loop_that_is_gone_ends_its_run_with_a_report(packages: Any, project: Any, tmp_path: Path) -> None:
    packages(acme.install(tmp_path / "site"))
    run = submit(project, "planner_first")
    strategies._registered.pop("planner_first")
    assert drive(run.pk, "w1") == "ended"
    run.refresh_from_db()
    assert (run.status, run.end_reason) == ("failed", "could_not_begin")
    assert "no execution loop 'planner_first'" in report_of(run)["diagnosis"]


@pytest.mark.spec("A5")
def test_what_fails_before_the_first_fact_is_a_report_at_once(
    packages: Any, project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = submit(project)

    def broken(spec: Any) -> Any:
        raise KeyError("no prompt 'react'")

    monkeypatch.setattr("loops.runs.drive.system_prompt", broken)
    assert drive(run.pk, "w1") == "ended"
    run.refresh_from_db()
    assert (run.status, run.end_reason, report_of(run)["kind"]) == ("failed", "could_not_begin", "FailureReport")
    assert "no prompt 'react'" in report_of(run)["diagnosis"]


@pytest.mark.spec("B1", "X7")
def test_a_broken_package_is_loud_at_every_door(packages: Any, project: Any, tmp_path: Path) -> None:
    site = acme.write(tmp_path / "site", "loops", "half", "import not_there", entry="odd", odd=PROMPT)
    acme.write(site, "tools", "clash", "def found(registry): registry.add(registry.get('read_file').tool)")
    before = submit(project)
    assert drive(before.pk, "w1").startswith("gate")
    packages(site)
    reasons = ("acme-half 1.0", "No module named", "acme-clash 1.0", "is taken")
    page = Client()
    page.force_login(get_user_model().objects.get())
    shown = page.get(reverse("tools")).content.decode()
    assert all(reason in shown for reason in reasons), shown
    (found,) = [check for check in checks.standing() if check.name == "packages"]
    assert found.status == checks.ERROR
    assert all(reason in found.said for reason in reasons)
    with pytest.raises(CommandError):
        call_command("doctor")
    with pytest.raises(InvalidTask, match=r"acme-half 1\.0 cannot be used: ModuleNotFoundError") as refused:
        submit(project, "odd")
    assert set(refused.value.errors) == {"execution_loop"}
    with pytest.raises(InvalidTask, match=r"acme-half 1\.0 cannot be used") as refused:
        submit(project, agents_loop="odd")
    assert set(refused.value.errors) == {"agent"}
    Agent.objects.filter(pk=before.agent_id).update(execution_loop="odd")
    before.refresh_from_db()
    with pytest.raises(InvalidTask, match=r"acme-half 1\.0 cannot be used"):
        fork_run(actor=get_user_model().objects.get(), run=Run.objects.get(pk=before.pk))
    asked = {"project": str(project.pk), "agent": str(before.agent_id), "goal": "x"}
    answer = page.post("/api/v1/tasks/", json.dumps(asked), content_type="application/json")
    assert answer.status_code == 400, answer.content
    assert b"cannot be used" in answer.content
    drawn = page.post(reverse("new-task"), {**asked, "idempotency_key": "k"})
    assert "cannot be used" in drawn.content.decode()


def test_our_own_prompts_are_asked_for_by_our_own_loops_only() -> None:
    assert strategies.prompt("react") is None
    assert "react" in prompts.prompt_names()
