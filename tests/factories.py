"""Rows for tests: small functions with sensible defaults, each making what it needs around it."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils.text import slugify

from gates.models import Gate
from loops.engine import facts as f
from loops.ids import new_id
from loops.models import Agent, Fact, Membership, ModelCall, ModelConfig, Project, Run, Step, Task, ToolCallRecord
from loops.services.policies import create_default_policy, current_version
from loops.storage.encoding import encode_fact

PASSWORD = "correct horse battery"
_numbers = itertools.count(1)


def waiting(kind: str, name: str = "", words: str = "") -> dict[str, str]:
    """Columns of a run that waits for this."""
    return {"waiting_kind": kind, "waiting_name": name, "waiting_on": words or name}


def project(name: str = "", **fields: Any) -> Project:
    number = next(_numbers)
    made = Project.objects.create(
        name=name or f"Project {number}", slug=fields.pop("slug", f"project-{number}"), **fields
    )
    create_default_policy(made)
    return made


def create_project(*, actor: Any, name: str, slug: str = "") -> Project:
    """As the form of the admin makes one; ``actor`` is its first admin."""
    made = project(name, slug=slug or slugify(name))
    Membership.objects.create(project=made, user=actor, role="admin")
    current_version(made, actor=actor, reason="Project created")
    return made


def user(name: str = "", **roles: Project) -> Any:
    """A person; ``operator=project`` and the like give them a role there."""
    made = get_user_model().objects.create_user(name or f"person{next(_numbers)}", password=PASSWORD)
    for role, where in roles.items():
        Membership.objects.create(project=where, user=made, role=role)
    return made


def superuser(name: str = "") -> Any:
    return get_user_model().objects.create_superuser(name or f"root{next(_numbers)}", password=PASSWORD)


def model(**fields: Any) -> ModelConfig:
    defaults = {"name": f"model-{next(_numbers)}", "provider": "anthropic", "model_id": "claude-test"}
    return ModelConfig.objects.create(**{**defaults, **fields})


def agent(where: Project, **fields: Any) -> Agent:
    fields.setdefault("actor_model", None)
    fields["actor_model"] = fields["actor_model"] or model()
    return Agent.objects.create(project=where, **{"name": f"Agent {next(_numbers)}", **fields})


def task(where: Project, **fields: Any) -> Task:
    number = next(_numbers)
    fields["agent"] = fields.get("agent") or agent(where)
    fields["created_by"] = fields.get("created_by") or user(operator=where)
    defaults = {"title": f"Task {number}", "goal": f"Do thing {number}", "content_sha256": f"{number:064d}"}
    return Task.objects.create(project=where, **{**defaults, **fields})


def run(where: Project | Task, **fields: Any) -> Run:
    of = where if isinstance(where, Task) else task(where, created_by=fields.pop("created_by", None))
    defaults = {"status": "thinking", "phase": "ACT", "max_steps": 20, "runnable": False}
    return Run.objects.create(task=of, agent=of.agent, project=of.project, **{**defaults, **fields})


def fact(of: Run, happened: f.Fact, *, step: int = 0, at: datetime | None = None) -> Fact:
    """Add one fact to the run's journal: a true link of its chain."""
    from loops.models import Blob

    prev = bytes(of.head_hash)
    encoded = encode_fact(happened, prev)
    for sha256, body in encoded.blobs.items():
        Blob.objects.get_or_create(sha256=sha256, defaults={"size": len(body), "body": body})
    seq = of.head_seq + 1
    made = Fact.objects.create(
        run=of,
        seq=seq,
        kind=encoded.kind,
        step=step,
        at=at or datetime.now(UTC),
        body=encoded.body,
        prev=prev,
        hash=encoded.hash,
        epoch=1,
    )
    of.head_seq, of.head_hash = seq, encoded.hash
    Run.objects.filter(pk=of.pk).update(head_seq=seq, head_hash=encoded.hash)
    return made


@transaction.atomic
def step(of: Run, number: int, **fields: Any) -> Step:
    """A step with its facts: asked, and completed unless ``success`` is None."""
    now = fields.pop("timestamp", datetime.now(UTC))
    asked = fact(of, f.ModelRequested(role="actor", model="m", request_sha256=""), step=number, at=now)
    success = fields.get("success", True)
    last = asked
    if success is not None:
        last = fact(of, f.StepCompleted(step=number, success=success), step=number, at=now)
    defaults = {"success": success, "reasoning": f"Thinking of {number}", "duration_ms": 1200, "tokens_used": 900}
    made = Step.objects.create(
        execution=of,
        step_number=number,
        timestamp=now,
        first_seq=asked.seq,
        last_seq=last.seq,
        **{**defaults, **fields},
    )
    Run.objects.filter(pk=of.pk).update(total_steps=number)
    return made


def model_call(of: Run, number: int, **fields: Any) -> ModelCall:
    defaults = {"phase": "ACT", "role": "actor", "model": "m", "provider": "anthropic", "model_id": "m"}
    sizes = {"stop_reason": "tool_use", "input_tokens": 800, "output_tokens": 100, "cost_microusd": 1200}
    seq = fields.pop("seq", of.head_seq + 10_000 + next(_numbers))
    return ModelCall.objects.create(run=of, seq=seq, step_number=number, **{**defaults, **sizes, **fields})


def tool_call(of: Run, number: int, **fields: Any) -> ToolCallRecord:
    defaults = {
        "call_id": f"c{number}.{next(_numbers)}",
        "tool": "read_file",
        "arguments": {"path": "a.py"},
        "state": "COMPLETE",
        "access": "allow",
        "ok": True,
        "output": "ok",
        "duration_ms": 30,
    }
    return ToolCallRecord.objects.create(run=of, step_number=number, **{**defaults, **fields})


def gate(of: Run, **fields: Any) -> Gate:
    now = datetime.now(UTC)
    subject = {"tool": "run_command", "arguments": {"command": "make deploy"}}
    defaults = {
        "id": new_id(),
        "kind": "tool_approval",
        "title": "Run: make deploy",
        "tool": "run_command",
        "reasons": ["the matrix asks before execute"],
        "risk": "medium",
        "subject": json.dumps(subject).encode(),
        "view": {**subject, "operation": "execute", "reversibility": "IRREVERSIBLE", "reasoning": "To ship it."},
        "digest": "0" * 64,
        "opened_at": now,
        "expires_at": now + timedelta(days=7),
        "due_at": now + timedelta(hours=1),
    }
    return Gate.objects.create(run=of, project=of.project, **{**defaults, **fields})
