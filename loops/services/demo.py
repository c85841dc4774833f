"""The demonstration: a project that shows every state of a run without any language model."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import transaction

from loops.llm.scripted.scripts import find_script
from loops.models import AccessRule, Agent, Membership, ModelConfig, Project, Workspace
from loops.services import models, policies
from loops.services.first_set_up import ENGINEER, INSTRUCTIONS
from loops.services.steering import STEERING
from loops.services.tasks import Submission, submit_task

REPOSITORY = Path(__file__).resolve().parent.parent / "demo" / "repository"
NOT_COPIED = shutil.ignore_patterns(".*_cache", "__pycache__", ".git")
SLUG = "demo"
CAUTIOUS = "cautious"
"""The agent type that may not delete; the rules of all others ask first."""


@dataclass(frozen=True, slots=True)
class Example:
    """One agent of the demonstration and the task that shows what it is for."""

    script: str
    agent: str
    criteria: tuple[Mapping[str, str], ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    final_review: str = ""
    pace: float = 0.03
    instructions: str = ""
    then: str = ""
    """What an operator does to the run right after submitting it."""
    agent_type: str = "general"
    fallback: str = ""
    """Script of the model that is asked while the other one cannot be reached."""


EXAMPLES = (
    Example(
        "repair_a_bug",
        "Repairs a bug",
        criteria=({"text": "All tests pass", "command": "python3 -m unittest"},),
        instructions="The rules of the shop in README.md decide. Never change a test to make it pass.",
    ),
    Example("asks_a_question", "Asks a question"),
    Example(
        "needs_final_review",
        "Needs a final review",
        criteria=({"text": "The notes are fit for customers", "command": ""},),
        final_review="always",
    ),
    Example("writes_a_file", "Writes a file", final_review="never"),
    Example("gives_up_half_way", "Gives up half-way"),
    Example("never_stops", "Never stops", limits={"max_steps": 8}),
    Example("goes_in_circles", "Goes in circles"),
    Example("comes_back_to_it", "Comes back to it", limits={"max_steps": 40}, pace=0.15),
    Example("loses_confidence", "Loses confidence"),
    Example("not_allowed", "May not delete", agent_type=CAUTIOUS),
    Example("steps_back", "Gives up an approach", final_review="never"),
    Example("endpoint_down", "Has a model that is down"),
    Example("endpoint_outage", "Waits for its model", final_review="never", pace=0.2),
    Example("endpoint_outage", "Goes on with another model", final_review="never", pace=0.2, fallback="stand_in"),
    Example("slow_thinker", "Thinks slowly", pace=0.25),
    Example("slow_thinker", "Thinks slowly", then="pause"),
    Example("slow_thinker", "Thinks slowly", then="stop"),
)


@transaction.atomic
def seed() -> Project:
    """Project, models, agents, workspace and default policy. What exists stays as people have made it."""
    project, created = Project.objects.get_or_create(slug=SLUG, defaults={"name": "Demo", "is_demo": True})
    policies.create_default_policy(project)
    models.ensure_default_models()
    AccessRule.objects.get_or_create(
        project=project,
        agent_type=CAUTIOUS,
        operation="delete",
        defaults={"access": AccessRule.Access.DENY, "note": "What is deleted is gone."},
    )
    for example in EXAMPLES:
        model = models.ensure_script(example.script, pace=example.pace, fallback=example.fallback)
        _agent(project, example.agent, model, example.instructions, example.agent_type)
    preferred = models.preferred()
    if not preferred.is_scripted:
        _agent(project, ENGINEER, preferred, INSTRUCTIONS)
    Workspace.objects.get_or_create(project=project, name="Invoices", defaults={"path": str(_repository())})
    for root in get_user_model()._default_manager.filter(is_superuser=True):
        Membership.objects.get_or_create(project=project, user=root, role=Membership.Role.ADMIN)
    policies.current_version(project, reason="Demo made" if created else "Demo completed")
    return project


def submit_all(actor: Any) -> list[Submission]:
    """One task for each example, so that every page has something to show. Submitted once, however often asked for."""
    project = seed()
    return [_submit_and_steer(actor, project, example) for example in EXAMPLES]


@transaction.atomic
def _submit_and_steer(actor: Any, project: Project, example: Example) -> Submission:
    made = _submit(actor, project, example)
    if made.created and example.then:
        STEERING[example.then](actor=actor, run=made.run)
    return made


def _submit(actor: Any, project: Project, example: Example) -> Submission:
    return submit_task(
        actor=actor,
        project=project,
        agent=Agent.objects.get(project=project, name=example.agent),
        workspace=Workspace.objects.get(project=project, name="Invoices"),
        goal=find_script(example.script).goal,
        criteria=[dict(criterion) for criterion in example.criteria],
        limits=dict(example.limits),
        final_review=example.final_review,
        idempotency_key=f"demo-{example.script}-{example.then or example.fallback}".rstrip("-"),
    )


def _agent(project: Project, name: str, model: ModelConfig, instructions: str, agent_type: str = "general") -> Agent:
    defaults = {"actor_model": model, "instructions": instructions, "agent_type": agent_type}
    return Agent.objects.get_or_create(project=project, name=name, defaults=defaults)[0]


def _repository() -> Path:
    """A copy in the state folder: an installed package may lie where nobody may look."""
    copy: Path = settings.PATHS.state / "demo" / "invoices"
    if not copy.is_dir():
        draft = copy.with_name(".invoices.draft")
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(REPOSITORY, draft, ignore=NOT_COPIED)
        draft.rename(copy)
    return copy
