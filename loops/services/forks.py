"""Fork a run: a new run that begins with the history of another, up to a step of it (SPEC K3).

Only the wish is stored here; the run's worker builds its beginning (``services.reusing``), so that forking a run of a
thousand steps answers as soon as forking one of ten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from loops.agents import packages
from loops.engine import strategies
from loops.engine.encoding import canonical
from loops.engine.facts.encoding import read_fact
from loops.engine.forks.prefix import point
from loops.masking import known
from loops.models import Fact, Fork, ModelConfig, Run
from loops.querysets import OPERATE
from loops.services import access, audit, open_runs, policies, policy_floor, steering
from loops.services.idempotency import insert_or_read
from loops.services.submission import InvalidTask, clean_key, clean_limits, unstorable
from loops.services.unpriced_models import CONFIRMED, MONEY, models_of, require_prices
from loops.storage import dispatch, reader
from loops.workspaces import copies

MAX_MESSAGE = 20_000
MAX_INSTRUCTIONS = 50_000
MOVES = ("PhaseEntered", "RunResumed")


class ForkConflict(Exception):
    """The key was used before, for another fork of this run."""


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """``created`` is false when an earlier fork is given back."""

    run: Run
    created: bool


@dataclass(frozen=True, slots=True)
class Point:
    """The last fact that a fork takes over."""

    seq: int
    step: int
    head: bytes


def fork_run(  # noqa: PLR0913 - what a person may change
    *,
    actor: Any,
    run: Run,
    step: int | None = None,
    seq: int | None = None,
    message: str = "",
    instructions: str | None = None,
    model: str = "",
    limits: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> ForkRequest:
    """Fork ``run`` after ``step`` (0: before the first; None: where it stands), or after fact ``seq``.

    What is not given stays as it was at that point. Raises NotAllowed, InvalidTask or ForkConflict.
    """
    access.require(actor, run.project, OPERATE, what="fork runs", run=run)
    message, instructions = known().value((message, instructions))
    found, faults = point_of(run, step, seq), _faults(message, instructions, model)
    if not run.agent.is_active:
        faults["agent"] = f"{run.agent.name} is switched off"
    if said := copies.why_run_refused(run):
        audit.record(copies.REFUSED, actor=actor, run=run, detail={"path": run.workspace_path, "why": said})
        faults["workspace"] = said
    try:
        strategies.get(run.task.execution_loop or run.agent.execution_loop)
        if run.agent.program:
            packages.get(run.agent.program)
    except (strategies.UnknownLoop, packages.UnknownAgent) as error:
        faults["agent"] = str(error)
    try:
        changed_limits = clean_limits(limits)
    except InvalidTask as error:
        faults |= error.errors
    if faults:
        raise InvalidTask(faults)
    changed_limits = _priced(run, model, changed_limits)
    draft = Fork(
        parent=run,
        seq=found.seq,
        step=found.step,
        head=found.head,
        message=message.strip(),
        instructions=instructions,
        model=model,
        limits=changed_limits,
        idempotency_key=clean_key(idempotency_key),
        created_by=actor,
    )
    asked = {"step": step, "seq": seq, "message": draft.message, "instructions": instructions}
    draft.content_sha256 = canonical.sha256({**asked, "model": model, "limits": changed_limits})
    return _earlier(draft) or _made(draft)


def _made(draft: Fork) -> ForkRequest:
    """What the policy has to say comes after the key: what was made once is given back whatever it says by now."""
    actor, parent = draft.created_by, draft.parent
    policy_floor.require(actor, parent.project, draft.limits, run=parent)
    try:
        return insert_or_read(lambda: _create(draft), lambda: _earlier(draft))
    except open_runs.TooManyOpen as error:
        raise open_runs.refusal(actor, parent.project, error, parent) from error


def point_of(run: Run, step: int | None = None, seq: int | None = None) -> Point:
    """Where a fork begins: the last fact up to ``step`` (or ``seq``) after which the agent acts. Raises InvalidTask."""
    if reader.is_pruned(run.pk):
        raise InvalidTask({"step": "the long texts of this run were pruned, so there is nothing to take over"})
    facts = Fact.objects.filter(run=run).order_by("seq")
    wanted = facts.filter(seq__lte=seq) if seq is not None else facts
    wanted = wanted.filter(step__lte=step) if step is not None else wanted
    if (seq is not None and not 1 <= seq <= run.head_seq) or (step is not None and not 0 <= step <= run.total_steps):
        field, first, most = ("seq", 1, run.head_seq) if seq is not None else ("step", 0, run.total_steps)
        raise InvalidTask({field: f"the run has no such point: choose {first} to {most:,}"})
    last = wanted.order_by("-seq").values_list("seq", flat=True).first()
    if last is None:
        raise InvalidTask({"step": "the run has not begun, so there is nothing to take over"})
    moves = facts.filter(kind__in=MOVES, seq__lte=last).values_list("seq", "body")
    cut = point(((at, read_fact(canonical.decode(bytes(body)))) for at, body in moves), last)
    found_seq, found_step, head = facts.filter(seq=cut).values_list("seq", "step", "hash").get()
    return Point(found_seq, found_step, bytes(head))


def _faults(message: str, instructions: str | None, model: str) -> dict[str, str]:
    faults = {}
    for name, text, most in (
        ("message", message, MAX_MESSAGE),
        ("instructions", instructions or "", MAX_INSTRUCTIONS),
    ):
        if len(text) > most:
            faults[name] = f"has {len(text):,} characters; at most {most:,} are possible"
        elif fault := unstorable(text):
            faults[name] = fault
    if steering.is_command(message):
        faults["message"] = "is a command: write a text for the agent; commands are for a run that is under way"
    if model and not ModelConfig.objects.filter(name=model.replace("\0", "")).exists():
        faults["model"] = "there is no model of that name"
    return faults


def _priced(run: Run, model: str, changed: dict[str, int]) -> dict[str, int]:
    """``changed``, with whether its money limit may be left open; what the other run was allowed holds for its model
    and its limit only. Raises InvalidTask."""
    set_by_people = {MONEY: 0} if MONEY in run.task.limits and model else {}
    wanted = {**set_by_people, **changed}
    if MONEY not in wanted:
        return changed
    chosen = ModelConfig.objects.filter(name=model)
    require_prices(wanted, [*chosen, *models_of(run.agent)[bool(model) :]])
    return {CONFIRMED: 0, **changed}


def _earlier(draft: Fork) -> ForkRequest | None:
    if draft.idempotency_key is None:
        return None
    same = Fork.objects.filter(
        parent=draft.parent, created_by=draft.created_by, idempotency_key=draft.idempotency_key
    ).select_related("run")
    found = same.first()
    if found is None:
        return None
    if found.content_sha256 != draft.content_sha256:
        raise ForkConflict("This idempotency key was already used for another fork of this run. Use a new key.")
    return ForkRequest(found.run, created=False)


@transaction.atomic
def _create(draft: Fork) -> ForkRequest:
    parent, actor = draft.parent, draft.created_by
    try:
        open_runs.take_place(actor, parent.project)
    except open_runs.TooManyOpen:
        if earlier := _earlier(draft):  # the same fork, made while this one waited for its place
            return earlier
        raise
    model = ModelConfig.objects.filter(name=draft.model).first() if draft.model else None
    run = Run.objects.create(
        task_id=parent.task_id,
        agent_id=parent.agent_id,
        project=parent.project,
        status=Run.Status.QUEUED,
        runnable=True,
        policy_version=policies.current_version(parent.project, actor=actor),
        max_steps=draft.limits.get("max_steps", parent.max_steps),
        scripted=model.is_scripted if model else parent.scripted,
    )
    draft.run = run
    draft.save(force_insert=True)
    detail = {"parent": str(parent.pk), "step": draft.step, "seq": draft.seq, "limits": draft.limits}
    audit.record("run.forked", actor=actor, project=parent.project, run=run, detail=detail)
    dispatch.ring(run.pk)
    return ForkRequest(run, created=True)


__all__ = ["ForkConflict", "ForkRequest", "InvalidTask", "Point", "fork_run", "point_of"]
