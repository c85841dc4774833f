"""People with fixed roles in one project, and a stranger with a project of his own."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connections
from django.utils import timezone

from loops.models import Agent, Project, Run, Workspace
from loops.services import models, people, tasks
from tests.factories import create_project


@dataclass
class World:
    project: Project
    agent: Agent
    workspace: Workspace
    root: Any
    operator: Any
    reviewer: Any
    viewer: Any
    admin: Any
    outsider: Any
    elsewhere: Project

    def submit(self, **fields: Any) -> tasks.Submission:
        given = {
            "actor": self.operator,
            "project": self.project,
            "agent": self.agent,
            "workspace": None,
            "goal": "Mend it",
        }
        return tasks.submit_task(**{"goal": "Mend it", **given, **fields})

    def run(self, status: str = Run.Status.THINKING, **fields: Any) -> Run:
        run = self.submit(**fields).run
        ended = timezone.now() if status in Run.ENDED else None
        Run.objects.filter(pk=run.pk).update(status=status, completed_at=ended)
        run.refresh_from_db()
        return run


def make() -> World:
    user = get_user_model().objects.create_user
    root = get_user_model().objects.create_superuser("root")
    project = create_project(actor=root, name="Invoices")
    elsewhere = create_project(actor=root, name="Elsewhere")
    roles = {name: user(name) for name in ("operator", "reviewer", "viewer", "admin")}
    for role, person in roles.items():
        people.add_member(actor=root, project=project, user=person, role=role)
    outsider = user("outsider")
    people.add_member(actor=root, project=elsewhere, user=outsider, role="operator")
    models.ensure_default_models({})
    agent = Agent.objects.create(project=project, name="Mender", actor_model=models.preferred())
    Agent.objects.create(project=elsewhere, name="Foreign", actor_model=models.preferred())
    workspace = Workspace.objects.create(project=project, name="Invoices")
    return World(project, agent, workspace, root, outsider=outsider, elsewhere=elsewhere, **roles)


def closing_connections(function: Any) -> Any:
    """For threads: give the database its connection back."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        finally:
            connections.close_all()

    return wrapped
