"""Ask whether an ended run is to be undone, and undo it: one compensation at a time (SPEC O2, O3).

Each has its INTENT before and its outcome after it, so that a worker lost in between leaves nothing to guess.

What is left to do is folded from the journal; the order and what depends on what are the engine's (``rollback.py``).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from loops.crash_points import CrashPoint, reach
from loops.driver import reviews, workspace_changes
from loops.driver.gates import open_gate
from loops.driver.interrupts import Interrupts, TookTooLong
from loops.driver.session import RunSession
from loops.driver.tool_calls import ToolCalls
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.ends.reasons import EXPLANATIONS
from loops.engine.ends.reports import failure_behind
from loops.engine.rollback import plan as rb
from loops.engine.state.lifecycle import Phase
from loops.engine.state.run import RunState
from loops.engine.text.truncation import shortened
from loops.engine.values import Access, Compensation, Json, ToolCall, ToolResult

log = logging.getLogger(__name__)

NOBODY: frozenset[str] = frozenset()
REASONS_AT_MOST = 20
LONGEST_S = 600.0
"""Of one compensation; its tool has a limit of its own."""
IN_DOUBT = "the worker was lost while it was being undone, and nobody can say whether it was: look before you try again"


async def ask(session: RunSession, calls: ToolCalls) -> None:
    """Open the gate, unless nothing of what the run did is there any more. What a rollback could not undo is asked
    about as well: nobody has to find it by chance (SPEC O2)."""
    workspace_changes.note(session, calls)
    history = session.ports.journal.history(rb.LEDGER)
    failed = [undo for undo in reversed(rb.ledger(history)) if undo.outcome in rb.LEFT]
    undos = rb.ledger([*history, f.RollbackRequested()])
    view = await view_of(session.ports.tools, _context(calls, "*"), undos)
    if not view["files"] and not view["others"]:
        session.note(f.RollbackEnded(outcome=rb.NOTHING, asked=False))
        session.flush()
        return
    state = session.state
    question = e.OpenGate(
        kind=rb.GATE,
        title=_title(state, view, failed=bool(failed)),
        reasons=reasons_of(failed)
        or (EXPLANATIONS.get(state.end_reason, state.end_reason), "What it did so far is still there."),
        risk="medium",
        recommended="keep" if state.phase is Phase.HALT or failed else "",
        subject={"undo": [{"call": undo.id, "tool": undo.compensation.tool} for undo in rb.pending(undos)]},
        view=view
        | {"choices": choices(state), "again": bool(failed), "failure": failure_behind(state, state.end_reason)},
    )
    await open_gate(session, calls, question)


def reasons_of(failed: Sequence[rb.Undo]) -> tuple[str, ...]:
    """What could not be undone and why, in the words of a gate."""
    more = len(failed) - REASONS_AT_MOST
    said = (f"{undo.summary}: {undo.why}" for undo in failed[:REASONS_AT_MOST])
    return (
        *said,
        *([f"{more} more could not be undone: they are below, and on the page Roll back"] if more > 0 else []),
    )


def choices(state: RunState) -> list[Json]:
    """The verdicts that make sense for this run."""
    return ["roll_back", "keep", *(["continue"] if rb.may_continue(state) else [])]


async def view_of(tools: p.Tools, context: p.CallContext, undos: Sequence[rb.Undo]) -> dict[str, Any]:
    """What undoing everything would do now: {"files": [{"path", "what", "folder", "why_not"}], "more_files", "diff",
    "diff_is_cut", "others": [{"what", "why_not"}]}. ``why_not`` is empty for what would be undone."""
    others = [_other(undo, undos) for undo in rb.pending(undos) if not rb.files(undo.compensation)]
    view: dict[str, Any] = {"files": [], "more_files": 0, "diff": "", "diff_is_cut": False}
    changes = rb.net(undos)
    if changes:
        judgement = await tools.judge(_call("net", rb.restoring(changes)), context)
        if judgement.access is Access.DENY:
            others += [{"what": "the changed files", "why_not": "; ".join(judgement.reasons)}]
        view |= {name: judgement.view[name] for name in view if name in judgement.view}
    return view | {"others": others}


async def roll_back(session: RunSession, calls: ToolCalls, interrupts: Interrupts) -> None:
    """Undo what is left, the latest effect first, and write the report anew. After LeaseLost the next owner goes on."""
    session.flush()
    history = session.ports.journal.history(rb.LEDGER)
    undos = rb.ledger(history)
    while undo := rb.next_undo(undos):
        came = await _undo(session, calls, interrupts, undo, undos)
        if came.outcome in rb.LEFT:
            log.warning("run %s: %s was not undone: %s", session.state.spec.run_id, undo.summary, came.message)
        undos = rb.advanced(undos, came)
        session.note(came)
        session.flush()
        reach(CrashPoint.BETWEEN_COMPENSATIONS)
    _end(session, history, undos, reviews.stands(session, calls))


async def _undo(
    session: RunSession, calls: ToolCalls, interrupts: Interrupts, undo: rb.Undo, undos: Sequence[rb.Undo]
) -> f.CompensationCompleted:
    outcome, why = rb.obstacle(undo, undos)
    if outcome:
        return _came(undo, outcome, why, _paths(undo) if outcome in rb.LEFT else ())
    compensation, held = rb.to_perform(undo, undos)
    call = _call(undo.id, compensation)
    key = rb.idempotency_key(session.state.spec.run_id, undo)
    context = replace(_context(calls, undo.id), idempotency_key=key)
    if undo.open and (known := await _found(session, call, context, undo)):
        return known
    session.note(
        f.CompensationIntended(
            undoes=undo.id, tool=call.name, arguments=call.arguments, idempotency_key=key, attempt=undo.begun + 1
        )
    )
    session.flush()
    work = session.ports.tools.execute(call, context, lambda stream, chunk: None)
    try:
        result = await interrupts.interruptible(work, NOBODY, what=call.name, within_s=LONGEST_S)
    except TookTooLong:
        return _came(undo, "failed", f"{call.name} did not end within {LONGEST_S:g} s and was stopped", _paths(undo))
    return _outcome(undo, result, held)


async def _found(
    session: RunSession, call: ToolCall, context: p.CallContext, undo: rb.Undo
) -> f.CompensationCompleted | None:
    """What became of a compensation whose worker was lost; None when it may simply be made again."""
    if call.name == rb.RESTORE or undo.compensation.repeatable:
        return None
    match await session.ports.tools.verify(call, context):
        case p.Verified.DONE:
            return _came(undo, rb.UNDONE)
        case p.Verified.NOT_DONE:
            return None
        case _:
            return _came(undo, "failed", IN_DOUBT)


def _outcome(undo: rb.Undo, result: ToolResult, held: tuple[str, ...]) -> f.CompensationCompleted:
    restored, left = result.data.get("restored"), result.data.get("left")
    paths = _paths(undo)  # of a tool that could not even say what it left, all
    if isinstance(left, list):
        paths = tuple(str(one["path"]) for one in left if isinstance(one, Mapping))
    if result.ok and not held:
        again = undo.begun > 0  # a lost worker may have done it already
        return _came(undo, rb.UNDONE if restored or again or undo.compensation.tool != rb.RESTORE else rb.NOTHING)
    why = result.error or "a later change of the same file could not be undone"
    return _came(undo, "partly" if restored else "failed", shortened(why, 2000), (*paths, *held))


def _paths(undo: rb.Undo) -> tuple[str, ...]:
    return tuple(change.path for change in rb.files(undo.compensation))


def _came(undo: rb.Undo, outcome: str, why: str = "", left: tuple[str, ...] = ()) -> f.CompensationCompleted:
    tool = undo.compensation.tool
    return f.CompensationCompleted(undoes=undo.id, tool=tool, outcome=outcome, message=why, left=left)


def _end(
    session: RunSession, history: Sequence[f.Fact], undos: Sequence[rb.Undo], workspace: Mapping[str, Json]
) -> None:
    """The run stays as it ended; its report says from now on what was undone and what was not (SPEC A5)."""
    ended = next(fact for fact in reversed(history) if isinstance(fact, f.RunEnded))
    report = dict(ended.report) | {"rollback": rb.account(undos, rb.ordered_by(history))}
    report |= reviews.reported(session, workspace)
    counts = {name: sum(undo.outcome == name for undo in undos) for name in (rb.UNDONE, *rb.LEFT)}
    left = sum(counts[name] for name in rb.LEFT)
    session.note(
        f.RollbackEnded(outcome=rb.outcome_of(undos), undone=counts[rb.UNDONE], left=left),
        f.RunEnded(phase=ended.phase, reason=ended.reason, report=report, report_kind=ended.report_kind, amends=True),
    )
    session.flush()


def _context(calls: ToolCalls, undoes: str) -> p.CallContext:
    return replace(calls.context(ToolCall(id="undo", name=rb.RESTORE)), undoes=undoes)


def _call(name: str, compensation: Compensation) -> ToolCall:
    return ToolCall(id=f"undo-{name}", name=compensation.tool, arguments=compensation.arguments)


def _other(undo: rb.Undo, undos: Sequence[rb.Undo]) -> dict[str, str]:
    outcome, why = rb.obstacle(undo, undos)
    by = "" if outcome else f" (undone by {undo.compensation.tool})"
    return {"what": f"{undo.summary}{by}", "why_not": why}


def _title(state: RunState, view: Mapping[str, Any], *, failed: bool) -> str:
    if failed:
        return f"Rolled back, except {_what(view)}. Look at {_it(view)}: try again, keep, or continue?"
    ended = "Stopped." if state.phase is Phase.HALT else "Failed."
    return f"{ended} Roll back {_what(view)}, keep {_it(view)}, or continue?"


def _what(view: Mapping[str, Any]) -> str:
    files = sum(not one["folder"] for one in view["files"]) + int(view["more_files"])
    folders, others = sum(one["folder"] for one in view["files"]), len(view["others"])
    parts = [f"{files} changed file{'s' * (files != 1)}"] if files else []
    parts += [f"{folders} folder{'s' * (folders != 1)}"] if folders and not files else []
    parts += [f"{others} other effect{'s' * (others != 1)}"] if others else []
    return " and ".join(parts)


def _it(view: Mapping[str, Any]) -> str:
    return "it" if len(view["files"]) + int(view["more_files"]) + len(view["others"]) == 1 else "them"
