"""One round of the clock: seal what is new, compare with the last anchor, write the next one.

An anchor is written only over a history that goes on from the one before, so what was cut or rewritten cannot be
anchored by waiting. Whatever goes wrong with the file, rows are sealed, work goes on, and the next round tries again.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db import connection
from django.utils import timezone

from agentops.evidence import anchors, seals, tables
from agentops.evidence.anchors import Anchor, AnchorError
from loops.models import AuditEvent
from loops.services import audit

BEGUN, ANEW = "evidence.begun", "evidence.begun_anew"
UNANCHORED, BROKEN = "evidence.unanchored", "evidence.broken"
TOLD_AGAIN = timedelta(hours=1)
ANEW_HOW = 'see `manage.py verify_chain`, then begin anew with `manage.py anchor --anew "why"`'
log = logging.getLogger(__name__)


def keep() -> bool:
    """Seal and anchor; whether an anchor was written. Never raises for the file's sake. Raises sealing.Busy."""
    try:
        last, trouble = anchors.newest(), ""
    except AnchorError as error:
        last, trouble = None, str(error)
    broken = [] if last is None else breaks(last)  # before new seals stand where others were
    seals.seal(since(last))
    if trouble:
        return _tell(UNANCHORED, trouble)
    if last is None and was_begun():
        return _tell(UNANCHORED, f"{anchors.file()} is missing")
    if broken:
        return _tell(BROKEN, "; ".join(broken))
    try:
        anchors.append(Anchor(_now(), seals.heads()))
    except OSError as error:
        return _tell(UNANCHORED, f"{anchors.file()} cannot be written ({error.strerror})")
    if last is None:
        audit.record(BEGUN, actor=None, detail={"file": str(anchors.file())})
    return True


def begin_anew(reason: str) -> Anchor:
    """Judge history from here on only. What was before is in the audit log. Raises OSError, sealing.Busy."""
    try:
        last, before = anchors.newest(), ""
        before = "missing" if last is None else f"of {last.at:%Y-%m-%d %H:%M:%S} UTC"
        broken = [] if last is None else breaks(last)
    except AnchorError as error:
        before, broken = str(error), []
        anchors.set_aside()
    audit.record(ANEW, actor=None, detail={"why": reason, "anchor": before, "broken": broken})
    seals.seal({})
    made = Anchor(_now(), seals.heads(), began=True)
    anchors.append(made)
    return made


def since(last: Anchor | None) -> dict[str, datetime]:
    """Up to when each table was certainly sealed; tables that were never are missing.

    An anchor is written after all tables were sealed. Where none can be, each table's own last seal says it. A clock
    that was ahead does not hide what comes now.
    """
    now, newest = _now(), seals.newest()
    if last is None:
        return {table: min(at, now) for table, at in newest.items()}
    return {table: min(max(last.at, newest.get(table, last.at)), now) for table in tables.chains()}


def breaks(last: Anchor) -> list[str]:
    """What of an anchor is not in the database: table by table, empty when history goes on from it."""
    found, said = _found(last), []
    for table, (number, digest) in sorted(last.heads.items()):
        there, ends = found[table]
        if there is None and ends > number:
            said.append(f"{table}: entry {number} is gone")
        elif there is None:
            said.append(f"{table}: ends at entry {ends}, the anchor says {number}: {number - ends} are gone")
        elif there != digest:
            said.append(f"{table}: entry {number} is not the one that was anchored")
    return said


def fitting(history: list[Anchor]) -> Anchor | None:
    """The newest anchor that the database still goes on from: as of then it was, if a backup was restored."""
    return next((anchor for anchor in reversed(history) if not breaks(anchor)), None)


def was_begun() -> bool:
    """Whether an anchor was ever written here."""
    return AuditEvent.objects.filter(kind__in=(BEGUN, ANEW)).exists()


def trouble(after: datetime | None = None) -> str:
    """Why the last round wrote no anchor, as the audit log has it; empty when it does not."""
    told = AuditEvent.objects.filter(kind__in=(UNANCHORED, BROKEN)).order_by("-at")
    last = (told if after is None else told.filter(at__gt=after)).first()
    return str(last.detail["why"]) if last else ""


def _found(last: Anchor) -> dict[str, tuple[bytes | None, int]]:
    """Table -> (hash of the seal with the anchored number, number of the last seal)."""
    names = list(last.heads)
    with connection.cursor() as cursor:
        cursor.execute(_PINNED, [names, [last.heads[name][0] for name in names]])
        return {table: (None if there is None else bytes(there), ends) for table, there, ends in cursor.fetchall()}


def _tell(kind: str, why: str) -> bool:
    log.error("history is not anchored: %s; %s", why, ANEW_HOW)
    recent = AuditEvent.objects.filter(kind=kind, at__gte=timezone.now() - TOLD_AGAIN)
    if not recent.exists():
        audit.record(kind, actor=None, detail={"why": why})
    return False


def _now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        at: datetime = cursor.fetchone()[0]
        return at


_PINNED = """
    SELECT a.name, s.hash, coalesce((SELECT max(number) FROM loops_seal WHERE "table" = a.name), 0)
    FROM unnest(%s::text[], %s::bigint[]) AS a(name, number)
    LEFT JOIN loops_seal s ON s."table" = a.name AND s.number = a.number
"""
