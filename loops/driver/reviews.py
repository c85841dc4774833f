"""What a review of a result binds, and a report names: the whole workspace by one name (SPEC A5, N1, Q3, Q5)."""

from __future__ import annotations

from collections.abc import Mapping

from loops.driver.session import RunSession
from loops.driver.tool_calls import ToolCalls
from loops.engine import facts as f
from loops.engine.rollback import plan as rb
from loops.engine.values import Json, ToolCall

KIND = "final_review"


def stands(session: RunSession, calls: ToolCalls) -> Mapping[str, Json]:
    """The workspace as it is: ``tree``, or ``why_not``; of a run without a folder nothing."""
    if not session.state.spec.workspace:
        return {}
    return session.ports.tools.stands(calls.context(ToolCall("workspace", rb.RESTORE)))


def subject(session: RunSession, reviewed: Mapping[str, Json], workspace: Mapping[str, Json]) -> dict[str, Json]:
    """The same when it is opened and when it is used up, as long as nothing of it changed."""
    return {**reviewed, "run": session.state.spec.run_id, "kind": KIND, "workspace": dict(workspace)}


def shown(workspace: Mapping[str, Json]) -> dict[str, Json]:
    """For the reviewer: the name, or why a later change will not be noticed."""
    return {f"workspace_{name}": told for name, told in workspace.items()}


def reported(session: RunSession, workspace: Mapping[str, Json]) -> dict[str, Json]:
    """For the report: the trees of the workspace as the run found it and as it leaves it, "" for one that is not known;
    nothing where neither is. A fork names what it began with itself."""
    started = [one for one in session.ports.journal.history(("RunStarted",)) if isinstance(one, f.RunStarted)]
    trees = {"start": started[-1].snapshot if started else "", "end": str(workspace.get("tree", ""))}
    return {"workspace": dict[str, Json](trees)} if any(trees.values()) else {}
