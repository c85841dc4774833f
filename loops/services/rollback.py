"""Undo what an ended run did, because a person asks for it: first shown, then ordered (SPEC O3)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from loops.driver.rollback import view_of
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.encoding.canonical import sha256
from loops.engine.rollback import plan as rb
from loops.models import MailboxItem, Run
from loops.querysets import OPERATE
from loops.runs.composition import tools_of
from loops.services import access, audit
from loops.services.steering import NotPossible
from loops.storage import facts_by_kind, inbox, journal, reader

Status = Run.Status
UNDOABLE = (Status.FAILED, Status.INTERRUPTED, Status.ESCALATED)
CHANGED = "The workspace or the run changed since this was shown. Look at it again, then roll back."


@dataclass(frozen=True, slots=True)
class Preview:
    """``view`` is that of ``view_of``; an order carries ``digest`` back, so that it is about exactly this."""

    view: Mapping[str, Any]
    digest: str

    @property
    def is_empty(self) -> bool:
        return not self.view["files"] and not self.view["others"]


def why_impossible(run: Run) -> str:
    """Why a rollback of ``run`` makes no sense; empty when it does. Pages ask this for their button."""
    if run.status == Status.COMPLETED:
        return "This run completed: its changes are its result, and cannot be rolled back."
    if run.status not in UNDOABLE:
        return f"This run has not ended ({Status(run.status).label.lower()}). Stop it first."
    if not (run.state_snapshot or {}).get("effects"):
        return "This run has done nothing that could be undone."
    return ""


def preview(run: Run) -> Preview:
    """What a rollback would do now. Raises NotPossible."""
    if why := why_impossible(run):
        raise NotPossible(why)
    if reader.is_pruned(run.pk):
        raise NotPossible("What this run changed was pruned with its long texts: it can no longer be rolled back.")
    connection = journal.raw_connection()
    history = [*facts_by_kind.read(connection, run.pk, rb.LEDGER), f.RollbackRequested()]
    context = p.CallContext(
        run_id=str(run.pk),
        step=0,
        agent_type=run.agent.agent_type,
        project_id=run.project_id,
        workspace=run.workspace_path,
        undoes="*",
    )
    view = asyncio.run(view_of(tools_of(run, connection), context, rb.ledger(history)))
    return Preview(view, sha256({"run": str(run.pk), "view": view}))


def roll_back_run(*, actor: Any, run: Run, digest: str) -> MailboxItem:
    """Order the rollback that ``digest`` stands for. Raises NotAllowed or NotPossible and then changes nothing."""
    access.require(actor, run.project, OPERATE, what="roll runs back", run=run)
    run.refresh_from_db(fields=["status", "state_snapshot"])
    try:
        now = preview(run)
        if now.is_empty:
            raise NotPossible("Nothing is left to undo.")
        if now.digest != digest:
            raise NotPossible(CHANGED)
    except NotPossible as refusal:
        audit.record("run.rollback_refused", actor=actor, run=run, detail={"status": run.status, "why": str(refusal)})
        raise
    with transaction.atomic():
        item = inbox.put(run.pk, MailboxItem.Kind.ROLLBACK, actor=actor)
        audit.record("run.rollback", actor=actor, run=run, detail={"mailbox": str(item.pk), "digest": digest})
    return item
