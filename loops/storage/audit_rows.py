"""The one shape of an audit row: what it may hold, and how it is written where there is no ORM (SPEC N2)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from loops.engine.encoding.canonical import clean_json
from loops.ids import new_id
from loops.masking import known

LONGEST = 500
_INSERT = (
    "INSERT INTO loops_auditevent (id, at, kind, project_id, run_id, detail) "
    "VALUES (%s, clock_timestamp(), %s, %s, %s, %s::jsonb)"
)


def shown(detail: Mapping[str, Any] | None, cut: int = LONGEST) -> Any:
    """``detail`` without known secrets, its strings cut: the audit log is no place for payloads."""
    return clean_json(known().value(dict(detail or {})), cut=cut)


def insert(
    cursor: Any,
    kind: str,
    *,
    project: str | None = None,
    run: uuid.UUID | None = None,
    detail: Mapping[str, Any],
    cut: int = LONGEST,
) -> None:
    """Add one event of nobody's, with a Django or a psycopg cursor or connection, in its transaction."""
    cursor.execute(_INSERT, [new_id(), kind, project, run, json.dumps(shown(detail, cut))])
