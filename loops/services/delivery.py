"""Apply a result to the folder that its run worked on a copy of: shown, then ordered, then written by a worker."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from loops.models import Delivery, Run
from loops.querysets import OPERATE
from loops.runs.composition import folder_refusal
from loops.services import access, audit
from loops.services.steering import NotPossible
from loops.storage.dispatch import hand_over
from loops.tools.file_assertions import Assertion
from loops.tools.output import printable
from loops.tools.sandbox.safe_paths import PathRefused
from loops.tools.workspace_roots import plain
from loops.workspaces import copies, delivery, patch, permissions

JOB = "loops.deliver"
CHANGED = "The folder or the run changed since this was shown. Look at it again before you apply it."
UNDER_WAY = "The result is being applied already."
NOTHING_LEFT = "Nothing is left to apply: the folder has all of it."
CONFLICTS = "Nothing was written, because the folder was changed since the run began: "
MOST_NAMED = 5
State = Delivery.State


@dataclass(frozen=True, slots=True)
class Preview:
    """``digest`` is what an order carries back, so that it is about exactly this."""

    folder: str
    plan: delivery.Plan
    left_out: tuple[str, ...]
    digest: str


def obstacle(run: Run) -> str:
    """Why the result of ``run`` cannot be applied by anybody; empty when it can. Pages ask this for their button."""
    place = copies.where(run)
    if not place.own:
        return "The run worked in the folder itself: its changes are there."
    if not place.source:
        return "The run began with an empty folder: there is none to apply its result to."
    if run.status != Run.Status.COMPLETED:
        return "Only a committed result is applied. What this run changed can be downloaded as a patch."
    return ""


def preview(actor: Any, run: Run) -> Preview:
    """What applying it would do now. Raises NotAllowed or NotPossible."""
    access.require(actor, run.project, OPERATE, what="apply results", run=run)
    if why := obstacle(run):
        raise NotPossible(why)
    folder = copies.where(run).source
    if why := _refusal(actor, run, folder):
        raise NotPossible(why)
    try:
        found = patch.portable(run)
        planned = delivery.plan(found, folder)
    except (patch.NoPatch, PathRefused, OSError) as refusal:
        raise NotPossible(printable(str(refusal))) from refusal
    return Preview(folder, planned, found.left_out, planned.digest)


def why_not(now: Preview, digest: str | None = None) -> str:
    """Why nothing of it can be written; "" when it can. ``digest`` is that of what a person saw."""
    if now.plan.conflicts:
        named = "; ".join(f"{path}: {why}" for path, why in now.plan.conflicts[:MOST_NAMED])
        more = len(now.plan.conflicts) - MOST_NAMED
        return f"{CONFLICTS}{named}{f'; and {more:,} more' if more > 0 else ''}"
    if not now.plan.steps:
        return NOTHING_LEFT
    return CHANGED if digest is not None and now.digest != digest else ""


def apply_result(*, actor: Any, run: Run, digest: str) -> Delivery:
    """Order what ``digest`` stands for. Raises NotAllowed or NotPossible and then changes nothing."""
    run.refresh_from_db(fields=["status"])
    try:
        now = preview(actor, run)
        if why := why_not(now, digest):
            raise NotPossible(why)
        return _ordered(actor, run, now)
    except NotPossible as refusal:
        audit.record("run.apply_refused", actor=actor, run=run, detail={"why": str(refusal)})
        raise


def carry_out(delivery_id: uuid.UUID) -> str:
    """By a worker, any number of times: what it comes to, or "" where another one is at it."""
    with transaction.atomic():
        row = _held(delivery_id)
        if row is not None and row.state == State.WAITING:
            _begin(row)
    if row is None or not row.is_open:
        return row.state if row is not None else ""
    with transaction.atomic():  # what will be written is written down by now
        row = _held(delivery_id)
        if row is not None:
            _write(row)
    return row.state if row is not None else ""


def latest(run: Run) -> Delivery | None:
    return Delivery.objects.filter(run=run).select_related("ordered_by").first()


def _refusal(actor: Any, run: Run, folder: str) -> str:
    """Whoever may change the folder through a run that works in place may apply a result to it; superusers may always,
    where the path is not forbidden to all."""
    workspace = run.task.workspace
    if workspace is None or plain(workspace.path) != folder:
        return CHANGED
    opened = bool(workspace.allowed_by_id) and workspace.allowed_in_place and workspace.allowed_path == folder
    if why := folder_refusal(run.project.slug, folder, in_place=True, allowed=opened or actor.is_superuser):
        return why
    return copies.missing(folder) or permissions.lacking(Path(folder), change=True)


def _ordered(actor: Any, run: Run, now: Preview) -> Delivery:
    try:
        with transaction.atomic():
            row = Delivery.objects.create(run=run, folder=now.folder, digest=now.digest, ordered_by=actor)
            detail = {"folder": now.folder, "digest": now.digest, "files": len(now.plan.steps)}
            audit.record("run.apply", actor=actor, run=run, detail=detail)
            hand_over(JOB, delivery=str(row.pk))
            return row
    except IntegrityError:
        raise NotPossible(UNDER_WAY) from None


def _held(delivery_id: uuid.UUID) -> Delivery | None:
    """The row, and its folder: one worker at a time writes results into it. None where another one has the row."""
    rows = Delivery.objects.select_for_update(skip_locked=True, of=("self",)).filter(state__in=Delivery.OPEN)
    row = rows.select_related("run__task__workspace", "run__project", "ordered_by").filter(pk=delivery_id).first()
    if row is not None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"delivery {row.folder}"])
    return row


def _begin(row: Delivery) -> None:
    """Write down what will be written before anything is."""
    try:
        actor = get_user_model()._default_manager.get(pk=row.ordered_by_id, is_active=True)
        now = preview(actor, row.run)
    except (NotPossible, access.NotAllowed) as refusal:
        why = str(refusal)
    except get_user_model().DoesNotExist:
        why = "Whoever ordered it has no account any more."
    else:
        why = why_not(now, row.digest)
    if why:
        _end(row, why)
    else:
        row.plan, row.state = now.plan.rows, State.WRITING
        row.save(update_fields=["plan", "state"])


def _write(row: Delivery) -> None:
    steps = [Assertion(*one) for one in row.plan or []]
    try:
        why = delivery.write(steps, row.folder, patch.portable(row.run).contents(), row.pk.hex)
    except (patch.NoPatch, PathRefused, OSError) as error:
        why = printable(str(error))
    row.files = 0 if why else len(steps)
    _end(row, why)


def _end(row: Delivery, why_not: str) -> None:
    row.state, row.why_not = (State.REFUSED, why_not) if why_not else (State.APPLIED, "")
    row.ended_at = timezone.now()
    row.save(update_fields=["state", "why_not", "files", "ended_at"])
    detail = {"folder": row.folder, "delivery": str(row.pk)} | ({"why": why_not} if why_not else {"files": row.files})
    audit.record("run.not_applied" if why_not else "run.applied", actor=row.ordered_by, run=row.run, detail=detail)
