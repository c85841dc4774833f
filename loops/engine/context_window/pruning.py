"""Making a conversation shorter (SPEC U1): old results to their two ends first, then the oldest exchanges altogether.

An exchange is an answer with everything said until the next one, so calls and their results stay together. Never left
out: the first message with the goal, the criteria and the constraints; what people said; the latest exchanges. What was
planned is a fact, and ``pruned`` does what it says, so that every fold of the journal gives the same conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loops.engine import prompts
from loops.engine.context_window.messages import Turn, Turns, message_of, size_of
from loops.engine.context_window.transcript import Transcript, leave_out, text_block, with_blocks
from loops.engine.encoding.replace import evolve
from loops.engine.facts import ContextPruned
from loops.engine.prompts import Wording
from loops.engine.values import Block

LINES = 60
"""Of a summary: older actions are counted, not listed."""
SUMMARY_BYTES = 6000
SUMMARY_SHARE = 6
"""One in so many bytes of the conversation may be summary."""
NOTE_ROOM = 250
"""Characters by which a result may be longer than it is cut to, so that nothing is cut twice."""


@dataclass(frozen=True, slots=True)
class Level:
    """``exchanges`` at the end are kept, ``cut_to`` are the characters of a shortened result. ``all_results``: those of
    the kept exchanges are shortened too."""

    exchanges: int
    cut_to: int
    all_results: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """A result becomes its two ends, ``to`` characters together, and in ``wording`` what was left out between them."""

    to: int
    wording: Wording


LEVELS = (Level(4, 1200), Level(2, 600), Level(1, 300, all_results=True))


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, in the words of ``ContextPruned``. ``size``: bytes of the messages afterwards, at most."""

    cut_before: int = 0
    cut_to: int = 0
    shortened: int = 0
    dropped: int = 0
    summary: str = ""
    level: int = 0
    size: int = 0

    @property
    def method(self) -> str:
        return "dropped" if self.dropped else "shortened" if self.shortened else "none"


def plan(transcript: Transcript, most: int, *, enough: int = 0, level: int = 0) -> Plan:
    """How the messages come down to ``most`` bytes. A harder level is taken where an easier one would leave more than
    ``enough`` bytes (0: ``most``); the hardest may leave more: what must stay stays."""
    found = _at_level(transcript, most, level)
    while found.size > (enough or most) and level + 1 < len(LEVELS):
        level += 1
        found = _at_level(transcript, most, level)
    return found


def pruned(transcript: Transcript, fact: ContextPruned) -> Transcript:
    """The conversation after it was made shorter as ``fact`` says."""
    turns, _ = _shortened(transcript.turns, fact.cut_before, Cut(fact.cut_to, transcript.wording))
    transcript = evolve(transcript, turns=turns)
    if not fact.dropped_messages:
        return transcript
    return leave_out(transcript, 1, fact.dropped_messages, fact.summary, instead=True)


def with_summary(made: Plan, summary: str) -> Plan:
    return replace(made, summary=summary)


