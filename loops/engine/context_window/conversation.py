"""What each kind of fact adds to the conversation; most facts leave it as it is (SPEC U1)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from loops.engine import facts as f
from loops.engine.context_window.backtracking import backtracked, forced
from loops.engine.context_window.pruning import pruned
from loops.engine.context_window.transcript import (
    Transcript,
    heard,
    one_line,
    outcome,
    say,
    spoken,
    text_block,
)
from loops.engine.encoding.canonical import encode
from loops.engine.encoding.replace import evolve
from loops.engine.facts.encoding import fact_bytes
from loops.engine.prompts import Wording, of_journal
from loops.engine.reducers import answer_call_id
from loops.engine.state.spec import Criterion
from loops.engine.values import ToolCall, ToolResult, Verdict


def extend(transcript: Transcript, fact: f.Fact) -> Transcript:
    """The conversation after ``fact``; most facts leave it as it is."""
    handler = _HANDLERS.get(type(fact))
    if handler is None:
        return transcript
    grown: Transcript = handler(transcript, fact)
    return evolve(grown, digest=hashlib.sha256(transcript.digest.encode() + fact_bytes(fact)).hexdigest())


def _started(transcript: Transcript, fact: f.RunStarted) -> Transcript:
    begun = evolve(transcript, system=fact.system, wording=of_journal(fact.wording))
    return heard(begun, (text_block(_opening(fact, begun.wording)),))


def _opening(fact: f.RunStarted, wording: Wording) -> str:
    """The first message: the task as the operator gave it, and where the work is."""
    spec = fact.spec
    parts = [wording.fill("goal", goal=spec.goal)]
    if spec.criteria:
        parts.append(wording.fill("criteria", criteria="\n".join(_line_of(one, wording) for one in spec.criteria)))
    if spec.constraints:
        parts.append(wording.fill("constraints", constraints=spec.constraints))
    if spec.output_schema is not None:
        parts.append(wording.fill("result_schema", schema=encode(spec.output_schema).decode()))
    if fact.surroundings:
        parts.append(fact.surroundings)
    return "\n\n".join(parts)


def _line_of(criterion: Criterion, wording: Wording) -> str:
    how = f"  {wording.fill('criterion_checked', command=criterion.command)}" if criterion.command else ""
    return f"- {criterion.text}{how}"


def _answered(transcript: Transcript, fact: f.ModelAnswered) -> Transcript:
    answers = transcript.answers + 1
    blocks = list(fact.blocks) or [text_block(fact.text or transcript.wording.fill("no_answer"))]
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
    return outcome(transcript, fact.call_id, transcript.wording.fill("handed_in"), False)


def _decided(transcript: Transcript, fact: f.GateDecided) -> Transcript:
    wording = transcript.wording
    match fact.kind:
        case "question":
            return _question_decided(transcript, fact)
        case "in_doubt":
            return _doubt_decided(transcript, fact)
        case _ if not fact.call_id and fact.kind != "final_review":
            answer = fact.payload.get("answer") or fact.reason
            if not answer or fact.verdict == Verdict.REJECT:
                return transcript
            return say(transcript, wording.fill("person_says", words=str(answer)), person=True)
        case _:
            if fact.verdict == Verdict.APPROVE_WITH_EDITS and fact.call_id:
                return say(transcript, wording.fill("call_edited"), person=True)
            return transcript


def _question_decided(transcript: Transcript, fact: f.GateDecided) -> Transcript:
    wording = transcript.wording
    if fact.continues:
        answer = wording.fill("answered", answer=str(fact.payload.get("answer")))
        return outcome(transcript, fact.call_id, answer, False, person=True)
    none = wording.fill("not_answered", why=fact.reason) if fact.reason else wording.fill("not_answered_in_time")
    return outcome(transcript, fact.call_id, none, True)


def _doubt_decided(transcript: Transcript, fact: f.GateDecided) -> Transcript:
    wording, said = transcript.wording, fact.payload.get("outcome")
    if said == "done":
        result = fact.payload.get("result")
        told = wording.fill("call_done_with", result=str(result)) if result else wording.fill("call_done")
        return outcome(transcript, fact.call_id, told, False, person=True)
    if fact.verdict == Verdict.APPROVE:  # the result is that of the next attempt
        return transcript
    told = wording.fill("call_not_done") if said == "not_done" else wording.fill("call_in_doubt")
    return outcome(transcript, fact.call_id, told, True, person=True)


def _reminded(transcript: Transcript, fact: f.Reminded) -> Transcript:
    return say(transcript, fact.text)


def _message(transcript: Transcript, fact: f.MessageReceived) -> Transcript:
    return _from_person(transcript, fact.by, fact.text)


def _forked(transcript: Transcript, fact: f.Forked) -> Transcript:
    if not fact.message:
        return transcript
    return _from_person(transcript, fact.by, fact.message)


def _from_person(transcript: Transcript, name: str, words: str) -> Transcript:
    wording = transcript.wording
    text = wording.fill("message", name=name, words=words) if name else wording.fill("message_unsigned", words=words)
    return say(transcript, text, person=True)


def _prompt_shortened(transcript: Transcript, fact: f.PromptShortened) -> Transcript:
    return evolve(transcript, system=fact.system)


def _tried(transcript: Transcript, fact: f.CriteriaTried) -> Transcript:
    return say(transcript, fact.summary) if fact.summary else transcript


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
    f.CriteriaTried: _tried,
    f.DiagnosisMade: _diagnosed,
    f.ContextPruned: pruned,
    f.PromptShortened: _prompt_shortened,
    f.Backtracked: backtracked,
    f.ReflectionForced: forced,
}
HEARD = frozenset(kind.__name__ for kind in _HANDLERS)
"""Kinds of facts that say something about the conversation."""
