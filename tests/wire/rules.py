"""What the real endpoints refuse with status 400, as far as an agent can get it wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

EMBEDDINGS_AT_ONCE = 32
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_TOOL_USE_KEYS = {"type", "id", "name", "input", "cache_control", "caller"}
_BODY_KEYS = {
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "stream",
    "stop_sequences",
    "metadata",
    "output_config",
    "cache_control",
}


def anthropic_fault(body: Mapping[str, Any]) -> str:
    """The first thing wrong with a Messages request, empty when nothing is."""
    return next(_anthropic_faults(body), "")


def _anthropic_faults(body: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(set(body) - _BODY_KEYS):
        yield f"{key}: Extra inputs are not permitted"
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "model: Field required"
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        yield "max_tokens: must be at least 1"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "messages: at least one message is required"
        return
    yield from _tool_faults(body.get("tools") or [])
    yield from _thinking_faults(body)
    if str(body).count("'cache_control'") > 4:
        yield "A maximum of 4 blocks with cache_control may be provided."
    for at, message in enumerate(messages):
        yield from _message_faults(at, message, messages[at - 1] if at else None)
    waiting = _uses(messages[-1])
    if waiting and messages[-1]["role"] == "assistant":
        yield f"messages.{len(messages) - 1}: `tool_use` ids were found without `tool_result` blocks: {waiting}"


def _tool_faults(tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names = [tool.get("name") for tool in tools]
    if len(names) != len(set(names)):
        yield "tools: Tool names must be unique."
    for at, tool in enumerate(tools):
        if "type" in tool and tool["type"] != "custom":
            continue
        if not _NAME.fullmatch(str(tool.get("name"))):
            yield f"tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        if (tool.get("input_schema") or {}).get("type") != "object":
            yield f"tools.{at}.custom.input_schema.type: Field required"


def _thinking_faults(body: Mapping[str, Any]) -> Iterator[str]:
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled" and not 1024 <= thinking.get("budget_tokens", 0) < body["max_tokens"]:
        yield "`max_tokens` must be greater than `thinking.budget_tokens`, which must be at least 1024"
    messages = body.get("messages") or []
    if thinking.get("type") == "enabled" and len(messages) > 1 and _has_results(messages[-1]):
        first = _blocks(messages[-2])[0].get("type")
        if first not in ("thinking", "redacted_thinking"):
            where = f"messages.{len(messages) - 2}.content.0.type"
            yield f"{where}: Expected `thinking` or `redacted_thinking`, but found `{first}`"


def _message_faults(at: int, message: Mapping[str, Any], before: Mapping[str, Any] | None) -> Iterator[str]:
    role = message.get("role")
    wanted = "user" if before is None or before["role"] == "assistant" else "assistant"
    if role != wanted:
        yield f"messages.{at}: roles must alternate between user and assistant, beginning with user"
    blocks = _blocks(message)
    if not blocks:
        yield f"messages.{at}: all messages must have non-empty content"
    for number, block in enumerate(blocks):
        yield from (f"messages.{at}.content.{number}.{fault}" for fault in _block_faults(block))
    yield from _pair_faults(at, blocks, _uses(before) if before else [])


def _block_faults(block: Mapping[str, Any]) -> Iterator[str]:
    kind = block.get("type")
    if kind == "text" and not str(block.get("text", "")).strip():
        yield "text: text content blocks must be non-empty"
    if kind == "thinking" and not block.get("signature"):
        yield "thinking.signature: Field required"
    if kind in ("thinking", "redacted_thinking") and "cache_control" in block:
        yield "thinking.cache_control: Extra inputs are not permitted"
    if kind == "tool_use":
        if extra := set(block) - _TOOL_USE_KEYS:
            yield f"tool_use.{sorted(extra)[0]}: Extra inputs are not permitted"
        if not _ID.fullmatch(str(block.get("id"))):
            yield "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        if not isinstance(block.get("input"), dict):
            yield "tool_use.input: Input should be a valid dictionary"


def _pair_faults(at: int, blocks: Sequence[Mapping[str, Any]], uses: list[str]) -> Iterator[str]:
    results = [str(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"]
    kinds = [block.get("type") == "tool_result" for block in blocks]
    if missing := [use for use in uses if use not in results]:
        yield f"messages.{at - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: {missing}"
    if unknown := [result for result in results if result not in uses]:
        yield f"messages.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {unknown}"
    if len(results) != len(set(results)):
        yield f"messages.{at}: each tool_use must have a single result"
    if kinds != sorted(kinds, reverse=True):
        yield f"messages.{at}: `tool_result` blocks must come first in the content"


def _has_results(message: Mapping[str, Any]) -> bool:
    return any(block.get("type") == "tool_result" for block in _blocks(message))


def _uses(message: Mapping[str, Any]) -> list[str]:
    return [str(block.get("id")) for block in _blocks(message) if block.get("type") == "tool_use"]


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content or ())


def openai_fault(body: Mapping[str, Any]) -> str:
    """The first thing wrong with a Chat Completions request, empty when nothing is."""
    if not body.get("model"):
        return "you must provide a model parameter"
    waiting: list[str] = []
    for at, message in enumerate(body.get("messages") or ()):
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in waiting:
                return f"messages[{at}]: 'tool' must be a response to a preceding message with 'tool_calls'"
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return f"messages[{at}]: tool_call_ids did not have response messages: {waiting}"
        if message.get("role") == "assistant" and not (message.get("content") or message.get("tool_calls")):
            return f"messages[{at}]: content or tool_calls must be set"
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
    return f"tool_call_ids did not have response messages: {waiting}" if waiting else ""


def embeddings_fault(body: Mapping[str, Any]) -> str:
    """The first thing wrong with an Embeddings request: what the strictest of the common servers refuses."""
    texts = body.get("input")
    if not body.get("model"):
        return "you must provide a model parameter"
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        return "'$.input' is invalid: texts must not be empty"
    if len(texts) > EMBEDDINGS_AT_ONCE:
        return f"batch size {len(texts)} > maximum allowed batch size {EMBEDDINGS_AT_ONCE}"
    if body.get("encoding_format", "float") != "float":
        return "only floats are served here"
    return ""
