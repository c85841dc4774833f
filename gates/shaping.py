"""Who shaped a run: whoever did decides what it does, and is no second pair of eyes on it (SPEC Q6).

Read from rows that are kept anyway: messages, forks, and decisions by which somebody wrote what happens next. What
shaped a run shaped its forks too.
"""

from __future__ import annotations

import uuid
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


def runs_shaped_by(person: Any) -> RawSQL:
    """The ids of the runs that ``person`` shaped, for a filter."""
    return RawSQL(_SHAPED, _given(person))  # noqa: S611 - every value is a parameter


def has_shaped(person: Any, run_id: uuid.UUID) -> bool:
    """Did ``person`` shape this run, or one that it was forked from?"""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT %s IN ({_SHAPED})", [run_id, *_given(person)])
        return bool(cursor.fetchone()[0])


def _given(person: Any) -> list[Any]:
    return [person.pk, person.pk, person.pk, sorted(SHAPING)]
