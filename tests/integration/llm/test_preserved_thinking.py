"""A provider that takes thinking back only behind the very words it came after, and conversations that change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from loops.engine.ports import ModelError
from loops.engine.values import FailureKind, ModelReply, ModelRequest
from loops.llm.registry import build_adapter
from tests.wire.client import config, continued, request
from tests.wire.say import Raw, Say, Seen
from tests.wire.server import WireServer

pytestmark = pytest.mark.spec("C2", "E6", "U1")
MARK = ', "cache_control": {"type": "ephemeral"}'


class Binding:
    """Signs its thinking over everything before it, and refuses it behind anything else."""

    def __init__(self) -> None:
        self.before: dict[str, str] = {}
        self.refused = 0

    def __call__(self, seen: Seen) -> Say | Raw:
        for at, message in enumerate(seen.messages):
            for block in message["content"]:
                if block["type"] == "thinking" and self.before[block["signature"]] != prefix(seen, at):
                    self.refused += 1
                    return Raw.error(
                        400,
                        "invalid_request_error",
                        f"messages.{at}.content.0: Invalid `signature` in `thinking` block. The block is bound to a "
                        "different conversation. Remove the block, or set "
                        '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".',
                    )
        self.before[f"sig-{seen.number}=="] = prefix(seen, len(seen.messages))
        return Say(thinking="Hm.", calls=[("read_file", {"path": f"{seen.number}.py"})])


def prefix(seen: Seen, end: int) -> str:
    return json.dumps([seen.body["system"], seen.body["tools"], seen.messages[:end]]).replace(MARK, "")


def ask(server: WireServer, *steps: Any) -> list[ModelReply]:
    """One conversation with one adapter, as a worker leads it; each step makes the next request from the replies."""

    async def talk() -> list[ModelReply]:
        adapter, replies = build_adapter(config(server, thinking="adaptive")), list[ModelReply]()
        asked = request(thinking="adaptive")
        for step in steps:
            asked = replace(step(asked, replies), thinking="adaptive")
            replies.append(await adapter.call(asked, lambda event: None))
        await adapter.close()
        return replies

    return asyncio.run(talk())


def first(asked: ModelRequest, replies: Sequence[ModelReply]) -> ModelRequest:
    return asked


def onward(asked: ModelRequest, replies: Sequence[ModelReply]) -> ModelRequest:
    return continued(asked, replies[-1], ["what the file says " * 20])


def pruned(asked: ModelRequest, replies: Sequence[ModelReply]) -> ModelRequest:
    """The oldest result is shortened, then it goes on."""
    following = onward(asked, replies)
    short = json.loads(json.dumps(following.messages[2]))
    short["content"][0]["content"] = "what [...] says"
    return replace(following, messages=(*following.messages[:2], short, *following.messages[3:]))


def thoughts(seen: Seen) -> list[str]:
    blocks = [block for message in seen.messages for block in message["content"]]
    return [block["signature"] for block in blocks if block["type"] == "thinking"]


def test_thinking_goes_back_as_long_as_nothing_before_it_changes() -> None:
    provider = Binding()
    with WireServer(provider) as server:
        ask(server, first, onward, onward)
    assert provider.refused == 0
    assert thoughts(server.seen[-1]) == ["sig-0==", "sig-1=="]


def test_a_pruned_conversation_goes_on_without_the_thinking_it_had() -> None:
    provider = Binding()
    with WireServer(provider) as server:
        replies = ask(server, first, onward, onward, pruned, onward, onward)
    assert server.faults == []
    assert len(replies) == 6
    assert provider.refused == 1, "it is learned once, not at every request"
    assert thoughts(server.seen[-1]) == ["sig-4==", "sig-5=="], "what it thinks from then on is kept again"


def test_any_other_refusal_is_not_asked_again() -> None:
    with WireServer(lambda seen: Raw.error(400, "invalid_request_error", "`thinking` block: no")) as server:
        with pytest.raises(ModelError) as failed:
            ask(server, first)
        assert len(server.seen) == 1
    assert failed.value.kind is FailureKind.SYSTEMATIC


def test_who_refuses_it_always_is_asked_twice_and_no_more() -> None:
    text = "`thinking` block. The block is bound to a different conversation."
    with WireServer(lambda seen: Raw.error(400, "invalid_request_error", text)) as server:
        with pytest.raises(ModelError, match="bound to"):
            ask(server, first)
        assert len(server.seen) == 2