def kept_from(turns: Sequence[Turn], exchanges: int) -> int:
    """The first message of the latest ``exchanges``."""
    return max(1, 2 * (len(turns) // 2 - exchanges) + 1)


def _at_level(transcript: Transcript, most: int, number: int) -> Plan:
    level, turns = LEVELS[min(number, len(LEVELS) - 1)], transcript.turns
    kept = kept_from(turns, level.exchanges)
    cut = Cut(level.cut_to, transcript.wording)
    cut_before = _cut_before(turns, len(turns) if level.all_results else kept, cut, most)
    shorter, shortened = _shortened(turns, cut_before, cut)
    made = Plan(cut_before, level.cut_to, shortened, level=number, size=shorter.size)
    if shorter.size <= most or kept == 1:
        return made if shortened else Plan(level=number, size=turns.size)
    dropped, size = _oldest(shorter, kept, most)
    text = summary_of(evolve(transcript, turns=shorter), dropped, most)
    size += size_of(message_of("user", [text_block(text)]))
    if size >= shorter.size:  # what would stand for them is no shorter
        return made if shortened else Plan(level=number, size=turns.size)
    return replace(made, dropped=dropped, summary=text, size=size)


def _cut_before(turns: Turns, end: int, cut: Cut, most: int) -> int:
    """How many messages from the start have their results shortened until the rest fits."""
    size = turns.size
    for number, turn in enumerate(turns[:end]):
        if size <= most:
            return number
        size -= turn.size - _shorter(turn, cut)[0].size
    return end


def _shortened(turns: Turns, end: int, cut: Cut) -> tuple[Turns, int]:
    """(the turns, how many results before ``end`` were shortened)."""
    made = [_shorter(turn, cut) for turn in turns[:end]]
    number = sum(many for _, many in made)
    return (Turns((*(turn for turn, _ in made), *turns[end:])), number) if number else (turns, 0)


def _shorter(turn: Turn, cut: Cut) -> tuple[Turn, int]:
    calls = (*turn.calls, *[""] * len(turn.blocks))
    blocks = [_ends(block, cut, call) for block, call in zip(turn.blocks, calls, strict=False)]
    many = sum(new is not old for new, old in zip(blocks, turn.blocks, strict=True))
    return (with_blocks(turn, blocks), many) if many else (turn, 0)


def _ends(block: Block, cut: Cut, call_id: str) -> Block:
    content = block.get("content")
    if block.get("type") != "tool_result" or not isinstance(content, str) or len(content) <= cut.to + NOTE_ROOM:
        return block
    head, tail = 2 * cut.to // 3, cut.to // 3
    note = cut.wording.fill("left_out_here", characters=f"{len(content) - head - tail:,}", call=call_id)
    return {**block, "content": f"{content[:head]}\n{note}\n{content[len(content) - tail :]}"}


def _oldest(turns: Turns, kept: int, most: int) -> tuple[int, int]:
    """(how many messages after the first go, bytes of the rest without the new summary)."""
    first = turns[0]
    size = turns.size - (size_of(first.blocks[first.summary_at]) if first.summary_at >= 0 else 0)
    room = most - _summary_room(most)
    dropped = 0
    while dropped < kept - 1 and (size > room or not dropped):
        gone = turns[dropped + 1 : dropped + 3]
        size += sum(size_of(message_of("user", [text_block(words)])) for turn in gone for words in turn.people)
        size -= sum(turn.size for turn in gone)
        dropped += 2
    return dropped, size


def _summary_room(most: int) -> int:
    return max(0, min(SUMMARY_BYTES, most // SUMMARY_SHARE))


def summary_of(transcript: Transcript, dropped: int, most: int) -> str:
    """What was done in the messages that go and in those that went before, from the facts alone."""
    turns = transcript.turns
    notes = [note for turn in turns[: dropped + 1] for note in turn.notes]
    room, lines = _summary_room(most) - 400, list[str]()
    for note in reversed(notes[-LINES:]):
        room -= len(note.encode("utf-8", "replace")) + 3
        if room < 0:
            break
        lines.append(f"- {note}")
    missing = len(notes) - len(lines)
    unlisted = [prompts.fill("earlier_work_unlisted", number=missing)] if missing else []
    return "\n".join((heading(transcript, dropped), prompts.fill("earlier_work_done"), *unlisted, *reversed(lines)))


def heading(transcript: Transcript, dropped: int) -> str:
    """The first words of a summary: how much it stands for."""
    people = f" {prompts.fill('earlier_work_people')}" if _people(transcript.turns[: dropped + 1]) else ""
    return prompts.fill("earlier_work", messages=transcript.dropped + dropped, people=people)


def _people(turns: Sequence[Turn]) -> bool:
    return any(turn.people for turn in turns)
