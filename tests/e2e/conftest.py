"""A site, a worker, the demonstration, and browsers of people who are logged in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.test import Client

from gates.models import Gate
from loops.llm.scripted.scripts import find_script
from loops.models import Agent, Project, Run, Workspace
from loops.services import demo, people, steering
from loops.services.tasks import submit_task
from tests.stack import PATIENCE_S, swept, wait_until


@dataclass
class House:
    """The project Demo, its admin, two reviewers, and what was submitted."""

    url: str
    boss: Any
    project: Project
    runs: list[Run] = field(default_factory=list)

    def person(self, name: str, role: str) -> Any:
        user = get_user_model().objects.create_user(name.lower(), first_name=name)
        people.add_member(actor=self.boss, project=self.project, user=user, role=role)
        return user

    def submit(self, script: str, **task: Any) -> Run:
        agent = Agent.objects.filter(project=self.project, actor_model__model_id=script).first()
        assert agent, script
        return self.submit_to(agent, goal=find_script(script).goal, **task)

    def submit_to(self, agent: Agent, goal: str = "Do it", workspace: Workspace | None = None, **task: Any) -> Run:
        made = submit_task(actor=self.boss, project=self.project, agent=agent, workspace=workspace, goal=goal, **task)
        self.runs.append(made.run)
        return made.run

    @property
    def invoices(self) -> Workspace:
        return Workspace.objects.get(project=self.project, name="Invoices")


@pytest.fixture
def house(live_site: str, live_worker: Any) -> Iterator[House]:
    """At the end every run is told to stop, so that the worker lets go of the database."""
    boss = get_user_model().objects.create_superuser("boss", first_name="Boss")
    made = House(live_site, boss, demo.seed())
    with swept():
        yield made
    for run in Run.objects.exclude(status__in=[*Run.ENDED]):
        try:
            steering.stop_run(actor=boss, run=run)
        except steering.NotPossible:
            continue
    wait_until(lambda: not Run.objects.exclude(owner="").exists(), "the worker to let go")


@pytest.fixture
def enter(browser: Any) -> Iterator[Callable[..., Any]]:
    """``enter(url, user)``: a window of its own in which ``user`` is logged in."""
    contexts = []

    def one(url: str, user: Any) -> Any:
        client = Client()
        client.force_login(user)
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        session = client.cookies["agentops_session"].value
        context.add_cookies([{"name": "agentops_session", "value": session, "url": url}])
        contexts.append(context)
        return context.new_page()

    yield one
    for context in contexts:
        context.close()


def gate_of(run: Run) -> Gate:
    """The open gate of a run, as soon as there is one."""
    wait_until(lambda: Gate.objects.filter(run=run, status="open").exists(), f"a gate of {run.pk}")
    return Gate.objects.get(run=run, status="open")


def ended(run: Run) -> Run:
    """The run after its end."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        run.refresh_from_db()
        if run.is_ended:
            return run
        assert time.monotonic() < deadline, f"{run.status} {run.waiting_on} after {run.head_seq} facts\n{worker_log()}"
        time.sleep(0.05)


def worker_log() -> str:
    log: Path = settings.PATHS.logs / "worker.log"
    return log.read_text(errors="replace")[-3000:]
