"""Where a conversation stands, read from its messages alone: models that keep no state resume exactly (SPEC J2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loops.engine.failures.reflection import last_step
from loops.engine.prompts import TODAY
from loops.engine.values import Message

PERSON_SAYS = TODAY.templates["person_says"].beginning


def blocks_of(message: Message) -> list[Mapping[str, Any]]:
    """A message's blocks; a plain string counts as one text block."""
    content: Any = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [block for block in content or () if isinstance(block, Mapping)]


def call_ids(messages: Sequence[Message]) -> Iterator[str]:
    """The ids of all calls, in order."""
    for message in messages:
        for block in blocks_of(message):
            if block.get("type") == "tool_use":
                yield str(block.get("id"))


def turn_number(messages: Sequence[Message], prefix: str) -> int:
    """How many turns the model has had: assistant messages, or what its own call ids ("prefix_turn_position") say
    when older messages were pruned away, or the steps that a summary says it stands for."""
    spoken = sum(1 for message in messages if message.get("role") == "assistant")
    for call_id in call_ids(messages):
        kind, _, rest = call_id.partition("_")
        turn = rest.split("_")[0]
        if kind == prefix and turn.isdecimal():
            spoken = max(spoken, int(turn) + 1)
    texts = (str(block.get("text", "")) for message in messages for block in blocks_of(message))
    return max((spoken, *(last_step(text) for text in texts)))


def tool_results(messages: Sequence[Message]) -> dict[str, tuple[str, bool]]:
    """Every result in the conversation: call id -> (text, is_error)."""
    found: dict[str, tuple[str, bool]] = {}
    for message in messages:
        for block in blocks_of(message):
            if block.get("type") == "tool_result":
                found[str(block.get("tool_use_id"))] = (result_content(block), bool(block.get("is_error")))
    return found


def last_results(messages: Sequence[Message]) -> list[tuple[str, bool]]:
    """(text, is_error) of each call of the latest turn that made any, in its order."""
    results = tool_results(messages)
    for message in reversed(messages):
        if ids := list(call_ids([message])):
            return [results[call] for call in ids if call in results]
    return []


def was_advised(messages: Sequence[Message]) -> bool:
    """Has a person answered a gate with words for the agent?"""
    texts = (str(block.get("text", "")) for message in messages for block in blocks_of(message))
    return any(text.startswith(PERSON_SAYS) for text in texts)


def result_content(block: Mapping[str, Any]) -> str:
    """The text of a tool_result block; parts that are no text are named."""
    content = block.get("content")
    if isinstance(content, str):
        return content
    parts = content or ()
    return "\n".join(str(p["text"]) if "text" in p else f"[{p.get('type')}]" for p in parts if isinstance(p, Mapping))
