"""Make a run's rows again from its facts, and say where they differ from those stored (architecture#journal, SPEC J2).

Rows are for people and SQL; the journal is the truth. The same ``project`` that served the appends serves here.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from django.db import connection, transaction

from loops.engine import facts as f
from loops.engine.apply import apply, initial
from loops.engine.state.run import RunState
from loops.models import Run
from loops.storage import reader
from loops.storage.rows import NOT_PAUSED, project
from loops.storage.status import final_status, status

TABLES = {
    "agent_execution_steps": "execution_id",
    "loops_toolcallrecord": "run_id",
    "loops_modelcall": "run_id",
    "loops_artifact": "run_id",
}
Rows = dict[str, dict[str, Any]]
_MAY_THINK = "SET LOCAL idle_in_transaction_session_timeout = 0"
"""A long history is folded between two statements; that is no frozen worker."""


@dataclass(slots=True)
class Rebuilt:
    """How many rows the facts make, and what was stored otherwise: "table id: column"."""

    rows: int = 0
    differences: list[str] = field(default_factory=list)


def rebuild(run_id: uuid.UUID | str, *, write: bool = False) -> Rebuilt:
    """Compare one run's rows with its facts; with ``write`` put right what differs."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_MAY_THINK)
        run = Run.objects.select_for_update().get(pk=run_id)
        if reader.is_pruned(run_id):  # its rows are all that is left of its long texts
            return Rebuilt()
        entries = _folded(reader.history(run_id))
        if not entries:
            return Rebuilt()
        rows = project(str(run.pk), entries)
        head = _head(entries[-1][1]) | {"escalation_reason": rows.get("escalation", "")} | rows.get("pause", NOT_PAUSED)
        before = _stored(run, head)
        _replace(run, rows, head)
        after = _stored(run, head)
        if not write:
            transaction.set_rollback(True)
    return Rebuilt(len(after), sorted(_differences(before, after)))


def _folded(history: list[f.Fact]) -> list[tuple[f.Fact, RunState]]:
    entries: list[tuple[f.Fact, RunState]] = []
    for fact in history:
        state = apply(entries[-1][1], fact) if entries else initial(fact)  # type: ignore[arg-type]
        entries.append((fact, state))
    return entries


def _replace(run: Run, rows: dict[str, Any], head: dict[str, Any]) -> None:
    with connection.cursor() as cursor:
        for table, column in TABLES.items():
            cursor.execute(f"DELETE FROM {table} WHERE {column} = %s", [run.pk])  # noqa: S608 - names of our own
        cursor.execute("SELECT journal_project(%s, %s::jsonb)", [run.pk, json.dumps(rows, ensure_ascii=False)])
    Run.objects.filter(pk=run.pk).update(**head)


def _head(state: RunState) -> dict[str, Any]:
    """The part of the run's own row that follows from its state."""
    shown, _ = status(state)
    return {
        "status": shown,
        "phase": state.phase.value,
        "total_steps": state.step,
        "total_tokens": min(state.tokens, 2**31 - 1),
        "total_cost_usd": Decimal(state.cost_microusd).scaleb(-6).quantize(Decimal("0.0001"), ROUND_HALF_UP),
        "cost_unknown": state.cost_unknown,
        "progress": state.progress,
        "active_us": state.active_us,
        "max_steps": state.limits.max_steps + state.step_base,
        "end_reason": state.end_reason if state.is_ended else "",
        "final_status": final_status(state),
    }


def _stored(run: Run, head: Iterable[str]) -> Rows:
    """Rows of the run by table and key, as the database itself writes them down."""
    found: Rows = {}
    with connection.cursor() as cursor:
        for table, column in TABLES.items():
            cursor.execute(f"SELECT id, to_jsonb(t)::text FROM {table} t WHERE {column} = %s", [run.pk])  # noqa: S608
            found.update({f"{table} {key}": json.loads(row) for key, row in cursor.fetchall()})
    fresh = Run.objects.get(pk=run.pk)
    found[f"agent_execution_history {run.pk}"] = {name: getattr(fresh, name) for name in (*head, "state_snapshot")}
    return found


def _differences(before: Rows, after: Rows) -> list[str]:
    found = [f"{key}: is not in the facts" for key in before.keys() - after.keys()]
    found += [f"{key}: is missing" for key in after.keys() - before.keys()]
    for key in before.keys() & after.keys():
        columns = [name for name, value in after[key].items() if before[key][name] != value]
        if columns:
            found.append(f"{key}: {', '.join(columns)}")
    return found
