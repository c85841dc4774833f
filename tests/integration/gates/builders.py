"""People, a run and gates for tests. Gates are opened by the real gatekeeper."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection, transaction

from gates import terms
from gates.gatekeeper import SqlGatekeeper
from gates.models import Gate
from gates.services.disclosure import whole_proof
from loops.engine.ports import GateRequest
from loops.ids import new_id
from loops.models import Agent, Membership, ModelConfig, Policy, Project, Run, Task

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "File inside the workspace"},
        "content": {"type": "string"},
        "mode": {"type": "string", "enum": ["overwrite", "append"]},
        "lines": {"type": "integer"},
        "backup": {"type": "boolean"},
        "labels": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["path", "content"],
    "additionalProperties": False,
}
ARGUMENTS: dict[str, Any] = {"path": "notes/today.md", "content": "# Today\n", "mode": "overwrite", "backup": True}
SUBJECT: dict[str, Any] = {
    "version": 1,
    "run": "run",
    "call": "3/call",
    "tool": "write_file",
    "schema_hash": "aa",
    "arguments": ARGUMENTS,
    "cwd": "/workspace#7",
    "env_hash": "bb",
    "operands": {"notes/today.md": "cc"},
    "destination": "",
    "mcp": "",
    "policy_version": "v1",
    "view": "dd",
    "attempt": 1,
}


@dataclass
class World:
    project: Project
    author: Any
    reviewer: Any
    second: Any
    viewer: Any
    outsider: Any
    run: Run


def person(name: str, project: Project | None = None, role: str = "", **extra: Any) -> Any:
    user = get_user_model().objects.create_user(f"{name}-{uuid.uuid4().hex[:6]}", first_name=name.title(), **extra)
    if project and role:
        Membership.objects.create(project=project, user=user, role=role)
    return user


def make_world(**policy: Any) -> World:
    terms.forget()
    project = Project.objects.create(name="Harbour", slug=f"harbour-{uuid.uuid4().hex[:8]}")
    Policy.objects.create(project=project, **policy)
    author = person("author", project, "operator")
    return World(
        project=project,
        author=author,
        reviewer=person("ana", project, "reviewer"),
        second=person("bo", project, "reviewer"),
        viewer=person("vi", project, "viewer"),
        outsider=person("olaf"),
        run=make_run(project, author),
    )


def make_run(project: Project, author: Any, title: str = "Tidy the notes") -> Run:
    model, _ = ModelConfig.objects.get_or_create(name="scripted", defaults={"provider": "scripted", "model_id": "demo"})
    agent, _ = Agent.objects.get_or_create(project=project, name="Scribe", defaults={"actor_model": model})
    task = Task.objects.create(
        project=project, agent=agent, title=title, goal="Write them", created_by=author, content_sha256="0" * 64
    )
    return Run.objects.create(project=project, agent=agent, task=task, max_steps=20, status="waiting")


def tool_view(**more: Any) -> dict[str, Any]:
    view = {"tool": "write_file", "arguments": ARGUMENTS, "operation": "write", "reversibility": "REVERSIBLE"}
    return {**view, "parameters_schema": SCHEMA, "reasoning": "The notes need a heading.", **more}


def proof_of(client: Any, gate: Gate) -> str:
    """What the person logged in at ``client`` would find on the card of ``gate``."""
    return whole_proof(get_user_model().objects.get(pk=client.session["_auth_user_id"]), gate)


def open_gate(world: World, kind: str = "tool_approval", run: Run | None = None, **more: Any) -> Gate:
    gate_id = str(new_id())
    fields: dict[str, Any] = {
        "title": "Write notes/today.md",
        "step": 3,
        "call_id": f"call-{gate_id[-6:]}",
        "tool": "write_file",
        "reasons": ("rule general / write_file / write: ask",),
        "risk": "medium",
        "policy_version": "v1",
        "subject": SUBJECT,
        "view": tool_view(),
        **more,
    }
    run = run or world.run
    request = GateRequest(id=gate_id, run_id=str(run.pk), project_id=run.project_id, kind=kind, **fields)
    with transaction.atomic(), connection.cursor() as cursor:
        SqlGatekeeper().open(request)(cursor)
    return Gate.objects.get(pk=gate_id)
