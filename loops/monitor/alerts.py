"""Tell what was noticed: to people at once, and to the run by mail, which a hung worker reads only later."""

from __future__ import annotations

import logging
import uuid
from typing import Any

from django.db import connection, transaction

from loops.models import AuditEvent, Detection, Run
from loops.monitor.queries import RunSeen
from loops.monitor.rules import SPEND, Alert
from loops.storage import audit_rows, inbox

log = logging.getLogger(__name__)
BY = "monitor"
EMBEDDINGS = "monitor.embeddings"
INSTEAD = ": loops are found by text similarity alone"


def tell(run: RunSeen, noticed: Alert) -> bool:
    """Once for each run, method and set of steps. Spending too fast also holds the run. Returns whether it was new."""
    found = noticed.finding
    steps = list(found.steps)
    said: dict[str, Any] = {"kind": noticed.kind, "method": found.method, "evidence": found.evidence, "steps": steps}
    with transaction.atomic():
        _, is_new = Detection.objects.get_or_create(
            run_id=run.id,
            method=found.method,
            steps=steps,
            defaults={
                "kind": noticed.kind,
                "evidence": found.evidence,
                "confidence": found.confidence,
                "seq": run.seq,
            },
        )
        if not is_new:
            return False
        _audit(run.id, said)
        inbox.put(run.id, "detected", {**said, "confidence": found.confidence, "by": BY})
        if noticed.kind == SPEND:
            inbox.put(run.id, "pause", {"by": BY, "reason": found.evidence})
    log.warning("run %s: %s: %s", run.id, found.method, found.evidence)
    return True


def tell_of_embeddings(*, works: bool, said: str) -> None:
    """Whether the embedding model can be asked, told when that changes."""
    with connection.cursor() as cursor:
        audit_rows.insert(cursor, EMBEDDINGS, detail={"works": works, "said": said})
    log.log(logging.INFO if works else logging.WARNING, "%s%s", said, "" if works else INSTEAD)


def embeddings() -> tuple[bool, str] | None:
    """What was told of them last: whether they work, and in words."""
    last = AuditEvent.objects.filter(kind=EMBEDDINGS).first()
    return (bool(last.detail.get("works")), str(last.detail.get("said"))) if last else None


def _audit(run_id: uuid.UUID, said: dict[str, Any]) -> None:
    project_id = Run.objects.values_list("project_id", flat=True).get(pk=run_id)
    with connection.cursor() as cursor:
        audit_rows.insert(cursor, "monitor.detected", project=project_id, run=run_id, detail=said)
