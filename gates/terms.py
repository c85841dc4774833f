"""A project's terms of waiting, read with whatever cursor is at hand and kept for a few seconds."""

from __future__ import annotations

import time
from typing import Any

from gates.policy.expiry import Terms

KEPT_FOR_S = 5.0
_SELECT = """
    SELECT gate_expiry_minutes, sla_minutes, expiry_outcome, own_approval_allowed
    FROM loops_policy WHERE project_id = %s
"""
_kept: dict[str, tuple[float, Terms]] = {}


def terms_of(cursor: Any, project_id: str) -> Terms:
    """The terms as the database has them now; the defaults for a project without a policy."""
    cursor.execute(_SELECT, [project_id])
    row = cursor.fetchone()
    return Terms(*row) if row else Terms()


def recent_terms_of(cursor: Any, project_id: str) -> Terms:
    """The terms, at most a few seconds old: for opening gates, which a run does often."""
    now = time.monotonic()
    kept = _kept.get(project_id)
    if kept and now - kept[0] < KEPT_FOR_S:
        return kept[1]
    terms = terms_of(cursor, project_id)
    _kept[project_id] = (now, terms)
    return terms


def forget() -> None:
    _kept.clear()
