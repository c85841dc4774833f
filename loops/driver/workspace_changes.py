"""What became of the folder of a run besides what its calls did (SPEC X3, G1): by the commands of criteria, by a
process that stayed behind, by a tool that did not say so, by a person.

It is looked at before and after criteria are measured, so that it is part of what is reviewed, delivered and undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from loops.driver.session import RunSession
from loops.driver.tool_calls import ToolCalls
from loops.engine import facts as f
from loops.engine.rollback import plan as rb
from loops.engine.values import ToolCall

NAMED = 10
"""Paths that stand in the fact itself, for people."""
_SAID = ("RunStarted", "ChecksStarted", "ChecksCompleted", "CriteriaTried", *rb.LEDGER)


def note(session: RunSession, calls: ToolCalls) -> None:
    """Record what is not as the calls left it.

    After a rollback nothing is compared: it has left what it could not undo."""
    session.flush()
    history = session.ports.journal.history(_SAID)
    started = next((fact for fact in history if isinstance(fact, f.RunStarted)), None)
    if started is None or not started.snapshot or any(isinstance(fact, f.CompensationIntended) for fact in history):
        return
    context = calls.context(ToolCall("workspace", rb.RESTORE))
    found = session.ports.tools.changed_otherwise(context, started.snapshot, rb.last_states(history))
    if found is None:
        return
    by = rb.CHECKS if _are_measured(history) else rb.UNRECORDED
    paths = [change.path for change in rb.files(found)]
    own = PurePosixPath(session.state.spec.workspace).name == session.state.spec.run_id
    named, by = tuple(paths[:NAMED]), by if own else rb.OUTSIDE
    session.note(f.WorkspaceChanged(by=by, compensation=found, paths=named, count=len(paths)))
    session.flush()


def _are_measured(history: Sequence[f.Fact]) -> bool:
    """Did checks begin, and nothing else since? They may have been cut short."""
    kinds = (f.ChecksStarted, f.ChecksCompleted, f.CriteriaTried, f.ToolIntended, f.WorkspaceChanged)
    latest = next((fact for fact in reversed(history) if isinstance(fact, kinds)), None)
    return isinstance(latest, f.ChecksStarted)
