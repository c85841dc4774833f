"""Open a gate: what is asked, what a decision binds to, and what the reviewer sees, in one row with the fact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loops.crash_points import CrashPoint, reach
from loops.driver import reviews
from loops.driver.session import RunSession
from loops.driver.tool_calls import ToolCalls
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.encoding.codec import to_plain
from loops.engine.rollback import plan as rb
from loops.engine.rollback.result import left_behind
from loops.engine.text.truncation import cut, shortened
from loops.engine.tool_calls.titles import deed
from loops.engine.values import Json, ToolCall
from loops.masking import known

TITLES = {"permission_blocked": "Blocked by policy: ", "in_doubt": "Did it take effect? "}
"""What stands before the deed, where it is not asked for as such."""
TITLE_CHARS = 300
REASONING_CHARS = 4000
FILES_AT_MOST = 500
NOBODY_SAW = "its worker was lost while it ran"


async def open_gate(session: RunSession, calls: ToolCalls, effect: e.OpenGate) -> None:
    """Insert the gate and its fact in one transaction; the run then rests, and no worker waits (SPEC J5)."""
    spec, call = session.state.spec, effect.call
    title, version = effect.title, spec.policy_version
    subject: Mapping[str, Json] = dict(effect.subject) | {
        "run": spec.run_id,
        "kind": effect.kind,
        "seq": session.state.seq,
    }
    view = dict(effect.view)
    if call is not None and effect.kind in e.ABOUT_A_CALL:
        judgement = await calls.judgement_of(call)
        command = str(judgement.view.get("command") or "")
        title = title or TITLES.get(effect.kind, "") + deed(call, judgement.deed, command)
        subject, version = judgement.subject, judgement.policy_version
        view = _view(session, call) | dict(judgement.view) | view
    if effect.criterion:  # its command is the task's own: nobody edits it here
        call, view = None, {**view, "criterion": effect.criterion}
    detail = {"limit": str(view["limit"])} if effect.kind in {"limit_reached", "no_price"} else {}
    if effect.kind == "final_review":
        workspace = reviews.stands(session, calls)
        view |= _left_behind(session) | reviews.shown(workspace)
        if tree := workspace.get("tree"):
            subject, detail = reviews.subject(session, effect.subject, workspace), {"tree": str(tree)}
    request = p.GateRequest(
        id=session.ports.new_id(),
        run_id=spec.run_id,
        project_id=spec.project_id,
        kind=effect.kind,
        title=shortened(known().text(title), TITLE_CHARS),
        step=session.state.step,
        call_id=call.id if call else "",
        tool=effect.call.name if effect.call else "",
        reasons=effect.reasons,
        confidence=effect.confidence,
        risk=effect.risk,
        recommended=effect.recommended,
        policy_version=version,
        subject=subject,
        view=known().value(
            view | {"reasoning": cut(session.state.last_text, REASONING_CHARS, "on the page of the run")}
        ),
    )
    session.note(
        f.GateOpened(gate=request.id, kind=request.kind, title=request.title, call_id=request.call_id, detail=detail)
    )
    session.flush(session.ports.gatekeeper.open(request))
    reach(CrashPoint.GATE_OPENED)


def _left_behind(session: RunSession) -> dict[str, Any]:
    """The files that the result is about, by the states they had and have: an approval binds to exactly these bytes."""
    session.flush()
    history = session.ports.journal.history(rb.LEDGER)
    changes, unknown = left_behind(history)
    more, more_unknown = (max(0, len(some) - FILES_AT_MOST) for some in (changes, unknown))
    found: dict[str, Any] = {"changed": [], "more_changed": more, "unrecorded": [], "more_unrecorded": more_unknown}
    for one in changes[:FILES_AT_MOST]:
        found["changed"].append({"path": one.path, "before": one.before, "after": one.after})
    for undo in unknown[:FILES_AT_MOST]:
        found["unrecorded"].append({"what": undo.summary, "why": undo.compensation.why_not or NOBODY_SAW})
    if others := sorted({change.path for undo in rb.of_others(history) for change in rb.files(undo.compensation)}):
        found["by_others"] = others[:FILES_AT_MOST]
    return found


def _view(session: RunSession, call: ToolCall) -> dict[str, Any]:
    """What a reviewer needs of any call: the whole arguments, and what kind of thing would happen."""
    view: dict[str, Any] = {"tool": call.name, "arguments": to_plain(call.arguments)}
    for spec in session.specs:
        if spec.name == call.name:
            view |= {"operation": spec.operation, "reversibility": spec.reversibility.value}
            view |= {"danger": spec.danger.value, "parameters_schema": to_plain(spec.parameters)}
    return view
