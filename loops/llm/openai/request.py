"""A ModelRequest as the body of a Chat Completions request, for any endpoint that speaks it. Pure: no SDK here.

These providers cache by themselves whatever begins like an earlier request (SPEC U2): the messages of one request are
the beginning of the next one's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from loops.engine.tool_calls.xml_calls import instructions
from loops.engine.values import Message, ModelRequest, ToolSpec
from loops.llm.config import ModelConfig
from loops.llm.conversation import blocks_of, result_content
from loops.llm.memo import Memo
from loops.llm.text import clean_json
from loops.llm.xml_calls import as_text, tool_names

THINKING_MODEL = "model"
"""Key of a thinking block that says which model thought it: only that model gets it back."""


Made = list[dict[str, Any]]
"""What goes out for one message."""


def memo(config: ModelConfig, *, xml: bool) -> Memo[Made]:
    """For the requests of one conversation, so that each message is translated once."""

    def make(message: Message, before: Message | None) -> Made:
        named = tool_names([before] if xml and before is not None else [])
        blocks = as_text(message, named) if xml else blocks_of(message)
        spoken = message.get("role") == "assistant"
        cleaned: Made = clean_json(list(_assistant(blocks, config.model_id) if spoken else _user(blocks)))
        return cleaned

    return Memo(make)


def request_body(
    request: ModelRequest, config: ModelConfig, *, xml: bool, made: Memo[Made] | None = None
) -> dict[str, Any]:
    """The body, clean enough for the wire whatever a tool put into the conversation."""
    limit = min(request.max_tokens, config.max_tokens) if config.max_tokens else request.max_tokens
    body: dict[str, Any] = {
        "model": config.model_id,
        "messages": _system(request, xml=xml),
        # OpenAI's own models refuse the old name, most other servers know no other.
        "max_completion_tokens" if is_openai(config.base_url) else "max_tokens": limit,
        "stream_options": {"include_usage": True},
    }
    if xml:
        body["stop"] = ["<tool_result"]
    elif request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    cleaned: dict[str, Any] = clean_json(body)
    for messages in (made or memo(config, xml=xml)).of(request.messages):
        cleaned["messages"] += messages
    return cleaned


def is_openai(base_url: str) -> bool:
    """Whether the endpoint is OpenAI's own, which differs from the compatible ones in details."""
    host = urlsplit(base_url).hostname or "api.openai.com"
    return host == "api.openai.com" or host.endswith(".openai.azure.com")


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": dict(spec.parameters)}
    return {"type": "function", "function": function}


def _system(request: ModelRequest, *, xml: bool) -> list[dict[str, Any]]:
    system = request.system
    if xml and request.tools:
        system = "\n\n".join(part for part in (system, instructions(request.tools)) if part)
    return [{"role": "system", "content": system}] if system else []


def _assistant(blocks: Sequence[Mapping[str, Any]], model_id: str) -> Iterable[dict[str, Any]]:
    calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
    text = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    own = [block for block in blocks if block.get("type") == "thinking" and block.get(THINKING_MODEL) == model_id]
    if not (calls or text):
        return
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if own:
        message["reasoning_content"] = "".join(str(block.get("thinking", "")) for block in own)
    if calls:
        message["tool_calls"] = calls
    yield message


def _call(block: Mapping[str, Any]) -> dict[str, Any]:
    arguments = json.dumps(clean_json(block.get("input") or {}), ensure_ascii=False)
    function = {"name": str(block.get("name") or "unnamed"), "arguments": arguments}
    return {"id": str(block.get("id")), "type": "function", "function": function}


def _user(blocks: Sequence[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    """Results become messages of their own, straight after the calls; the rest follows as one message."""
    rest = [block for block in blocks if block.get("type") != "tool_result"]
    for block in blocks:
        if block.get("type") == "tool_result":
            content = result_content(block)
            told = f"Error: {content}" if block.get("is_error") and not content.startswith("Error") else content
            yield {"role": "tool", "tool_call_id": str(block.get("tool_use_id")), "content": told}
    if rest and all(block.get("type") == "text" for block in rest):
        yield {"role": "user", "content": "\n\n".join(str(block.get("text", "")) for block in rest)}
    elif rest:
        yield {"role": "user", "content": [part for block in rest for part in _part(block)]}


def _part(block: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    source = block.get("source")
    if block.get("type") == "text":
        yield {"type": "text", "text": str(block.get("text", ""))}
    elif block.get("type") == "image" and isinstance(source, Mapping):
        data = f"data:{source.get('media_type')};base64,{source.get('data')}"
        yield {"type": "image_url", "image_url": {"url": str(source.get("url") or data)}}


def used_ids(messages: Sequence[Message]) -> set[str]:
    """The ids of all calls so far."""
    return {str(block.get("id")) for message in messages for block in blocks_of(message) if "id" in block}
