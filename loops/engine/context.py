"""The conversation as the model sees it: a fold of the same facts, kept apart from the state (SPEC U1).

``Transcript.messages`` grows by appending; the state stays small. After an answer with tool calls the next user
message begins with the result of every call, in order, and only then carries anything else: providers refuse a
conversation in which a call and its result are torn apart.

``digest`` is a running hash over everything added, so that identifying a request costs the same at step 1,000 as at
step 1 (SPEC J7).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from loops.engine import facts as f
from loops.engine.canonical import encode
from loops.engine.evolving import evolve
from loops.engine.fold import answer_call_id
from loops.engine.fold.deciding import CONTINUE_VERDICTS
from loops.engine.recorded import fact_bytes
from loops.engine.spec import RunSpec
from loops.engine.values import Block, Message, ModelRequest, ModelRole, ToolResult, ToolSpec

DONE = "The call was interrupted; a person confirmed that it took effect."
NOT_DONE = "The call was interrupted and did not take effect. Propose it again if it is still needed."
UNKNOWN = "The call was interrupted and nobody could say whether it took effect. Find out before you propose it again."
EDITED = "A person changed the arguments of the call before approving it; the result is that of the changed call."


@dataclass(frozen=True)
class Transcript:
    system: str = ""
    messages: tuple[Message, ...] = ()
    answers: int = 0
    call_ids: tuple[tuple[str, str], ...] = ()
    """(our id, the provider's id) of the calls of the latest answer."""
    results: tuple[tuple[str, Block], ...] = ()
    extra: tuple[str, ...] = ()
    """Texts that wait for the results of the open calls."""
    digest: str = ""

    def open_calls(self) -> tuple[str, ...]:
        have = {ours for ours, _ in self.results}
        return tuple(ours for ours, _ in self.call_ids if ours not in have)

    def request(
        self, *, role: ModelRole, model: str, tools: tuple[ToolSpec, ...], max_tokens: int, thinking: str = "off"
    ) -> ModelRequest:
        """The next request to a model."""
        return ModelRequest(
            role=role,
            model=model,
            system=self.system,
            messages=self.messages,
            tools=tools,
            max_tokens=max_tokens,
            thinking=thinking,
        )

    def request_sha256(self, role: ModelRole, model: str, tools_sha256: str, max_tokens: int) -> str:
        """Identifies the whole request without hashing the whole history again."""
        return hashlib.sha256(f"{self.digest}|{role}|{model}|{tools_sha256}|{max_tokens}".encode()).hexdigest()


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


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _user(transcript: Transcript, blocks: tuple[Block, ...]) -> Transcript:
    """Append to the user message at the end, or begin one."""
    messages = transcript.messages
    if messages and messages[-1]["role"] == "user":
        content = (*_content(messages[-1]), *blocks)
        return evolve(transcript, messages=(*messages[:-1], {"role": "user", "content": list(content)}))
    return evolve(transcript, messages=(*messages, {"role": "user", "content": list(blocks)}))


def _content(message: Message) -> tuple[Block, ...]:
    content = message["content"]
    return tuple(content) if isinstance(content, list) else ()


def _say(transcript: Transcript, text: str) -> Transcript:
    """Tell the model ``text``, after the results of calls that are still open."""
    if transcript.open_calls():
        return evolve(transcript, extra=(*transcript.extra, text))
    return _user(transcript, (_text_block(text),))


def _result(transcript: Transcript, call_id: str, content: str, is_error: bool) -> Transcript:
    ids = dict(transcript.call_ids)
    if call_id not in ids:
        return transcript
    block = {"type": "tool_result", "tool_use_id": ids[call_id], "content": content or "(no output)"}
    if is_error:
        block["is_error"] = True  # type: ignore[assignment]
    transcript = evolve(transcript, results=(*transcript.results, (call_id, block)))
    if transcript.open_calls():
        return transcript
    by_id = dict(transcript.results)
    blocks = tuple(by_id[ours] for ours, _ in transcript.call_ids)
    texts = tuple(_text_block(text) for text in transcript.extra)
    return _user(evolve(transcript, call_ids=(), results=(), extra=()), (*blocks, *texts))


def _started(transcript: Transcript, fact: f.RunStarted) -> Transcript:
    return _user(evolve(transcript, system=fact.system), (_text_block(opening(fact.spec)),))


def _answered(transcript: Transcript, fact: f.ModelAnswered) -> Transcript:
    answers = transcript.answers + 1
    blocks = list(fact.blocks) or [_text_block(fact.text or "(no answer)")]
    ids = tuple((answer_call_id(answers, position), call.id) for position, call in enumerate(fact.calls))
    messages = transcript.messages
    if messages and messages[-1]["role"] == "assistant":  # the provider paused its own turn: this is the rest of it
        blocks = [*_content(messages[-1]), *blocks]
        messages = messages[:-1]
    messages = (*messages, {"role": "assistant", "content": blocks})
    return evolve(transcript, messages=messages, answers=answers, call_ids=ids, results=(), extra=())


def tool_content(result: ToolResult) -> str:
    """What the model reads of an outcome."""
    if result.ok:
        return result.content
    return f"{result.error}\n{result.content}".strip() if result.content else result.error


def _completed(transcript: Transcript, fact: f.ToolCompleted) -> Transcript:
    return _result(transcript, fact.call_id, tool_content(fact.result), not fact.result.ok)


def _refused(transcript: Transcript, fact: f.ToolRefused) -> Transcript:
    return _result(transcript, fact.call_id, fact.message, True)


def _proposed(transcript: Transcript, fact: f.ResultProposed) -> Transcript:
    if not fact.call_id:
        return transcript
    return _result(transcript, fact.call_id, "The result was handed in for verification.", False)


def _decided(transcript: Transcript, fact: f.GateDecided) -> Transcript:
    match fact.kind:
        case "question":
            answer = fact.payload.get("answer")
            if fact.verdict in CONTINUE_VERDICTS:
                return _result(transcript, fact.call_id, f"The person answered: {answer}", False)
            why = fact.reason or "nobody answered in time"
            return _result(transcript, fact.call_id, f"No answer: {why}. Go on with your best judgement.", True)
        case "in_doubt":
            if fact.payload.get("outcome") == "done":
                result = fact.payload.get("result")
                told = f"{DONE} Its result, as that person gives it:\n{result}" if result else DONE
                return _result(transcript, fact.call_id, told, False)
            if fact.verdict == "approve":  # the result is that of the next attempt
                return transcript
            told = NOT_DONE if fact.payload.get("outcome") == "not_done" else UNKNOWN
            return _result(transcript, fact.call_id, told, True)
        case _ if not fact.call_id and fact.kind != "final_review":
            answer = fact.payload.get("answer") or fact.reason
            return _say(transcript, f"A person says: {answer}") if answer and fact.verdict != "reject" else transcript
        case _:
            if fact.verdict == "approve_with_edits" and fact.call_id:
                return _say(transcript, EDITED)
            return transcript


def _reminded(transcript: Transcript, fact: f.Reminded) -> Transcript:
    return _say(transcript, fact.text)


def _message(transcript: Transcript, fact: f.MessageReceived) -> Transcript:
    return _say(transcript, f"Message from {fact.by or 'the operator'}:\n{fact.text}")


def _forked(transcript: Transcript, fact: f.Forked) -> Transcript:
    if not fact.message:
        return transcript
    return _say(transcript, f"Message from {fact.by or 'the operator'}:\n{fact.message}")


def _diagnosed(transcript: Transcript, fact: f.DiagnosisMade) -> Transcript:
    return _say(transcript, fact.feedback)


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
}
