"""The conversation as a value, and the few ways to change it.

After an answer with tool calls the next user message begins with the result of every call, in order, and only then
carries anything else: providers refuse a conversation in which a call and its result are torn apart. Users and models
take turns, the user first, so every message with an odd number is the model's.

``digest`` is a running hash over everything added, so that identifying a request costs the same at step 1,000 as at
step 1 (SPEC J7).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from loops.engine.context_window.messages import Messages, Turn, Turns, message_of, size_of
from loops.engine.encoding.replace import evolve
from loops.engine.prompts import FIRST, Wording
from loops.engine.values import Block, ModelRequest, ModelRole, ToolSpec

NOTE_CHARS = 160
"""Of one line about one call."""


@dataclass(frozen=True)
class Transcript:
    system: str = ""
    turns: Turns = field(default_factory=Turns)
    answers: int = 0
    call_ids: tuple[tuple[str, str], ...] = ()
    """(our id, the provider's id) of the calls of the latest answer."""
    asked: tuple[str, ...] = ()
    """The same calls, each in one line."""
    results: tuple[tuple[str, Block], ...] = ()
    notes: tuple[str, ...] = ()
    """A line about each of these results."""
    extra: tuple[str, ...] = ()
    """Texts that wait for the results of the open calls."""
    people: tuple[str, ...] = ()
    """What people said in these results and texts."""
    dropped: int = 0
    """Messages that were left out so far."""
    wording: Wording = FIRST
    """Of what the fold says by itself."""
    digest: str = ""

    @property
    def messages(self) -> Messages:
        return Messages(self.turns)

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


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def one_line(text: str, longest: int = NOTE_CHARS) -> str:
    line = " ".join(text[: 4 * longest].split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def heard(transcript: Transcript, blocks: Sequence[Block], **known: Any) -> Transcript:
    """Append to the user message at the end, or begin one. ``known``: people, notes, calls (see ``Turn``)."""
    turns = transcript.turns
    if turns and turns[-1].message["role"] == "user":
        last = turns[-1]
        known = {name: (*getattr(last, name), *values) for name, values in known.items()}
        return evolve(transcript, turns=turns.with_last(_turn("user", (*last.blocks, *blocks), last, **known)))
    return evolve(transcript, turns=turns.added(_turn("user", blocks, None, **known)))


def spoken(transcript: Transcript, blocks: Sequence[Block], notes: tuple[str, ...]) -> Transcript:
    """Append an answer; what follows an answer at the end is the rest of it: the provider paused its own turn."""
    turns = transcript.turns
    if turns and turns[-1].message["role"] == "assistant":
        last = turns[-1]
        made = _turn("assistant", (*last.blocks, *blocks), last, notes=(*last.notes, *notes))
        return evolve(transcript, turns=turns.with_last(made))
    return evolve(transcript, turns=turns.added(_turn("assistant", blocks, None, notes=notes)))


def say(transcript: Transcript, text: str, *, person: bool = False) -> Transcript:
    """Tell the model ``text``, after the results of calls that are still open. What a ``person`` said is never lost."""
    people = (text,) if person else ()
    if transcript.open_calls():
        return evolve(transcript, extra=(*transcript.extra, text), people=(*transcript.people, *people))
    return heard(transcript, (text_block(text),), people=people)


def outcome(transcript: Transcript, call_id: str, content: str, is_error: bool, *, person: bool = False) -> Transcript:
    """The result of one open call. When it is the last one, the model is told of them all."""
    position = next((at for at, (ours, _) in enumerate(transcript.call_ids) if ours == call_id), None)
    if position is None:
        return transcript
    block = {
        "type": "tool_result",
        "tool_use_id": transcript.call_ids[position][1],
        "content": content or transcript.wording.fill("no_output"),
    }
    if is_error:
        block["is_error"] = True  # type: ignore[assignment]
    asked = transcript.asked[position]
    people = (transcript.wording.fill("of_your_call", call=asked, words=content),) if person else ()
    transcript = evolve(
        transcript,
        results=(*transcript.results, (call_id, block)),
        notes=(*transcript.notes, one_line(f"{call_id} {asked}: {_summed_up(content, is_error)}")),
        people=(*transcript.people, *people),
    )
    return transcript if transcript.open_calls() else _close(transcript)


def _close(transcript: Transcript) -> Transcript:
    by_id = dict(transcript.results)
    calls = tuple(ours for ours, _ in transcript.call_ids)
    blocks = (*(by_id[ours] for ours in calls), *(text_block(text) for text in transcript.extra))
    known = {"people": transcript.people, "notes": transcript.notes, "calls": calls}
    empty = evolve(transcript, call_ids=(), asked=(), results=(), notes=(), extra=(), people=())
    return heard(empty, blocks, **known)


def leave_out(transcript: Transcript, first: int, last: int, text: str, *, instead: bool = False) -> Transcript:
    """Without the messages ``first`` (a model's) to ``last`` (a user's): ``text`` stands for them, at the end of the
    message before, and after it what people said in them. With ``instead`` it takes the place of the summary that this
    message holds already."""
    turns = transcript.turns
    gone, before = turns[first : last + 1], turns[first - 1]
    people = tuple(words for turn in gone for words in turn.people)
    blocks = list(before.blocks)
    place = before.summary_at
    if instead and place >= 0:
        blocks[place] = text_block(text)
    else:
        place = len(blocks) if instead else place
        blocks.append(text_block(text))
    known = {"people": (*before.people, *people), "summary_at": place}
    known["notes"] = (*before.notes, *(note for turn in gone for note in turn.notes))
    if not instead:
        known["notes"] = (*before.notes, one_line(text))
    made = _turn("user", [*blocks, *map(text_block, people)], before, **known)
    left = Turns((*turns[: first - 1], made, *turns[last + 1 :]))
    return evolve(transcript, turns=left, dropped=transcript.dropped + len(gone))


def with_blocks(turn: Turn, blocks: Sequence[Block]) -> Turn:
    """The same turn with other words."""
    return _turn(str(turn.message["role"]), blocks, turn)


def _turn(role: str, blocks: Sequence[Block], like: Turn | None, **known: Any) -> Turn:
    message = message_of(role, blocks)
    size = size_of(message)
    return replace(like, message=message, size=size, **known) if like else Turn(message, size, **known)


def _summed_up(content: str, is_error: bool) -> str:
    if is_error:
        return f"failed: {content}"
    return content if len(content) <= NOTE_CHARS // 2 else f"ok, {len(content):,} characters"
