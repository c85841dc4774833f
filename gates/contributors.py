"""Who shaped a run: whoever did decides what it does, and is no second pair of eyes on it (SPEC Q6).

Read from rows that are kept anyway: messages, forks, and decisions by which somebody wrote what happens next. What
shaped a run shaped its forks too.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from django.db import connection
from django.db.models.expressions import RawSQL

from gates.policy.verdicts import SHAPING

_SHAPED = """
    WITH RECURSIVE shaped (run_id) AS (
        SELECT run_id FROM loops_mailboxitem WHERE created_by_id = %s AND kind = 'message'
        UNION SELECT run_id FROM loops_fork WHERE created_by_id = %s
        UNION SELECT gate.run_id FROM gates_decision decision JOIN gates_gate gate ON gate.id = decision.gate_id
            WHERE decision.decided_by_id = %s AND decision.verdict = ANY(%s)
        UNION SELECT fork.run_id FROM loops_fork fork JOIN shaped ON fork.parent_id = shaped.run_id
    )
    SELECT run_id FROM shaped
"""
_SHAPERS = """
    WITH RECURSIVE line (run_id, source) AS (
        SELECT run_id, run_id FROM unnest(%s::uuid[]) AS asked (run_id)
        UNION SELECT line.run_id, fork.parent_id FROM loops_fork fork JOIN line ON fork.run_id = line.source
    )
    SELECT line.run_id, item.created_by_id FROM line
        JOIN loops_mailboxitem item ON item.run_id = line.source AND item.kind = 'message'
    UNION SELECT line.run_id, fork.created_by_id FROM line JOIN loops_fork fork ON fork.run_id = line.source
    UNION SELECT line.run_id, decision.decided_by_id FROM line
        JOIN gates_gate gate ON gate.run_id = line.source
        JOIN gates_decision decision ON decision.gate_id = gate.id AND decision.verdict = ANY(%s)
"""


def runs_shaped_by(person: Any) -> RawSQL:
    """The ids of the runs that ``person`` shaped, for a filter."""
    return RawSQL(_SHAPED, _given(person))  # noqa: S611 - every value is a parameter


def has_shaped(person: Any, run_id: uuid.UUID) -> bool:
    """Did ``person`` shape this run, or one that it was forked from?"""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT %s IN ({_SHAPED})", [run_id, *_given(person)])
        return bool(cursor.fetchone()[0])


def shapers_of(runs: Iterable[uuid.UUID]) -> set[tuple[uuid.UUID, Any]]:
    """Pairs of a run among ``runs`` and the id of a person who shaped it, or one that it was forked from."""
    with connection.cursor() as cursor:
        cursor.execute(_SHAPERS, [list(runs), sorted(SHAPING)])
        return {(run, person) for run, person in cursor.fetchall() if person is not None}


def _given(person: Any) -> list[Any]:
    return [person.pk, person.pk, person.pk, sorted(SHAPING)]
