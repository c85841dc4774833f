"""A run that a test owns: real rows, the real journal, no broker and no model."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import psycopg
from django.conf import settings
from django.db import connection

from gates.gatekeeper import SqlGatekeeper
from loops.driver import Driver, Ports
from loops.engine import facts as f
from loops.engine.apply import apply, initial
from loops.engine.context_window.conversation import extend
from loops.engine.context_window.transcript import Transcript
from loops.engine.state.limits import Limits
from loops.engine.state.run import RunState
from loops.engine.state.thresholds import OFF
from loops.ids import new_key
from loops.models import Project, Run
from loops.storage import journal
from loops.storage.feed import Publisher
from loops.storage.provenance import PgArchive
from tests import factories as make
from tests import fakes

Entries = list[tuple[f.Fact, RunState]]
ABOUT_A_RUN = {
    "agent_execution_history": "id",
    "agent_execution_steps": "execution_id",
    "loops_fact": "run_id",
    "loops_toolcallrecord": "run_id",
    "loops_modelcall": "run_id",
    "loops_artifact": "run_id",
    "loops_checkpoint": "run_id",
    "loops_mailboxitem": "run_id",
    "loops_provenancerecord": "run_id",
    "gates_gate": "run_id",
}


class Quiet(Publisher):
    """Nobody watches."""

    def _put(self, message: dict[str, Any]) -> None:
        pass


class Owned:
    """One ownership of a run, with the state as its owner sees it."""

    def __init__(self, run: Run, held: journal.Claim) -> None:
        self.run, self.held = run, held
        self.journal = journal.PgJournal(held, run.project_id, Quiet())
        loaded = journal.load(run.pk)
        self.state: RunState | None = loaded.state if loaded else None

    def entries(self, *facts: f.Fact) -> Entries:
        """Facts with the states after them, stamped with the time; not written yet."""
        return entries(self.state, *facts)

    def append(self, *facts: f.Fact, within: Sequence[Any] = ()) -> None:
        """Write facts that follow what this owner knows."""
        made = self.entries(*facts)
        self.journal.append(made, within)
        self.state = made[-1][1]

    def drive(self, answers: Any, tools: fakes.Tools | None = None) -> str:
        """Let the real driver go on with a model of given answers; why it stopped."""
        loaded = journal.load(self.run.pk)
        assert loaded is not None
        ports = Ports(
            self.journal,
            fakes.Models(answers),
            tools or fakes.Tools({"look": fakes.page}),
            SqlGatekeeper(),
            PgArchive(),
            fakes.Feed(),
            fakes.Clock(),
            new_key,
        )
        why = asyncio.run(Driver(ports, loaded.state, loaded.transcript, slice_s=1e9).drive())
        self.state = journal.load(self.run.pk).state  # type: ignore[union-attr]
        return why


def entries(state: RunState | None, *facts: f.Fact) -> Entries:
    """Facts with the states after them, the first one RunStarted when there is no state yet."""
    made: Entries = []
    for fact in facts:
        at = max(int(time.time() * 1e6), state.last_at + 1 if state else 0)
        stamped = replace(fact, at=at)
        if state is None:
            assert isinstance(stamped, f.RunStarted)
            state = initial(stamped)
        else:
            state = apply(state, stamped)
        made.append((stamped, state))
    return made


def started(run: Run, wording: Mapping[str, str] | None = None, **changes: Any) -> f.RunStarted:
    bounds = {"max_steps": 1000, "max_tokens": 10**9, "max_seconds": 10**6, "max_cost_microusd": 10**12}
    limits = replace(Limits(), **bounds, circles=OFF)  # steps of these tests are all alike on purpose
    spec = fakes.spec(run_id=str(run.pk), project_id=run.project_id, task_id=run.task_id, limits=limits, **changes)
    return f.RunStarted(spec=spec, system="Be good.", prompt_version="p", tools_sha256="t", wording=wording or {})


def new_run(project: Project | None = None) -> Run:
    return make.run(project or make.project(), runnable=True, status="queued")


def own(run: Run, owner: str = "somebody", ttl_s: float = 60.0) -> Owned:
    """Claim a run that is free."""
    held = journal.claim(run.pk, owner, ttl_s)
    assert held is not None
    return Owned(run, held)


def begun(run: Run | None = None, **changes: Any) -> Owned:
    """A run that is owned and has its first fact."""
    owned = own(run or new_run())
    owned.append(started(owned.run, **changes))
    return owned


def committed(steps: int = 3) -> Owned:
    """A run that did ``steps`` steps on the real journal and committed its result."""
    owned = begun()
    turns = [fakes.says(f"step {number}", ("look", {"at": number})) for number in range(steps)]
    assert owned.drive([*turns, fakes.done("all seen")]) == "ended"
    return owned


def lapse(run: Run) -> None:
    """Let the lease of whoever owns the run be over."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE agent_execution_history SET lease_until = clock_timestamp() - interval '1 second' WHERE id = %s",
            [run.pk],
        )


def rows(run: Run) -> dict[str, list[Any]]:
    """Everything stored about a run."""
    found = {}
    with connection.cursor() as cursor:
        for table, column in ABOUT_A_RUN.items():
            cursor.execute(f"SELECT to_jsonb(t) FROM {table} t WHERE {column} = %s ORDER BY t::text", [run.pk])
            found[table] = [json.loads(row) if isinstance(row, str) else row for (row,) in cursor.fetchall()]
    return found


def superuser() -> psycopg.Connection[Any]:
    """A connection nothing is forbidden to, as a thief of the database would have."""
    login = settings.DATABASE_OWNER
    name = connection.settings_dict["NAME"]
    return psycopg.connect(
        host=login["HOST"], user=login["USER"], password=login["PASSWORD"], dbname=name, autocommit=True
    )


def transcript_of(facts: Iterable[f.Fact]) -> Transcript:
    made = Transcript()
    for fact in facts:
        made = extend(made, fact)
    return made
