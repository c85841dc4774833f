"""The way in: web, API and gates put a row here, the run's owner turns it into a fact (architecture#journal)."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from loops.models import MailboxItem, Run
from loops.storage.dispatch import ring


def put(
    run_id: uuid.UUID | str,
    kind: str,
    payload: dict[str, Any] | None = None,
    *,
    actor: Any = None,
    after: float = 0,
) -> MailboxItem:
    """Leave one item for the run and ring its bell, in the caller's transaction or one of its own. The run hears of it
    ``after`` seconds, by the database's clock.

    kinds: ``stop`` {}, ``pause`` {"by", "reason"},
    ``detected`` {"kind", "method", "evidence", "steps", "confidence", "by"}, ``resume`` {},
    ``rollback`` {}, ``message`` {"text"},
    ``decision`` {"gate", "kind", "verdict", "reason", "payload", "call_id", "by"}.
    """
    with transaction.atomic():
        not_before = Now() + timedelta(seconds=after) if after else None
        item = MailboxItem.objects.create(
            run_id=run_id, kind=kind, payload=payload or {}, created_by=actor, not_before=not_before
        )
        if not after:
            Run.objects.filter(pk=run_id).update(runnable=True)
        ring(run_id, after)
    return item
