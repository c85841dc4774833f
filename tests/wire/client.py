"""Short ways for tests to ask a model over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from loops.engine.ports import ModelError
from loops.engine.values import ModelEvent, ModelReply, ModelRequest, ModelRole, ToolSpec
from loops.llm.config import ModelConfig, Provider
from loops.llm.registry import build_adapter
from tests.wire.say import Handler
from tests.wire.server import WireServer

READ = ToolSpec(
    name="read_file",
    description="Read a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
COUNT = ToolSpec(
    name="count",
    description="Count.",
    parameters={"type": "object", "properties": {"upto": {"type": "integer"}, "names": {"type": "array"}}},
)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def request(*messages: dict[str, Any], **more: Any) -> ModelRequest:
    given: dict[str, Any] = {"system": "Be brief.", "tools": (READ, COUNT), "max_tokens": 4096, **more}
    return ModelRequest(role=ModelRole.ACTOR, model="m", messages=messages or (user("Hello"),), **given)


def config(server: WireServer, provider: Provider = "anthropic", **more: Any) -> ModelConfig:
    url = server.openai_url if provider == "openai" else server.url
    given: dict[str, Any] = {"api_key": "secret-key-1", "timeout": 60.0, **more}
    return ModelConfig(name="m", provider=provider, model_id="claude-opus-4-8", base_url=url, **given)


def ask(
    configured: ModelConfig, asked: ModelRequest | None = None, on_event: Callable[[ModelEvent], None] | None = None
) -> ModelReply:
    async def once() -> ModelReply:
        adapter = build_adapter(configured)
        try:
            return await adapter.call(asked or request(), on_event or (lambda event: None))
        finally:
            await adapter.close()

    return asyncio.run(once())


def answer(
    handler: Handler, provider: Provider = "anthropic", asked: ModelRequest | None = None, **more: Any
) -> ModelReply:
    with WireServer(handler) as server:
        return ask(config(server, provider, **more), asked)


def failure(handler: Handler, provider: Provider = "anthropic", **more: Any) -> ModelError:
    with WireServer(handler) as server:
        try:
            reply = ask(config(server, provider, **more))
        except ModelError as error:
            return error
    raise AssertionError(f"a ModelError was expected, not {reply}")


async def left_by_its_client(server: WireServer) -> None:
    """Until the server notices that whoever asked hung up."""
    async with asyncio.timeout(120):
        while not server.left:
            await asyncio.sleep(0.01)


def continued(asked: ModelRequest, reply: ModelReply, results: Sequence[str]) -> ModelRequest:
    """The next request, as a loop would make it: the reply's own blocks, then a result for each call."""
    answers = [
        {"type": "tool_result", "tool_use_id": call.id, "content": text, "is_error": bool(call.error)}
        for call, text in zip(reply.calls, results, strict=True)
    ]
    messages = (*asked.messages, {"role": "assistant", "content": list(reply.blocks)})
    return request(*map(dict, messages), {"role": "user", "content": answers}, xml_tools=asked.xml_tools)
