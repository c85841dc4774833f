"""Policies and their versions (SPEC S1): a run names the exact snapshot of everything that decided for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.forms.models import model_to_dict

from loops.engine.encoding import canonical
from loops.engine.text.truncation import shortened
from loops.models import AccessRule, Agent, ComplexityProfile, ModelConfig, Policy, PolicyVersion, Project
from loops.services import audit
from loops.tools.policy import DEFAULT_MATRIX

MOST_NAMED = 50
"""Changed fields of one version."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A cell of the tool access matrix as plain values."""

    agent_type: str
    tool: str
    operation: str
    access: str
    paths: tuple[str, ...] = ()
    note: str = ""


def create_default_policy(project: Project) -> Policy:
    """A policy and a matrix that let an agent work and ask before anything risky. Existing ones stay as they are."""
    policy, created = Policy.objects.get_or_create(project=project)
    if created and not project.access_rules.exists():
        AccessRule.objects.bulk_create(
            AccessRule(project=project, operation=operation, access=access, note=note)
            for operation, access, note in DEFAULT_MATRIX
        )
    return policy


def access_rules(project: Project | str) -> tuple[Rule, ...]:
    """The matrix of a project for the tool access service."""
    project_id = project if isinstance(project, str) else project.pk
    return tuple(
        Rule(row.agent_type, row.tool, row.operation, row.access, tuple(row.paths), row.note)
        for row in AccessRule.objects.filter(project_id=project_id)
    )


def current_version(project: Project, *, actor: Any = None, reason: str = "") -> str:
    """Name of the snapshot in force, like ``v3:ab12cd34ef56``. Makes a version when anything has changed."""
    latest = _latest(project)
    if latest is None or latest.sha256 != canonical.sha256(snapshot_of(project)):
        latest = add_version(project, actor, reason)
    return f"v{latest.number}:{latest.sha256[:12]}"


def snapshot_of(project: Project) -> dict[str, Any]:
    """Everything that decides for a run of ``project``, as JSON in a stable order."""
    known = ModelConfig.objects.order_by().in_bulk()
    for model in known.values():
        model.fallback = known.get(model.fallback_id)
    agents = {
        agent: {role: known[pk] for role in Agent.MODEL_ROLES if (pk := getattr(agent, f"{role}_model_id"))}
        for agent in Agent.objects.filter(project=project).order_by()
    }
    chosen = (each for models in agents.values() for model in models.values() for each in model.chain())
    rules = [_plain(row, skip=("project",)) for row in AccessRule.objects.filter(project=project).order_by()]
    return {
        "format": 1,
        "policy": _plain(Policy.objects.get(project=project), skip=("project",)),
        "profiles": {row.name: _plain(row) for row in ComplexityProfile.objects.order_by()},
        "matrix": sorted(rules, key=canonical.encode),
        "agents": {agent.name: _agent(agent, models) for agent, models in agents.items()},
        "models": {model.name: _model(model) for model in chosen},
    }


def changed_fields(before: Any, after: Any, path: str = "") -> Iterable[str]:
    """Dotted names of whatever differs between two snapshots."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from changed_fields(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    elif before != after:
        yield path


@transaction.atomic
def add_version(project: Project, actor: Any, reason: str) -> PolicyVersion:
    """Number versions one after another: the policy row is the lock, and what it guards is read under it."""
    Policy.objects.select_for_update().get(project=project)
    snapshot = snapshot_of(project)
    sha256 = canonical.sha256(snapshot)
    latest = _latest(project)
    if latest is not None and latest.sha256 == sha256:
        return latest
    changed = list(changed_fields(latest.snapshot, snapshot))[:MOST_NAMED] if latest else []
    version = PolicyVersion.objects.create(
        project=project,
        number=latest.number + 1 if latest else 1,
        sha256=sha256,
        snapshot=snapshot,
        reason=shortened(reason or ("First version" if latest is None else f"Changed: {', '.join(changed)}"), 300),
        created_by=actor if actor is not None and actor.is_authenticated else None,
    )
    detail = {"version": version.number, "sha256": sha256, "reason": version.reason, "changed": changed}
    audit.record("policy.changed", actor=actor, project=project, detail=detail)
    return version


def _latest(project: Project) -> PolicyVersion | None:
    return PolicyVersion.objects.filter(project=project).order_by("-number").first()


def _plain(row: Any, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    fields = model_to_dict(row, exclude=("id", *skip))
    return {
        name: value if isinstance(value, bool | int | float | list | dict) else str(value)
        for name, value in fields.items()
    }


def _agent(agent: Agent, models: Mapping[str, ModelConfig]) -> dict[str, Any]:
    return {
        "type": agent.agent_type,
        "loop": agent.execution_loop,
        **({"program": agent.program} if agent.program else {}),
        "instructions_sha256": canonical.sha256(agent.instructions),
        "models": {role: model.name for role, model in models.items()},
    }


def _model(model: ModelConfig) -> dict[str, Any]:
    return {
        "provider": model.provider,
        "model_id": model.model_id,
        "base_url": model.base_url,
        "max_tokens": model.max_tokens,
        "context_window": model.context_window,
        "thinking": model.thinking,
        "xml_tools": model.xml_tools,
    } | ({"fallback": model.fallback.name} if model.fallback else {})
