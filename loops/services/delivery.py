"""Write a result into the folder that its run worked on a copy of, commit it there, or push it to the server that it
came from: shown, ordered, then done."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from loops.models import Delivery, Fork, Run
from loops.printable.text import printable
from loops.querysets import OPERATE
from loops.runs.composition import why_folder_refused
from loops.services import access, audit
from loops.services.steering import NotPossible
from loops.storage.dispatch import hand_over
from loops.tools.file_assertions import Assertion
from loops.tools.sandbox.safe_paths import PathRefused
from loops.tools.workspace import Workspace
from loops.tools.workspace_roots import plain
from loops.workspaces import changed_files, commits, copies, delivery, patch, permissions, push, sources
from loops.workspaces.git.repository import Unusable

log = logging.getLogger(__name__)
JOB = "loops.deliver"
CHANGED = "The folder or the run changed since this was shown. Look at it again, then apply it."
MOVED = "The workspace has another folder since the run began. Its patch can be downloaded."
INHERITED = "This fork took over changes that its review did not show. Its patch has them: look at it and apply that."
UNDER_WAY = "The result is being applied already."
BEING_COMMITTED = "The result is being committed already."
BEING_PUSHED = "The result is being pushed already."
NOTHING_LEFT = "Nothing is left to apply: the folder has all of it."
COMMITTED = "Nothing is left to commit: the branch {branch}, or the last commit, has all of it."
NOTHING_TO_PUSH = "Nothing is left to push: the commit that the run began with has all of it."
LEFT_OUT = "What this run changed cannot be applied to a folder: take it from the run's own."
CONFLICTS = "Nothing was written, because the folder was changed since the run began: "
OTHERWISE = "Nothing was committed, because the last commit differs from what the run began with: "
MOST_NAMED = 5
MOST_TRIES = 20
State, Kind = Delivery.State, Delivery.Kind
Plan = delivery.Plan | commits.Plan


@dataclass(frozen=True, slots=True)
class Preview:
    """``plan.digest`` is what an order carries back, so that it is about exactly this."""

    kind: Delivery.Kind
    plan: Plan
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OrderNames:
    """What one kind of order is called: for people, and in the audit log."""

    what: str
    asked: str
    refused: str
    done: str
    not_done: str


NAMES = {
    Kind.FOLDER: OrderNames("apply results", "run.apply", "run.apply_refused", "run.applied", "run.not_applied"),
    Kind.BRANCH: OrderNames("commit results", "run.commit", "run.commit_refused", "run.committed", "run.not_committed"),
    Kind.PUSH: OrderNames("push results", "run.push", "run.push_refused", "run.pushed", "run.not_pushed"),
}
_UNDER_WAY = {Kind.FOLDER: UNDER_WAY, Kind.BRANCH: BEING_COMMITTED, Kind.PUSH: BEING_PUSHED}


def why_impossible(run: Run, kind: Delivery.Kind = Kind.FOLDER) -> str:
    """Why nobody can have the result of ``run`` taken over so; empty when it can be. Pages ask this for their
    buttons."""
    place = copies.where(run)
    if not place.own:
        return "The run worked in the folder itself: its changes are there."
    if kind == Kind.PUSH and (why := push.why_not(run)):
        return why
    if place.is_of_a_server and kind != Kind.PUSH:
        return sources.TAKE_THE_PATCH
    if not place.source:
        return "The run began with an empty folder: there is none to apply its result to."
    if run.status != Run.Status.COMPLETED:
        return "Only the result of a completed run can be applied. Download what this run changed as a patch."
    return ""


def preview(actor: Any, run: Run, kind: Delivery.Kind = Kind.FOLDER) -> Preview:
    """What it would do now. Raises NotAllowed or NotPossible."""
    access.require(actor, run.project, OPERATE, what=NAMES[kind].what, run=run)
    folder = copies.where(run).source
    if why := why_impossible(run, kind) or ("" if kind == Kind.PUSH else _why_not_into(actor, run, folder)):
        raise NotPossible(why)
    try:
        found = patch.portable(run)
        if Fork.objects.filter(run=run).exists() and _took_over(run, found):
            raise NotPossible(INHERITED)
        if kind == Kind.FOLDER:
            return Preview(kind, delivery.plan(found, folder), found.left_out)
        if kind == Kind.PUSH:
            plan = push.plan(found, run)
            return Preview(kind, plan, plan.left_out)
        plan = commits.plan(found, folder, run)
        for place in commits.WRITTEN_TO:
            if why := permissions.why_no_access(Path(folder, place), change=True):
                raise NotPossible(why)
        return Preview(kind, plan, plan.left_out)
    except (patch.NoPatch, Unusable, PathRefused, OSError) as refusal:
        raise NotPossible(printable(str(refusal))) from refusal


def why_not(now: Preview, digest: str | None = None) -> str:
    """Why nothing of it can be written; "" when it can. ``digest`` is that of what a person saw."""
    plan, conflicts = now.plan, now.plan.conflicts
    if conflicts:
        named = "; ".join(f"{path}: {why}" for path, why in conflicts[:MOST_NAMED])
        more = len(conflicts) - MOST_NAMED
        said = CONFLICTS if now.kind == Kind.FOLDER else OTHERWISE
        return f"{said}{named}{f'; and {more:,} more' if more > 0 else ''}"
    if not plan.steps:
        if isinstance(plan, commits.Plan) and plan.files:
            return COMMITTED.format(branch=plan.branch)
        if now.left_out:
            return LEFT_OUT
        if now.kind == Kind.PUSH:
            return NOTHING_TO_PUSH
        return COMMITTED.format(branch=plan.branch) if isinstance(plan, commits.Plan) else NOTHING_LEFT
    return CHANGED if digest is not None and plan.digest != digest else ""


def apply_result(*, actor: Any, run: Run, digest: str, kind: Delivery.Kind = Kind.FOLDER) -> Delivery:
    """Order what ``digest`` stands for. Raises NotAllowed or NotPossible and then changes nothing."""
    run.refresh_from_db(fields=["status"])
    try:
        now = preview(actor, run, kind)
        if why := why_not(now, digest):
            raise NotPossible(why)
        return _ordered(actor, run, now)
    except NotPossible as refusal:
        audit.record(NAMES[kind].refused, actor=actor, run=run, detail={"why": str(refusal)})
        raise


def cancel(*, actor: Any, run: Run) -> bool:
    """Take back what no worker began; False where there is no such order. Raises NotAllowed."""
    access.require(actor, run.project, OPERATE, what="apply results", run=run)
    row = Delivery.objects.filter(run=run, state=State.WAITING).first()
    return row is not None and _end(row, f"Taken back by {actor}.", actor=actor)


def carry_out(delivery_id: uuid.UUID) -> str:
    """By a worker, any number of times: the state that it comes to, or "" where there is nothing to do for this one."""
    rows = Delivery.objects.filter(pk=delivery_id, state__in=Delivery.OPEN)
    if not rows.update(tries=F("tries") + 1):
        return ""
    row = rows.get()
    held = push.scratch(row) if row.kind == Kind.PUSH else delivery.held(row.folder, row.pk.hex)
    try:
        with held as workspace:
            found = rows.select_related("run__task__workspace", "run__project", "ordered_by").first()
            return _advance(found, workspace) if found is not None else ""
    except delivery.Busy:
        return ""
    except DatabaseError:
        raise  # the next one goes on from what is there
    except Exception as error:
        log.exception("delivery %s", row.pk)
        return _leave(
            row, f"{type(error).__name__}: {printable(str(error))}. It could not be done now: order it again."
        )


def latest(run: Run) -> list[Delivery]:
    """Of each kind the latest order, the newer one first."""
    rows = Delivery.objects.filter(run=run).select_related("ordered_by")
    found = {row.kind: row for row in rows.order_by("kind", "-id").distinct("kind")}
    return sorted(found.values(), key=lambda row: row.pk, reverse=True)


def under_way(orders: Sequence[Delivery]) -> str:
    """Why there can be no other order now; "" where there can."""
    being_done = next((row for row in orders if row.is_open), None)
    return "" if being_done is None else _UNDER_WAY[Kind(being_done.kind)]


def done(run: Run) -> set[str]:
    """The kinds of orders by which its result was taken over at any time."""
    return set(Delivery.objects.filter(run=run, state=State.APPLIED).values_list("kind", flat=True))


def can_be_written(run: Run) -> bool:
    """Into the folder that it came from, or on a branch there?"""
    return not why_impossible(run)


def can_be_pushed(run: Run) -> bool:
    """To the server that it came from?"""
    return not why_impossible(run, Kind.PUSH)


def undelivered(run: Run) -> int:
    """How many files of a committed result only its own copy has: nobody applied it, committed or pushed it on a
    branch."""
    if run.status != Run.Status.COMPLETED or not (can_be_written(run) or can_be_pushed(run)) or done(run):
        return 0
    return len(changed_files.described(changed_files.recorded(run).net))


def _why_not_into(actor: Any, run: Run, folder: str) -> str:
    """Whoever may change the folder through a run that works in place may apply a result to it; superusers may always,
    where the path is not forbidden to all."""
    workspace = run.task.workspace
    if workspace is None or plain(workspace.path) != folder:
        return MOVED
    opened = bool(workspace.allowed_by_id) and workspace.allowed_in_place and workspace.allowed_path == folder
    if why := why_folder_refused(run.project.slug, folder, in_place=True, allowed=opened or actor.is_superuser):
        return why
    return copies.why_missing(folder) or permissions.why_no_access(Path(folder), change=True)


def _took_over(run: Run, found: patch.Portable) -> bool:
    """Does the result hold what the run did not do itself?"""
    own = {(one.path, one.before, one.after) for one in changed_files.recorded(run).net}
    return any((one.path, one.before, one.after) not in own for one in found.changes)


def _ordered(actor: Any, run: Run, now: Preview) -> Delivery:
    plan = now.plan
    try:
        with transaction.atomic():
            made = {"run": run, "kind": now.kind, "folder": plan.folder, "digest": plan.digest}
            row = Delivery.objects.create(**made, ordered_by=actor)
            detail = {"folder": plan.folder, "digest": plan.digest, "files": len(plan.files)}
            audit.record(NAMES[now.kind].asked, actor=actor, run=run, detail=detail)
            hand_over(JOB, delivery=str(row.pk))
            return row
    except IntegrityError:
        raise NotPossible(under_way(latest(run)) or UNDER_WAY) from None


def _advance(row: Delivery, workspace: Workspace) -> str:
    """No transaction is open while files are written: the database ends one that rests."""
    anew = row.state == State.WAITING
    if anew and not _begin(row):
        return Delivery.objects.values_list("state", flat=True).get(pk=row.pk)
    if row.kind != Kind.FOLDER:
        why = _commit(row, workspace)
    else:
        written = _write(row, workspace, anew=anew)
        why = written.why_not
        if written.left:
            Delivery.objects.filter(pk=row.pk).update(going_back=True, why_not=why)
            return row.state
    _end(row, why)
    return State.REFUSED if why else State.APPLIED


def _write(row: Delivery, workspace: Workspace, *, anew: bool) -> delivery.Written:
    steps = [Assertion(*one) for one in row.plan or []]
    try:
        contents = patch.portable(row.run).contents()
    except patch.NoPatch:
        contents = {}  # then what is missing says so, path by path
    if not row.going_back:
        return delivery.write(steps, workspace, contents, anew=anew)
    back = delivery.put_back(steps, workspace, contents)
    return delivery.Written(row.why_not + back.why_not, back.left)


def _commit(row: Delivery, workspace: Workspace) -> str:
    """What was written of it when a worker died stands for nothing until the branch is there; what was pushed is found
    there again."""
    try:
        name, why = commits.write(row, patch.portable(row.run), workspace)
    except patch.NoPatch as refusal:
        return str(refusal)
    if not why and row.kind == Kind.PUSH:
        row.plan = {**(row.plan or {}), "tried": name}
        Delivery.objects.filter(pk=row.pk).update(plan=row.plan)
        name, why = push.send(row, name)
    if not why:
        row.plan = {**(row.plan or {}), "commit": name}
        Delivery.objects.filter(pk=row.pk).update(plan=row.plan)
    return why


def _begin(row: Delivery) -> bool:
    """Write down what will be written before anything is; False where nothing is to be."""
    others = Delivery.objects.filter(folder=row.folder, state=State.WRITING).exclude(pk=row.pk)
    if row.kind != Kind.PUSH and others.exists():
        return False  # a half written folder is no ground for a plan
    if why := _changed_since(row):
        _end(row, why)
        return False
    begun = {"state": State.WRITING, "plan": row.plan, "why_not": ""}
    row.state, row.why_not = State.WRITING, ""
    return bool(Delivery.objects.filter(pk=row.pk, state=State.WAITING).update(**begun))


def _changed_since(row: Delivery) -> str:
    """Why the order does not stand any more; else its plan is set."""
    if not get_user_model()._default_manager.filter(pk=row.ordered_by_id, is_active=True).exists():
        return "The person who requested it no longer has an account."
    try:
        now = preview(row.ordered_by, row.run, Kind(row.kind))
    except (NotPossible, access.NotAllowed) as refusal:
        return str(refusal)
    row.plan = now.plan.rows
    return CHANGED if now.plan.folder != row.folder else why_not(now, row.digest)


def _leave(row: Delivery, why: str) -> str:
    """To another worker, or to this one later. What was not begun is given up after a while, and what is pushed too:
    ordered again, it is found where it got there."""
    if (row.state == State.WAITING or row.kind == Kind.PUSH) and row.tries >= MOST_TRIES:
        _end(row, why)
    else:
        Delivery.objects.filter(pk=row.pk, state__in=Delivery.OPEN, going_back=False).update(why_not=why)
    return Delivery.objects.values_list("state", flat=True).get(pk=row.pk)


def _end(row: Delivery, why: str, actor: Any = None) -> bool:
    state = State.REFUSED if why else State.APPLIED
    plan = row.plan or []
    files = 0 if why else plan["files"] if isinstance(plan, dict) else len(plan)
    ended = {"state": state, "why_not": why, "files": files, "ended_at": timezone.now()}
    with transaction.atomic():
        if not Delivery.objects.filter(pk=row.pk, state=row.state).update(**ended):
            return False
        detail = {"folder": row.folder, "delivery": str(row.pk)} | ({"why": why} if why else {"files": files})
        if row.commit:
            detail |= {"branch": row.branch, "commit": row.commit}
        names = NAMES[Kind(row.kind)]
        audit.record(names.not_done if why else names.done, actor=actor or row.ordered_by, run=row.run, detail=detail)
    return True
