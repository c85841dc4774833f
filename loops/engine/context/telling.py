"""What each kind of fact adds to the conversation; most facts leave it as it is (SPEC U1)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from loops.engine import facts as f
from loops.engine.canonical import encode
from loops.engine.context.backtracking import backtracked, forced
from loops.engine.context.pruning import pruned
from loops.engine.context.transcript import Transcript, heard, one_line, outcome, say, spoken, text_block
from loops.engine.evolving import evolve
from loops.engine.fold import answer_call_id
from loops.engine.fold.deciding import CONTINUE_VERDICTS
from loops.engine.recorded import fact_bytes
from loops.engine.spec import RunSpec
from loops.engine.values import ToolCall, ToolResult

DONE = "The call was interrupted; a person confirmed that it took effect."
NOT_DONE = "The call was interrupted and did not take effect. Propose it again if it is still needed."
UNKNOWN = "The call was interrupted and nobody could say whether it took effect. Find out before you propose it again."
EDITED = "A person changed the arguments of the call before approving it; the result is that of the changed call."


def extend(transcript: Transcript, fact: f.Fact) -> Transcript:
    """The conversation after ``fact``; most facts leave it as it is."""
    handler = _HANDLERS.get(type(fact))
    if handler is None:
        return transcript
    grown: Transcript = handler(transcript, fact)
    return evolve(grown, digest=hashlib.sha256(transcript.digest.encode() + fact_bytes(fact)).hexdigest())


def opening(spec: RunSpec) -> str:
    """The first message: the task as the operator gave it."""
    parts = [f"# Goal\n{spec.goal}"]
    if spec.criteria:
        lines = [f"- {c.text}" + (f"  (checked by: `{c.command}`)" if c.command else "") for c in spec.criteria]
        parts.append("# Acceptance criteria\n" + "\n".join(lines))
    if spec.constraints:
        parts.append(f"# Constraints\n{spec.constraints}")
    if spec.output_schema is not None:
        parts.append(
            "# Result\nThe result must be JSON that satisfies this schema:\n" + encode(spec.output_schema).decode()
        )
    return "\n\n".join(parts)


def _started(transcript: Transcript, fact: f.RunStarted) -> Transcript:
    return heard(evolve(transcript, system=fact.system), (text_block(opening(fact.spec)),))


def _answered(transcript: Transcript, fact: f.ModelAnswered) -> Transcript:
    answers = transcript.answers + 1
    blocks = list(fact.blocks) or [text_block(fact.text or "(no answer)")]
    ids = tuple((answer_call_id(answers, position), call.id) for position, call in enumerate(fact.calls))
    said = () if ids or not fact.text else (one_line(f"said: {fact.text}"),)
    asked = tuple(_in_one_line(call) for call in fact.calls)
    fresh = evolve(transcript, answers=answers, call_ids=ids, asked=asked, results=(), notes=(), extra=(), people=())
    return spoken(fresh, blocks, said)


def _in_one_line(call: ToolCall) -> str:
    shown = (f"{name}={one_line(str(value), 60)}" for name, value in call.arguments.items())
    return one_line(f"{call.name}({', '.join(shown)})", 120)


def tool_content(result: ToolResult) -> str:
    """What the model reads of an outcome."""
    if result.ok:
        return result.content
    return f"{result.error}\n{result.content}".strip() if result.content else result.error


def _completed(transcript: Transcript, fact: f.ToolCompleted) -> Transcript:
    return outcome(transcript, fact.call_id, tool_content(fact.result), not fact.result.ok)


def _refused(transcript: Transcript, fact: f.ToolRefused) -> Transcript:
    return outcome(transcript, fact.call_id, fact.message, True, person=fact.why == "rejected")


def _proposed(transcript: Transcript, fact: f.ResultProposed) -> Transcript:
    if not fact.call_id:
        return transcript
    return outcome(transcript, fact.call_id, "The result was handed in for verification.", False)


def _decided(transcript: Transcript, fact: f.GateDecided) -> Transcript:
    match fact.kind:
        case "question":
            answer = fact.payload.get("answer")
            if fact.verdict in CONTINUE_VERDICTS:
                return outcome(transcript, fact.call_id, f"The person answered: {answer}", False, person=True)
            why = fact.reason or "nobody answered in time"
            return outcome(transcript, fact.call_id, f"No answer: {why}. Go on with your best judgement.", True)
        case "in_doubt":
            if fact.payload.get("outcome") == "done":
                result = fact.payload.get("result")
                told = f"{DONE} Its result, as that person gives it:\n{result}" if result else DONE
                return outcome(transcript, fact.call_id, told, False, person=True)
            if fact.verdict == "approve":  # the result is that of the next attempt
                return transcript
            told = NOT_DONE if fact.payload.get("outcome") == "not_done" else UNKNOWN
            return outcome(transcript, fact.call_id, told, True, person=True)
        case _ if not fact.call_id and fact.kind != "final_review":
            answer = fact.payload.get("answer") or fact.reason
            return (
                say(transcript, f"A person says: {answer}", person=True)
                if answer and fact.verdict != "reject"
                else transcript
            )
        case _:
            if fact.verdict == "approve_with_edits" and fact.call_id:
                return say(transcript, EDITED, person=True)
            return transcript


def _reminded(transcript: Transcript, fact: f.Reminded) -> Transcript:
    return say(transcript, fact.text)


def _message(transcript: Transcript, fact: f.MessageReceived) -> Transcript:
    return say(transcript, f"Message from {fact.by or 'the operator'}:\n{fact.text}", person=True)


def _forked(transcript: Transcript, fact: f.Forked) -> Transcript:
    if not fact.message:
        return transcript
    return say(transcript, f"Message from {fact.by or 'the operator'}:\n{fact.message}", person=True)


def _diagnosed(transcript: Transcript, fact: f.DiagnosisMade) -> Transcript:
    return say(transcript, fact.feedback)


_HANDLERS: dict[type[f.Fact], Callable[[Transcript, Any], Transcript]] = {
    f.RunStarted: _started,
    f.Forked: _forked,
    f.ModelAnswered: _answered,
    f.ToolCompleted: _completed,
    f.ToolRefused: _refused,
    f.ResultProposed: _proposed,
    f.GateDecided: _decided,
    f.Reminded: _reminded,
    f.MessageReceived: _message,
    f.DiagnosisMade: _diagnosed,
    f.ContextPruned: pruned,
    f.Backtracked: backtracked,
    f.ReflectionForced: forced,
}
HEARD = frozenset(kind.__name__ for kind in _HANDLERS)
"""Kinds of facts that say something about the conversation."""
