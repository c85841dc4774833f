"""The call cycle that every strategy shares: what becomes of the calls of one answer (SPEC B2, C3, C4, I3).

Calls run in their order: judged, asked about where policy wants it, run once, completed or refused. A turn-ending tool
ends the answer: what comes after it is not run. When all have an outcome, the step is complete.
"""

from __future__ import annotations

from loops.engine import prompts
from loops.engine.effects import Effect, JudgeCall, OpenGate, Record, RecoverTool, RunTool
from loops.engine.encoding.fingerprints import error_signature
from loops.engine.facts import Fact, ResultProposed, StepCompleted, ToolCompleted, ToolRefused
from loops.engine.failures import second_opinion, step_failures
from loops.engine.failures.blocked_calls import objection, reflection
from loops.engine.loop_detection import guard
from loops.engine.permissions.denials import after_denial
from loops.engine.progress.score import measure
from loops.engine.state.run import CallStatus, PendingCall, RunState
from loops.engine.text.truncation import shortened
from loops.engine.tool_calls import no_tool_call
from loops.engine.values import TURN_ENDING_TOOLS, Access, ToolResult

VOIDED_AT_MOST = 3


def next_effect(state: RunState) -> Effect | None:
    """What the latest answer still wants; None when nothing of it is open and the step is complete."""
    if given := reflection(state):
        return Record((given,))
    for pending in state.calls:
        if pending.status != CallStatus.DONE:
            return _next_for(state, pending)
    if state.answered:
        return second_opinion.due(state) or Record(_complete_step(state))
    return None


def _next_for(state: RunState, pending: PendingCall) -> Effect:
    """The next effect for the first call of the answer that has no outcome yet."""
    call = pending.call
    if reason := _surplus(state, pending):
        return _refuse(pending, "surplus", reason)
    if call.error:
        return _refuse(pending, "malformed", prompts.fill("call_unreadable", error=call.error))
    match pending.status:
        case CallStatus.PROPOSED:
            return _judge(state, pending)
        case CallStatus.JUDGED:
            return _after_judgement(state, pending)
        case CallStatus.APPROVED | CallStatus.AGAIN:
            attempt = pending.attempt + 1 if pending.status == CallStatus.AGAIN else 1
            return RunTool(call, gate=pending.gate, attempt=attempt)
        case CallStatus.REFUSED:
            return _refuse(pending, "rejected", prompts.fill("call_rejected", reason=pending.rejection))
        case _:
            return _recover(pending)


def _judge(state: RunState, pending: PendingCall) -> Effect:
    if pending.voided >= VOIDED_AT_MOST:
        return _refuse(pending, "void", prompts.fill("call_kept_changing"))
    why, message = objection(state, pending.call)
    if why:
        return _refuse(pending, why, message)
    if reason := guard.refusal(state, pending):
        return _refuse(pending, "circle", reason)
    return JudgeCall(pending.call)


def _recover(pending: PendingCall) -> Effect:
    """Begun, and no outcome is known. People who let it run again and again, while it keeps changing, end it too."""
    if pending.voided >= VOIDED_AT_MOST:
        return _refuse(pending, "in_doubt", prompts.fill("call_in_doubt"))
    return RecoverTool(pending.call, attempt=pending.attempt)


def _surplus(state: RunState, pending: PendingCall) -> str:
    if state.fatal:
        return prompts.fill("run_is_ending")
    position = state.calls.index(pending)
    for earlier in state.calls[:position]:
        if earlier.call.name in TURN_ENDING_TOOLS and earlier.ok:
            return prompts.fill("answer_ended", tool=earlier.call.name)
    if position >= state.limits.calls_per_reply:
        return prompts.fill("too_many_calls", most=state.limits.calls_per_reply)
    return ""


def _refuse(pending: PendingCall, why: str, message: str) -> Record:
    return Record((ToolRefused(call_id=pending.call.id, tool=pending.call.name, why=why, message=message),))


def _after_judgement(state: RunState, pending: PendingCall) -> Effect:
    call = pending.call
    if pending.invalid:
        return _refuse(pending, "invalid", "\n".join(pending.reasons) or prompts.fill("call_invalid"))
    if pending.access is Access.DENY:
        return after_denial(state, pending)
    if call.name == "task_completion":
        return Record((ResultProposed(result=_text(call.arguments.get("result")), call_id=call.id),))
    if call.name == "converse":
        shown = ToolResult(
            ok=True,
            content=prompts.fill("shown_to_operator"),
            data={"message": _text(call.arguments.get("message"))},
        )
        return Record((ToolCompleted(call_id=call.id, tool=call.name, result=shown),))
    if call.name == "ask_question":
        question = _text(call.arguments.get("question"))
        return OpenGate(
            kind="question",
            title=question,
            call=call,
            reasons=("the agent asked",),
            recommended="respond",
            subject={"question": question},
            view={"question": question, "choices": call.arguments.get("choices") or []},
        )
    if pending.access is Access.ASK:
        kind = pending.gate_kind or "tool_approval"
        again = (f"asked again: {pending.void_reason}",) if pending.void_reason else ()
        return OpenGate(kind=kind, title="", call=call, reasons=(*again, *pending.reasons), risk=pending.risk)
    return RunTool(call, attempt=1)


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _complete_step(state: RunState) -> tuple[Fact, ...]:
    failed = next((call for call in state.calls if not call.ok), None)
    error = failed.error if failed else ""
    repeats = failed is not None and not guard.was_cut_off(failed)
    progress = measure(state)
    marks = guard.marks(state)
    done = StepCompleted(
        step=state.step,
        success=failed is None,
        error=shortened(error, 2000),
        error_signature=marks.error or (error_signature(failed.call.name, error) if failed and repeats else ""),
        progress=progress.score,
        progress_method=progress.method,
        progress_detail=progress.detail,
        action=marks.action,
        outcome=marks.outcome,
        changed=marks.changed,
    )
    return (*step_failures.classified(state), done, *no_tool_call.facts_of(state))
