"""Submitting tasks (SPEC J6, D2) and telling the engine, in one value, what a run is to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from loops.agents import packages
from loops.crash_points import CrashPoint, reach
from loops.engine import strategies
from loops.engine.limits.ceilings import held
from loops.engine.limits.complexity import estimate
from loops.engine.values import ModelRole
from loops.masking import WAY_OUT, known, signs_in
from loops.models import Agent, ComplexityProfile, Policy, Project, Run, Task, Workspace
from loops.querysets import OPERATE
from loops.services import access, audit, open_runs, policies, policy_floor, repository_files
from loops.services.idempotency import insert_or_read
from loops.services.models import offers, windows
from loops.services.submission import Content, InvalidTask, clean, clean_key
from loops.services.unpriced_models import models_of, require_prices
from loops.storage import dispatch
from loops.workspaces import copies

__all__ = ["IdempotencyConflict", "InvalidTask", "Submission", "run_spec", "submit_task"]


class IdempotencyConflict(Exception):
    """The key was used before, for another task."""

    def __init__(self, task: Task) -> None:
        super().__init__("This idempotency key was already used for a task with other content. Use a new key.")
        self.task = task


@dataclass(frozen=True, slots=True)
class Submission:
    """``created`` is false when an earlier submission is given back. ``note`` is what its people should know."""

    task: Task
    run: Run
    created: bool
    note: str = ""


def submit_task(  # noqa: PLR0913 - the fields of a task
    *,
    actor: Any,
    project: Project,
    agent: Agent,
    workspace: Workspace | None,
    goal: str,
    criteria: list[Any] | None = None,
    constraints_text: str = "",
    complexity: str = "",
    limits: dict[str, Any] | None = None,
    final_review: str = "",
    output_schema: dict[str, Any] | None = None,
    execution_loop: str = "",
    title: str = "",
    idempotency_key: str | None = None,
    dedupe_content: bool = False,
) -> Submission:
    """Make a task and its queued run, or give back the earlier one that the key (or the content) already has.

    Raises NotAllowed, InvalidTask or IdempotencyConflict.
    """
    access.require(actor, project, OPERATE, what="submit tasks")
    content = clean(
        known().value(
            {
                "title": title,
                "goal": goal,
                "criteria": criteria,
                "constraints_text": constraints_text,
                "complexity": complexity,
                "limits": limits,
                "final_review": final_review,
                "output_schema": output_schema,
                "execution_loop": execution_loop,
            }
        ),
        (*strategies.names(), *(each.name for each in strategies.broken())),
    )
    _must_be_what_was_typed(content.criteria)
    _must_belong(project, agent, workspace)
    _must_be_open(actor, project, workspace)
    _must_have_its_loop(content.execution_loop, agent)
    draft = Task(
        project=project,
        agent=agent,
        workspace=workspace,
        idempotency_key=clean_key(idempotency_key),
        content_sha256=content.sha256(agent.pk, str(workspace.pk) if workspace else ""),
        created_by=actor,
        **{name: getattr(content, name) for name in Content.__slots__},
    )
    earlier = _by_key(draft) or (_by_content(draft) if dedupe_content else None)
    if earlier is None:
        policy_floor.require(actor, project, content.limits, content.final_review)
        require_prices(content.limits, models_of(agent))
    try:
        return earlier or insert_or_read(lambda: _create(draft), lambda: _by_key(draft))
    except open_runs.TooManyOpen as error:
        raise open_runs.refusal(actor, project, error) from error


def run_spec(run: Run, inherited: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Everything the engine needs to begin: the fields of ``loops.engine.state.spec.RunSpec`` as plain values.

    ``inherited`` are the limits with which a fork wants to begin. The policy is asked once more here, whoever wrote the
    rows (ADR 0045).
    """
    task, agent = run.task, run.agent
    policy = Policy.objects.get(project_id=run.project_id)
    level, reason = _complexity(task)
    wanted = _limits(task, level) if inherited is None else inherited
    limits, final_review = policy_floor.hold(run, open_runs.owner_of(run), wanted, task.final_review)
    limits = {**limits, "warn_at": policy.warn_at, "calls_per_reply": policy.calls_per_reply}
    return {
        "run_id": str(run.pk),
        "task_id": task.pk,
        "project_id": run.project_id,
        "agent": {
            "id": agent.pk,
            "type": agent.agent_type,
            "name": agent.name,
            "instructions": agent.instructions,
            **({"program": agent.program} if agent.program else {}),
        },
        "goal": task.goal,
        "workspace": run.workspace_path,
        "loop": task.execution_loop or agent.execution_loop,
        "criteria": task.criteria,
        "constraints": task.constraints_text,
        "output_schema": task.output_schema,
        "limits": limits,
        "models": models_by_role(agent),
        "windows": windows(),
        "final_review": final_review,
        "policy_version": run.policy_version,
        "complexity": level,
        "complexity_reason": reason,
        "confidence": confidence_terms(agent, policy),
        "tries_criteria": policy.try_criteria,
    }


def confidence_terms(agent: Agent, policy: Policy) -> dict[str, Any]:
    """When confidence is judged, and by whom (SPEC G2). A script that has no answer for this role is not asked, and
    not judged by itself: what it does is known (ADR 0017)."""
    model = agent.confidence_model or agent.actor_model
    by_model = not model.is_scripted or offers(model, ModelRole.CONFIDENCE)
    every = policy.confidence_every_steps if by_model else 0
    return {"every_steps": every, "threshold": policy.confidence_threshold, "by_model": by_model}


