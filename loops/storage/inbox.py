"""The way in: web, API and gates put a row here, the run's owner turns it into a fact (architecture#journal)."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import transaction

from loops.models import MailboxItem, Run
from loops.storage.dispatch import ring


def put(run_id: uuid.UUID | str, kind: str, payload: dict[str, Any] | None = None, *, actor: Any = None) -> MailboxItem:
    """Leave one item for the run and ring its bell, in the caller's transaction or one of its own.

    kinds: ``stop`` {}, ``pause`` {"by", "reason"},
    ``detected`` {"kind", "method", "evidence", "steps", "confidence", "by"}, ``resume`` {},
    ``rollback`` {}, ``message`` {"text"},
    ``decision`` {"gate", "kind", "verdict", "reason", "payload", "call_id", "by"}.
    """
    with transaction.atomic():
        item = MailboxItem.objects.create(run_id=run_id, kind=kind, payload=payload or {}, created_by=actor)
        Run.objects.filter(pk=run_id).update(runnable=True)
        ring(run_id)
    return item
