"""What the monitor reads: two queries a look, whatever the number of runs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db import connection

from loops.engine.encoding.canonical import decode
from loops.engine.facts import Fact, GateDecided, LoopDetected, StepCompleted
from loops.engine.facts.encoding import read_fact

AT_ONCE = 5000
"""Runs that are looked at; what is beyond waits its turn, oldest first."""
FACTS_A_RUN = 24
"""News of one run that are read at most: a window of steps, and what was found and decided between them."""
NEWS = (StepCompleted.__name__, GateDecided.__name__, LoopDetected.__name__)

_LIVE = """
    SELECT id, head_seq, status, owner <> '', total_steps, total_tokens, (total_cost_usd * 1000000)::bigint,
           extract(epoch FROM clock_timestamp() - last_activity_at)::float,
           extract(epoch FROM clock_timestamp() - lease_until)::float,
           extract(epoch FROM clock_timestamp())::float
    FROM agent_execution_history
    WHERE (runnable OR owner <> '')
      AND status NOT IN ('completed', 'failed', 'interrupted', 'escalated', 'waiting', 'paused')
    ORDER BY last_activity_at LIMIT %s
"""
_NEWS = """
    SELECT run.id, fact.seq, fact.body
    FROM unnest(%s::uuid[], %s::bigint[]) AS run (id, seen)
    CROSS JOIN LATERAL (
        (SELECT seq, body FROM loops_fact WHERE run_id = run.id AND seq > run.seen AND kind = ANY(%s)
         ORDER BY seq DESC LIMIT %s)
        UNION ALL
        SELECT seq, body FROM loops_fact WHERE run_id = run.id AND seq = 1 AND run.seen = 0
    ) AS fact
    ORDER BY run.id, fact.seq
"""

_TEXTS = """
    SELECT step.execution_id, step.step_number,
           string_agg(call.tool || ' ' || call.arguments::text, E'\n' ORDER BY call.position),
           string_agg(coalesce(nullif(call.error, ''), call.output), E'\n' ORDER BY call.position)
    FROM unnest(%s::uuid[], %s::int[]) AS wanted (run, step)
    JOIN agent_execution_steps step ON step.execution_id = wanted.run AND step.step_number = wanted.step
    CROSS JOIN LATERAL jsonb_array_elements(step.result -> 'calls') AS one
    JOIN loops_toolcallrecord call ON call.run_id = wanted.run AND call.call_id = one ->> 'call'
    GROUP BY step.execution_id, step.step_number
"""
StepOfRun = tuple[uuid.UUID, int]


@dataclass(frozen=True, slots=True)
class RunSeen:
    """A live run as its row says. ``idle_s`` since its latest fact; ``lapsed_s`` since its lease ran out, negative
    while it holds, None when nobody has it. All by the database's clock."""

    id: uuid.UUID
    seq: int
    status: str
    owned: bool
    step: int
    tokens: int
    cost_microusd: int
    idle_s: float
    lapsed_s: float | None
    now: float


def live_runs() -> list[RunSeen]:
    with connection.cursor() as cursor:
        cursor.execute(_LIVE, [AT_ONCE])
        return [RunSeen(*row) for row in cursor.fetchall()]


def news(since: Mapping[uuid.UUID, int]) -> dict[uuid.UUID, list[Fact]]:
    """Facts of ``NEWS`` after a sequence number, run by run; 0 asks for the beginning of the run as well."""
    if not since:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_NEWS, [list(since), list(since.values()), list(NEWS), FACTS_A_RUN])
        rows = cursor.fetchall()
    found: dict[uuid.UUID, list[Fact]] = {}
    for run_id, _, body in rows:
        if (fact := _fact(bytes(body))) is not None:
            found.setdefault(run_id, []).append(fact)
    return found


def texts(steps: Mapping[uuid.UUID, Sequence[int]]) -> dict[StepOfRun, tuple[str, str]]:
    """What was called in these steps, and what came of it, as people read it. A step without calls has none."""
    wanted = [(run_id, step) for run_id, numbers in steps.items() for step in numbers]
    with connection.cursor() as cursor:
        cursor.execute(_TEXTS, [[run_id for run_id, _ in wanted], [step for _, step in wanted]])
        return {(run_id, step): (called, came) for run_id, step, called, came in cursor.fetchall()}


def _fact(body: bytes) -> Fact | None:
    """None for a fact of another version, which is no reason to stop watching. Long parts stay where they are."""
    plain = decode(body)
    try:
        return read_fact({name: "" if _is_elsewhere(value) else value for name, value in plain.items()})
    except (KeyError, TypeError, ValueError):
        return None


def _is_elsewhere(value: object) -> bool:
    return isinstance(value, dict) and "#blob" in value
