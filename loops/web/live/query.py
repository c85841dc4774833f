"""All that a watcher is to see of a run after a fact: one statement, one snapshot, no ORM (benchmarks.md)."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import psycopg
from django.db import connection, models

from loops.models import Agent, ModelCall, Project, Run, Step, Task, ToolCallRecord
from loops.web import timeline
from loops.web.limits_bar import Granted
from loops.web.notes import NOTED

M = TypeVar("M", bound=models.Model)

_READ = """
WITH tail AS MATERIALIZED (
    SELECT seq, kind, step, at FROM loops_fact WHERE run_id = %(run)s AND seq > %(after)s
), wanted AS MATERIALIZED (
    SELECT step, max(at) AS at FROM tail GROUP BY step ORDER BY step DESC LIMIT %(most)s
), steps AS MATERIALIZED (
    SELECT s.* FROM agent_execution_steps s
    WHERE s.execution_id = %(run)s AND s.step_number = ANY (ARRAY(SELECT step FROM wanted))
), start AS MATERIALIZED (  -- before the wanted steps and the note that may precede one; nothing bounds step 0
    SELECT CASE WHEN EXISTS (SELECT FROM wanted WHERE step = 0) THEN 0
           ELSE least(%(after)s, (SELECT min(first_seq) - 2 FROM steps)) END AS seq
)
SELECT json_build_object(
    'seq', (SELECT max(seq) FROM tail),
    'kinds', (SELECT json_agg(DISTINCT kind) FROM tail),
    'missed', (SELECT json_build_array(min(step), (SELECT min(step) - 1 FROM wanted)) FROM tail
        WHERE step < (SELECT min(step) FROM wanted)),
    'at', (SELECT json_agg(json_build_array(step, at)) FROM wanted),
    'run', (SELECT row_to_json(r) FROM (
        SELECT r.id, r.agent_id, r.task_id, r.project_id, r.started_at, r.completed_at, r.total_steps, r.final_status,
               r.escalation_reason, r.paused_by, r.paused_reason, r.paused_at,
               r.total_cost_usd, r.total_tokens, r.state_snapshot, r.status, r.phase, r.end_reason,
               r.waiting_kind, r.waiting_name, r.waiting_on, r.max_steps, r.progress, r.cost_unknown, r.scripted,
               r.last_activity_at, r.active_us,
               t.title AS task, a.name AS agent, p.name AS project
        FROM agent_execution_history r JOIN loops_task t ON t.id = r.task_id
        JOIN loops_agent a ON a.id = r.agent_id JOIN loops_project p ON p.id = r.project_id WHERE r.id = %(run)s) r),
    'steps', (SELECT json_agg(s ORDER BY s.step_number) FROM steps s),
    'calls', (SELECT json_agg(c ORDER BY c.step_number, c.position) FROM loops_toolcallrecord c
        WHERE c.run_id = %(run)s AND c.step_number = ANY (ARRAY(SELECT step FROM wanted))),
    'models', (SELECT json_agg(m ORDER BY m.seq) FROM loops_modelcall m
        WHERE m.run_id = %(run)s AND m.seq > (SELECT seq FROM start)
        AND m.step_number = ANY (ARRAY(SELECT step FROM wanted))),
    'notes', (SELECT json_agg(json_build_array(f.seq, f.kind, f.step, f.at, f.body) ORDER BY f.seq) FROM loops_fact f
        WHERE f.run_id = %(run)s AND f.seq > (SELECT seq FROM start) AND f.kind = ANY (%(noted)s)
        AND f.step = ANY (ARRAY(SELECT step FROM wanted))),
    'gated', EXISTS (SELECT FROM gates_gate g
        WHERE g.run_id = %(run)s AND g.step_number = ANY (ARRAY(SELECT step FROM wanted))),
    'granted', (SELECT json_agg(d.payload ORDER BY g.id) FROM gates_gate g JOIN gates_decision d ON d.gate_id = g.id
        WHERE g.run_id = %(run)s AND g.kind = 'limit_reached' AND g.status = 'extended')
)::text
"""


@dataclass(slots=True)
class RunRows:
    """A run as it is, and those of its steps that facts after some sequence number belong to.

    ``seq`` is that of the latest fact, or None when there is no newer one; ``at``: when each step's latest was made.
    """

    run: Run
    seq: int | None
    kinds: frozenset[str]
    at: dict[int, datetime]
    rows: timeline.Rows
    granted: Granted
    missed: timeline.Gap | None = None
    """Steps that something happened in as well, and that are too many to be among these."""


def read(run_id: uuid.UUID, after: int, most: int) -> RunRows | None:
    """What is new after fact ``after``, of the latest ``most`` steps; None when the run is gone.

    One query; a second one only when people are asked in one of these steps.
    """
    params = {"run": run_id, "after": after, "most": most, "noted": list(NOTED)}
    connection.ensure_connection()
    with connection.wrap_database_errors:
        # A cursor of psycopg's own: Django's never prepares, and planning this takes longer than running it.
        row = psycopg.Cursor(connection.connection).execute(_READ, params, prepare=True).fetchone()
    assert row is not None
    found = json.loads(row[0])
    if found["run"] is None:
        return None
    run = _run(found["run"])
    at = {step: datetime.fromisoformat(moment) for step, moment in found["at"] or ()}
    rows = timeline.Rows(
        steps=[_model(Step, step) for step in found["steps"] or ()],
        calls=[_model(ToolCallRecord, call) for call in found["calls"] or ()],
        models=[_model(ModelCall, model) for model in found["models"] or ()],
        gates=timeline.gates_of(run).filter(step_number__in=at) if found["gated"] else (),
        notes=[_note(*note) for note in found["notes"] or ()],
    )
    first, last = found["missed"]
    missed = timeline.Gap(first, last) if first is not None else None
    return RunRows(run, found["seq"], frozenset(found["kinds"] or ()), at, rows, found["granted"] or (), missed)


def _run(row: dict[str, Any]) -> Run:
    names = {name: row.pop(name) for name in ("task", "agent", "project")}
    run = _model(Run, row)
    run.task = Task(id=run.task_id, title=names["task"])
    run.agent = Agent(id=run.agent_id, name=names["agent"])
    run.project = Project(id=run.project_id, name=names["project"])
    return run


def _note(seq: int, kind: str, step: int, at: str, body: str) -> tuple[int, str, int, datetime, bytes]:
    return seq, kind, step, datetime.fromisoformat(at), bytes.fromhex(body.removeprefix("\\x"))


def _model(kind: type[M], row: dict[str, Any]) -> M:
    """A row of JSON as the model knows it; a column that was not read is fetched when somebody asks for it."""
    names, values = [], []
    for column in kind._meta.concrete_fields:
        if column.attname in row:
            names.append(column.attname)
            values.append(_value(column, row[column.attname]))
    return kind.from_db(None, names, values)


def _value(column: models.Field[Any, Any], value: Any) -> Any:
    """Of what these tables hold, JSON has no moments and no UUIDs; decimals are only shown."""
    if value is None:
        return None
    if isinstance(column, models.DateTimeField):
        return datetime.fromisoformat(value)
    return uuid.UUID(value) if column.get_internal_type() == "UUIDField" else value
