"""ReAct: think, act, observe, until a result is proposed or a guard says stop (SPEC B2).

Planning is one node and needs no model. One step is one answer of the model with all the calls in it; calls run in
their order. A loop-breaking tool ends the answer: what comes after it is not run (SPEC C3, C4).
"""

from __future__ import annotations

from importlib.resources.abc import Traversable

from loops.engine import before_request, circling, limits, texts
from loops.engine.detection.fingerprints import error_signature
from loops.engine.effects import CallModel, Effect, JudgeCall, OpenGate, Record, RecoverTool, RunTool
from loops.engine.facts import (
    Fact,
    PhaseEntered,
    ResultProposed,
    StepCompleted,
    ToolCompleted,
    ToolRefused,
)
from loops.engine.lifecycle import Event, Phase, transition
from loops.engine.loops import register
from loops.engine.progress import measure
from loops.engine.recovery import classifying, second_opinion, silence
from loops.engine.recovery.denial import after_denial
from loops.engine.recovery.objections import BREAKERS, objection, reflection
from loops.engine.state import PendingCall, RunState
from loops.engine.values import Access, ToolResult

VOIDED_AT_MOST = 3


@register
class React:
    name = "react"
    prompts: Traversable | None = None

    def plan(self, state: RunState) -> Effect:
        """One node: pass through to ACT with every transition on record."""
        path = (
            (Phase.PLAN, Event.PLAN_READY),
            (Phase.DECOMPOSE, Event.DECOMPOSED),
            (Phase.RETRIEVE, Event.EVIDENCE_READY),
        )
        todo = path[[phase for phase, _ in path].index(state.phase) :]
        return Record(tuple(entered(phase, event) for phase, event in todo))

    def act(self, state: RunState) -> Effect:
        if given := reflection(state):
            return Record((given,))
        for pending in state.calls:
            if pending.status != "done":
                return _next_for(state, pending)
        if state.answered:
            return second_opinion.due(state) or Record(_complete_step(state))
        if state.result is not None:
            event = Event.REPAIR_SUCCESS if state.phase is Phase.REPAIR else Event.OUTPUTS_READY
            return Record((entered(state.phase, event),))
        return before_request.next_effect(state) or ask(state)


def ask(state: RunState) -> Effect:
    """The model, once nothing else stands before it."""
    return CallModel(
        role=circling.actor(state), max_tokens=limits.answer_tokens(state), attempt=state.model_attempt + 1
    )


def entered(phase: Phase, event: Event) -> PhaseEntered:
    """The fact of leaving ``phase`` by ``event``."""
    return PhaseEntered(phase=transition(phase, event), event=event, came_from=phase)


def _next_for(state: RunState, pending: PendingCall) -> Effect:
    """The next effect for the first call of the answer that has no outcome yet."""
    call = pending.call
    if reason := _surplus(state, pending):
        return _refuse(pending, "surplus", reason)
    if call.error:
        return _refuse(pending, "malformed", texts.fill("call_unreadable", error=call.error))
    match pending.status:
        case "proposed":
            return _judge(state, pending)
        case "judged":
            return _after_judgement(state, pending)
        case "approved" | "again":
            attempt = pending.attempt + 1 if pending.status == "again" else 1
            return RunTool(call, gate=pending.gate, attempt=attempt)
        case "refused":
            return _refuse(pending, "rejected", texts.fill("call_rejected", reason=pending.rejection))
        case _:
            return _recover(pending)


def _judge(state: RunState, pending: PendingCall) -> Effect:
    if pending.voided >= VOIDED_AT_MOST:
        return _refuse(pending, "void", texts.fill("call_kept_changing"))
    why, message = objection(state, pending.call)
    if why:
        return _refuse(pending, why, message)
    if reason := circling.refusal(state, pending):
        return _refuse(pending, "circle", reason)
    return JudgeCall(pending.call)


def _recover(pending: PendingCall) -> Effect:
    """Begun, and no outcome is known. People who let it run again and again, while it keeps changing, end it too."""
    if pending.voided >= VOIDED_AT_MOST:
        return _refuse(pending, "in_doubt", texts.fill("call_in_doubt"))
    return RecoverTool(pending.call, attempt=pending.attempt)


def _surplus(state: RunState, pending: PendingCall) -> str:
    if state.fatal:
        return texts.fill("run_is_ending")
    position = state.calls.index(pending)
    for earlier in state.calls[:position]:
        if earlier.call.name in BREAKERS and earlier.ok:
            return texts.fill("answer_ended", tool=earlier.call.name)
    if position >= state.limits.calls_per_reply:
        return texts.fill("too_many_calls", most=state.limits.calls_per_reply)
    return ""


def _refuse(pending: PendingCall, why: str, message: str) -> Record:
    return Record((ToolRefused(call_id=pending.call.id, tool=pending.call.name, why=why, message=message),))


def _after_judgement(state: RunState, pending: PendingCall) -> Effect:
    call = pending.call
    if pending.invalid:
        return _refuse(pending, "invalid", "\n".join(pending.reasons) or texts.fill("call_invalid"))
    if pending.access is Access.DENY:
        return after_denial(state, pending)
    if call.name == "task_completion":
        return Record((ResultProposed(result=_text(call.arguments.get("result")), call_id=call.id),))
    if call.name == "converse":
        shown = ToolResult(
            ok=True, content=texts.fill("shown_to_operator"), data={"message": _text(call.arguments.get("message"))}
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
    repeats = failed is not None and not circling.was_cut_off(failed)
    progress = measure(state)
    marks = circling.marks(state)
    done = StepCompleted(
        step=state.step,
        success=failed is None,
        error=error[:2000],
        error_signature=marks.error or (error_signature(failed.call.name, error) if failed and repeats else ""),
        progress=progress.score,
        progress_method=progress.method,
        progress_detail=progress.detail,
        action=marks.action,
        outcome=marks.outcome,
        changed=marks.changed,
    )
    return (*classifying.classified(state), done, *silence.facts_of(state))
