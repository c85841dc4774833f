"""Forks for tests: made by the service, begun by the worker's own code, driven with given answers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from gates.models import Gate
from loops.engine.values import Access
from loops.models import Policy, Run
from loops.runs.forks import fork_of, take_over
from loops.services.forks import fork_run
from tests import factories as make
from tests import fakes
from tests.decisions import decide
from tests.integration.storage import owned
from tests.integration.storage.owned import Owned


class Ledger:
    """What reached the world, by run and what was done: the tools write here and nowhere else."""

    def __init__(self) -> None:
        self.effects: list[tuple[str, str]] = []
        self.keys: list[str] = []

    def tools(self, *asked: str) -> fakes.Tools:
        """Tools ``look``, ``act`` and ``pay``; those ``asked`` for need an approval."""
        ledger = self

        class Noted(fakes.Tools):
            async def execute(self, call: Any, context: Any, on_output: Any) -> Any:
                ledger.effects.append((context.run_id, f"{call.name} {call.arguments.get('at', '')}".strip()))
                ledger.keys.append(context.idempotency_key)
                return await super().execute(call, context, on_output)

        functions = {name: lambda arguments, name=name: f"{name}: done" for name in ("look", "act", "pay")}
        return Noted(functions, dict.fromkeys(asked, Access.ASK))

    def of(self, run: Run) -> Counter[str]:
        return Counter(effect for run_id, effect in self.effects if run_id == str(run.pk))


def parent_in(folder: Path, run: Run | None = None, **changes: Any) -> Owned:
    """A run with a folder of its own that holds one file."""
    mine = owned.begun(run, **changes)
    folder.mkdir(parents=True)
    (folder / "notes").write_text("one")
    Run.objects.filter(pk=mine.run.pk).update(workspace_path=str(folder))
    Policy.objects.filter(project=mine.run.project_id).update(final_review="never")
    mine.run.refresh_from_db()
    return mine


def forked(mine: Owned, **wish: Any) -> Owned:
    """The fork of a run, begun and not driven."""
    mine.run.refresh_from_db()
    run = fork_run(actor=mine.run.task.created_by, run=mine.run, **wish).run
    return begin(run)


def begin(run: Run) -> Owned:
    """What the fork's worker does first."""
    fork = fork_of(run)
    assert fork is not None
    theirs = owned.own(run)
    theirs.state, _, problem = take_over(run, fork, theirs.journal)
    assert problem == ""
    theirs.run.refresh_from_db()
    return theirs


def approve(run: Run) -> Gate:
    """A person approves the one gate that is open."""
    gate = Gate.objects.get(run=run, status="open")
    decide(actor=make.superuser(), gate_id=gate.pk, verdict="approve", digest=gate.digest)
    return gate
