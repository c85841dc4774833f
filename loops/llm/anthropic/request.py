"""A ModelRequest as the body of a Messages API request. Pure: no SDK here.

Caching (SPEC U2): the API allows four marks. They go on the last tool, the system prompt, and the last two user
messages, so that each request reads what the one before it wrote, however many blocks a step added. Nothing before a
mark depends on what comes after it, so the bytes of one request are the beginning of the next one's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from loops.engine.model_calls.thinking_signature import THINKING, THOUGHT_BY, is_foreign
from loops.engine.tool_calls.xml_calls import instructions
from loops.engine.values import Message, ModelRequest, ToolSpec
from loops.llm.config import ModelConfig
from loops.llm.conversation import blocks_of
from loops.llm.memo import Memo
from loops.llm.text import clean_json
from loops.llm.xml_calls import as_text, tool_names

Made = tuple[str, list[dict[str, Any]]]
"""Role and clean blocks of one message."""

_CACHE = {"type": "ephemeral"}
_BAD_ID = re.compile(r"[^a-zA-Z0-9_-]")


def memo(model: str, *, xml: bool) -> Memo[Made]:
    """For the requests of one conversation to ``model``, so that each message is translated once."""

    def make(message: Message, before: Message | None) -> Made:
        own = [dict(block) for block in blocks_of(message) if not is_foreign(block, model)]
        if not xml:
            return _made(message, own)
        # results name their tool, which only the calls before them know
        return _made(message, as_text({**message, "content": own}, tool_names([before] if before is not None else [])))

    return Memo(make)


def request_body(
    request: ModelRequest,
    config: ModelConfig,
    *,
    xml: bool,
    made: Memo[Made] | None = None,
    without: Collection[str] = (),
) -> dict[str, Any]:
    """The body, clean enough for the wire whatever a tool put into the conversation. Thinking whose seal is in
    ``without`` is left out."""
    messages = _messages((made or memo(config.name, xml=xml)).of(request.messages), without)
    body: dict[str, Any] = {"model": config.model_id, "max_tokens": _max_tokens(request, config)}
    system = _system(request, xml=xml)
    if system:
        body["system"] = [{"type": "text", "text": system, "cache_control": _CACHE}]
    if xml:
        body["stop_sequences"] = ["<tool_result"]
    elif request.tools:
        body["tools"] = _tools(request.tools)
    thinking = _thinking(request.thinking)
    if thinking and not (thinking["type"] == "enabled" and _is_mid_turn_without_thinking(messages)):
        body["thinking"] = thinking
    cleaned: dict[str, Any] = clean_json(body)
    return {**cleaned, "messages": messages}


def seals(request: ModelRequest) -> set[str]:
    """What the API recognises each thinking of the conversation by."""
    return {_seal(block) for message in request.messages for block in blocks_of(message)} - {""}


def _seal(block: Mapping[str, Any]) -> str:
    return str(block.get("signature") or block.get("data") or "") if block.get("type") in THINKING else ""


def _max_tokens(request: ModelRequest, config: ModelConfig) -> int:
    limit = min(request.max_tokens, config.max_tokens) if config.max_tokens else request.max_tokens
    budget = int(request.thinking) if request.thinking.isdecimal() else 0
    return limit if budget < limit else budget + limit


def _thinking(wish: str) -> dict[str, Any] | None:
    if wish.isdecimal():
        return {"type": "enabled", "budget_tokens": max(1024, int(wish))}
    return {"type": "adaptive", "display": "summarized"} if wish == "adaptive" else None


def _system(request: ModelRequest, *, xml: bool) -> str:
    if not (xml and request.tools):
        return request.system
    return f"{request.system}\n\n{instructions(request.tools)}" if request.system else instructions(request.tools)


def _tools(specs: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = [
        {"name": spec.name, "description": spec.description, "input_schema": dict(spec.parameters)} for spec in specs
    ]
    tools[-1]["cache_control"] = _CACHE
    return tools


def _is_mid_turn_without_thinking(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Another model, or one that did not think, made the calls whose results are sent: with a budget the API wants the
    turn to begin with thinking, which nobody can make up, so this one goes on without."""
    if len(messages) < 2 or messages[-1]["role"] != "user":
        return False
    results = any(block.get("type") == "tool_result" for block in messages[-1]["content"])
    return results and messages[-2]["content"][0].get("type") not in THINKING


def _messages(made: Sequence[Made], without: Collection[str]) -> list[dict[str, Any]]:
    prepared: list[dict[str, Any]] = []
    for role, every in made:
        blocks = [block for block in every if _seal(block) not in without] if without else every
        if not blocks:
            continue
        if prepared and prepared[-1]["role"] == role:
            together = [*prepared[-1]["content"], *blocks]
            prepared[-1] = {"role": role, "content": sorted(together, key=lambda block: _first(role, block))}
        else:
            prepared.append({"role": role, "content": blocks})
    _mark(prepared)
    return prepared


def _made(message: Message, blocks: Sequence[dict[str, Any]]) -> Made:
    role = str(message.get("role"))
    sendable: list[dict[str, Any]] = clean_json([found for block in blocks if (found := _sendable(block)) is not None])
    return role, sorted(sendable, key=lambda block: _first(role, block))


def _first(role: str, block: Mapping[str, Any]) -> int:
    """Results of tools come before anything else in a user message: the API insists."""
    return 0 if role != "user" or block.get("type") == "tool_result" else 1


def _sendable(block: dict[str, Any]) -> dict[str, Any] | None:
    """A block as the API takes it back: what another provider or an empty answer left behind is put right."""
    kind = block.get("type")
    if kind == "text" and not str(block.get("text", "")).strip():
        return None
    if kind == "thinking" and not block.get("signature"):
        return None
    if kind in THINKING:
        return {key: value for key, value in block.items() if key != THOUGHT_BY}
    if kind == "tool_use":
        kept = {key: value for key, value in block.items() if key != "xml"}
        name = _BAD_ID.sub("_", str(block.get("name") or "unnamed"))[:128]
        return {**kept, "id": _BAD_ID.sub("_", str(block.get("id"))), "name": name}
    if kind == "tool_result":
        return {**block, "tool_use_id": _BAD_ID.sub("_", str(block.get("tool_use_id")))}
    return block


def _mark(messages: list[dict[str, Any]]) -> None:
    users = [message for message in messages if message["role"] == "user"]
    for message in users[-2:]:
        *blocks, last = message["content"]
        if last.get("type") not in THINKING:
            message["content"] = [*blocks, {**last, "cache_control": _CACHE}]
