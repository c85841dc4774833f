"""What forks have in common with the runs they came from: read for provenance, checked by ``chain`` (SPEC K3, N1)."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import connection

_LINE = """
    WITH RECURSIVE line AS (
        SELECT k.parent_id, k.seq, k.step, k.head, 1 AS nth FROM loops_fork k WHERE k.run_id = %s
        UNION ALL
        SELECT k.parent_id, k.seq, k.step, k.head, nth + 1 FROM line JOIN loops_fork k ON k.run_id = line.parent_id
    )
    SELECT parent_id, seq, step, head FROM line ORDER BY nth
"""
_DIFFERENT = """
    SELECT k.run_id, k.parent_id, min(mine.seq)
    FROM loops_fork k
    JOIN loops_fact mine ON mine.run_id = k.run_id AND mine.seq BETWEEN 2 AND k.seq
    LEFT JOIN loops_fact theirs ON theirs.run_id = k.parent_id AND theirs.seq = mine.seq
    WHERE (%s::uuid IS NULL OR k.run_id = %s::uuid) AND theirs.body IS DISTINCT FROM mine.body
    GROUP BY k.run_id, k.parent_id
"""
_ELSEWHERE = """
    SELECT k.run_id, k.parent_id, k.seq
    FROM loops_fork k
    JOIN loops_fact first ON first.run_id = k.run_id AND first.seq = 1
    LEFT JOIN loops_fact theirs ON theirs.run_id = k.parent_id AND theirs.seq = k.seq
    WHERE (%s::uuid IS NULL OR k.run_id = %s::uuid) AND (
        theirs.hash IS DISTINCT FROM k.head
        OR position(convert_to('"head":"' || encode(k.head, 'hex') || '"', 'UTF8') IN first.body) = 0)
"""


def line(cursor: Any, run_id: uuid.UUID | str) -> list[dict[str, Any]]:
    """The runs a run descends from, the nearest first, with the point of each fork; [] for one with no origin."""
    cursor.execute(_LINE, [str(run_id)])
    return [
        {"run": str(parent), "seq": seq, "step": step, "head": bytes(head).hex()}
        for parent, seq, step, head in cursor.fetchall()
    ]


def faults(run_id: uuid.UUID | str | None = None) -> list[str]:
    """Forks (of one run, or all) whose beginning is not what the other run recorded. Two queries."""
    only = [str(run_id) if run_id else None] * 2
    with connection.cursor() as cursor:
        cursor.execute(_DIFFERENT, only)
        found = [f"run {mine}: fact {seq} is not that of run {theirs}" for mine, theirs, seq in cursor.fetchall()]
        cursor.execute(_ELSEWHERE, only)
        found += [
            f"run {mine}: it was forked from another history than run {theirs} has at fact {seq}"
            for mine, theirs, seq in cursor.fetchall()
        ]
    return found