def models_by_role(agent: Agent) -> dict[str, str]:
    """Role -> name of the configured model; a role without its own model uses the actor's, but nobody breaks ties
    without "classifier" (SPEC E1). "fallback", where the actor has one, takes over from an actor that goes in circles
    (SPEC F3)."""
    actor = agent.actor_model
    chosen = {
        ModelRole.ACTOR: actor,
        ModelRole.PLANNER: agent.planner_model or actor,
        ModelRole.CRITIC: agent.critic_model or actor,
        ModelRole.CONFIDENCE: agent.confidence_model or actor,
        ModelRole.SUMMARISER: agent.summariser_model or actor,
    }
    if agent.classifier_model is not None:
        chosen[ModelRole.CLASSIFIER] = agent.classifier_model
    if actor.fallback is not None:
        chosen[ModelRole.FALLBACK] = actor.fallback
    return {role.value: model.name for role, model in chosen.items()}


def _create(task: Task) -> Submission:
    note = repository_files.unused(task.workspace)  # before the transaction: a folder may be slow to answer
    with transaction.atomic():
        return _stored(task, note)


def _stored(task: Task, note: str) -> Submission:
    try:
        open_runs.take_place(task.created_by, task.project)
    except open_runs.TooManyOpen:
        if earlier := _by_key(task):  # the same submission, made while this one waited for its place
            return earlier
        raise
    task.save(force_insert=True)
    level, reason = _complexity(task)
    run = Run.objects.create(
        task=task,
        agent=task.agent,
        project=task.project,
        status=Run.Status.QUEUED,
        runnable=True,
        policy_version=policies.current_version(task.project, actor=task.created_by),
        max_steps=_limits(task, level)["max_steps"],
        scripted=task.agent.actor_model.is_scripted,
    )
    detail = {"task": task.pk, "title": task.title, "complexity": reason, "content_sha256": task.content_sha256}
    audit.record("task.submitted", actor=task.created_by, project=task.project, run=run, detail=detail)
    transaction.on_commit(lambda: reach(CrashPoint.SUBMITTED))
    if note:
        repository_files.record_unused(run, note)
    dispatch.ring(run.pk)
    return Submission(task, run, created=True, note=note)


def _must_belong(project: Project, agent: Agent, workspace: Workspace | None) -> None:
    faults = {}
    if agent.project_id != project.pk:
        faults["agent"] = f"is not an agent of {project.name}"
    elif not agent.is_active:
        faults["agent"] = f"{agent.name} is switched off"
    if workspace is not None and workspace.project_id != project.pk:
        faults["workspace"] = f"is not a workspace of {project.name}"
    if faults:
        raise InvalidTask(faults)


def _must_be_open(actor: Any, project: Project, workspace: Workspace | None) -> None:
    """Refused here with the reason, not by a worker, which would let the run wait."""
    if workspace is None or not (said := copies.why_refused(workspace)):
        return
    detail = {"path": workspace.path, "workspace": workspace.name, "why": said}
    audit.record(copies.REFUSED, actor=actor, project=project, detail=detail)
    raise InvalidTask({"workspace": said})


def _must_be_what_was_typed(criteria: list[dict[str, str]]) -> None:
    """A command is never changed to mask a secret in it: it is refused."""
    if held := signs_in([criterion["command"] for criterion in criteria]):
        names = ", ".join(held)
        said = f"A command holds the value of {names}, a secret of this installation (or its sign): leave it out."
        raise InvalidTask({"criteria": f"{said} {WAY_OUT}."})


def _must_have_its_loop(stated: str, agent: Agent) -> None:
    """What a package was to bring and did not is refused here, with the reason, not by a worker."""
    try:
        strategies.get(stated or agent.execution_loop)
        if agent.program:
            packages.get(agent.program)
    except strategies.UnknownLoop as error:
        raise InvalidTask({"execution_loop" if stated else "agent": str(error)}) from error
    except packages.UnknownAgent as error:
        raise InvalidTask({"agent": str(error)}) from error


def _by_key(draft: Task) -> Submission | None:
    if draft.idempotency_key is None:
        return None
    same_key = Task.objects.filter(
        project=draft.project, created_by=draft.created_by, idempotency_key=draft.idempotency_key
    )
    task = same_key.first()
    if task is None:
        return None
    if task.content_sha256 != draft.content_sha256:
        detail = {"task": task.pk, "key": task.idempotency_key}
        audit.record("task.idempotency_conflict", actor=draft.created_by, project=draft.project, detail=detail)
        raise IdempotencyConflict(task)
    return Submission(task, _first_run(task), created=False)


def _by_content(draft: Task) -> Submission | None:
    """A committed run of the same content: its result is the answer (SPEC J6). A fork may have been told more."""
    committed = Run.objects.filter(
        project=draft.project, task__content_sha256=draft.content_sha256, status=Run.Status.COMPLETED, fork=None
    )
    run = committed.select_related("task").order_by("-id").first()
    return Submission(run.task, run, created=False) if run else None


def _first_run(task: Task) -> Run:
    return task.runs.order_by("id")[0]


def _complexity(task: Task) -> tuple[str, str]:
    if task.complexity:
        return task.complexity, f"{task.complexity} (stated with the task)"
    guess = estimate(task.goal, [item["text"] for item in task.criteria], task.constraints_text)
    return guess.level, guess.explained


def _limits(task: Task, level: str) -> dict[str, int]:
    """The profile's limits as the policy lets them be, overridden by those stated with the task."""
    profile = policy_floor.amounts(ComplexityProfile.objects.get(name=level))
    profile["allow_unknown_cost"] = int(
        "max_cost_microusd" not in task.limits
    )  # asked only where a person set the limit
    return {**held(policy_floor.floor_of(task.project_id), profile), **task.limits}
