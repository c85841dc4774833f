"""What people asked for, as facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine import prompts
from loops.engine.people.stop_phrases import LONGEST, wants_to_stop
from loops.engine.rollback import plan
from loops.engine.state.lifecycle import Phase
from loops.engine.state.run import RunState
from loops.engine.values import Verdict

ROLLED_BACK = f.Reminded(reason="rolled_back", text=prompts.fill("rolled_back"))


def facts_of(mail: p.Signal, state: RunState) -> Sequence[f.Fact]:
    """What a mailbox item means in this state; an item that comes too late means nothing and is simply read."""
    match mail.kind:
        case "stop":
            return () if state.is_ended else _stop(mail)
        case "pause":
            return () if state.is_ended or state.paused else (_paused(mail),)
        case "resume":
            resumable = state.can_be_reentered if state.is_ended else state.paused
            return _resumed(mail.by, state) if resumable else ()
        case "message":
            late = state.is_ended and state.phase is not Phase.HALT
            return () if late else _message(mail, state)
        case "decision":
            return _decided(mail, state)
        case "check_confidence":
            return () if state.is_ended or state.confidence.asked else (f.ConfidenceAsked(by=mail.by),)
        case "detected":
            return () if state.is_ended else _detected(mail, state)
        case "rollback":
            return (f.RollbackRequested(by=mail.by),) if plan.can_be_rolled_back(state) else ()
        case _:
            return ()


def _decided(mail: p.Signal, state: RunState) -> tuple[f.Fact, ...]:
    """To continue instead of rolling back also resumes the run."""
    body = mail.payload
    gate, payload = str(body.get("gate", "")), body.get("payload")
    if state.gate is None or state.gate.id != gate:
        return ()
    decided = f.GateDecided(
        gate=gate,
        kind=state.gate.kind,
        verdict=str(body.get("verdict", "")),
        reason=str(body.get("reason", "")),
        payload=dict(payload) if isinstance(payload, Mapping) else {},
        call_id=state.gate.call_id,
        by=str(body.get("by") or mail.by),
    )
    goes_on = decided.kind == plan.GATE and decided.verdict == Verdict.CONTINUE
    return (decided, *_resumed(decided.by, state)) if goes_on else (decided,)


def _paused(mail: p.Signal) -> f.RunPaused:
    """The monitor pauses as well, and says why."""
    return f.RunPaused(by=str(mail.payload.get("by") or mail.by), reason=str(mail.payload.get("reason", "")))


def _detected(mail: p.Signal, state: RunState) -> tuple[f.Fact, ...]:
    """A finding of the monitor. A circle that the run has found by itself meanwhile, or left, is no news."""
    body = mail.payload
    listed = body.get("steps")
    steps = tuple(step for step in listed if isinstance(step, int)) if isinstance(listed, list) else ()
    method, evidence, by = (str(body.get(name, "")) for name in ("method", "evidence", "by"))
    if body.get("kind") != "loop":
        return (f.StallDetected(method=method, evidence=evidence, steps=steps, by=by),)
    if state.loop_found or max(steps, default=state.step) <= state.circle.broken_at:
        return ()
    confidence = body.get("confidence")
    sure = float(confidence) if isinstance(confidence, int | float) else 0.0
    return (f.LoopDetected(method=method, evidence=evidence, steps=steps, confidence=sure, by=by),)


def _stop(mail: p.Signal) -> tuple[f.Fact, ...]:
    """The button, or words that say nothing else: those stay part of the conversation (SPEC D1)."""
    words = str(mail.payload.get("text", ""))
    if not words:
        return (f.StopRequested(by=mail.by),)
    return (f.MessageReceived(text=words, by=mail.by), f.StopWished(by=mail.by, words=words[:LONGEST]))


def _message(mail: p.Signal, state: RunState) -> tuple[f.Fact, ...]:
    text = str(mail.payload.get("text", ""))
    if not state.is_ended and wants_to_stop(text):
        return _stop(mail)
    return (f.MessageReceived(text=text, by=mail.by),)


def _resumed(by: str, state: RunState) -> tuple[f.Fact, ...]:
    """The model hears what became of its work meanwhile."""
    return (f.RunResumed(by=by), ROLLED_BACK) if state.is_ended and state.undone else (f.RunResumed(by=by),)
