"""Prompt caching on the wire: a run's requests through the real SDKs, byte by byte (SPEC U2)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from loops.engine import facts as f
from loops.engine.values import ModelRequest, ToolResult
from loops.llm.anthropic import request as request_of_anthropic
from loops.llm.config import ModelConfig, Provider
from loops.llm.openai import request as request_of_openai
from loops.llm.registry import ModelService
from tests.fakes import Tools, World
from tests.wire.client import config, request, user
from tests.wire.say import Say, Seen
from tests.wire.server import WireServer

MARK = ',"cache_control":{"type":"ephemeral"}'
STEPS = 6


def part(seen: Seen, name: str) -> str:
    """The very characters of one field of the body."""
    text = seen.raw.decode()
    at = text.index(f'"{name}":') + len(name) + 3
    return text[at : json.JSONDecoder().raw_decode(text, at)[1]]


def open_end(messages: str) -> str:
    """A JSON list without marks and without its closing bracket: what a longer one has to begin with."""
    return messages.replace(MARK, "").removesuffix("]")


def works(seen: Seen) -> Say:
    """A model that thinks, calls a tool some times, and is done."""
    if seen.turn < STEPS:
        return Say(thinking="Hm.", text="I look.", calls=[("look", {"at": seen.turn})], ids=[f"call_{seen.turn}"])
    return Say(calls=[("task_completion", {"result": "done"})], ids=["call_end"])


def run(server: WireServer, provider: Provider, **more: Any) -> World:
    """A whole run against the server, through driver, transcript and SDK."""
    look = Tools({"look": lambda arguments: ToolResult(ok=True, content=f'seen {arguments["at"]} ünïcode "quoted"')})
    world = World((), look, limits={"max_cost_microusd": 10**9, "max_tokens": 10**9}, **more)
    service = ModelService({"scripted": config(server, provider)})
    ports = world.ports
    world.ports = lambda: replace(ports(), models=service)  # type: ignore[method-assign]
    assert world.drive() == "ended"
    assert world.state.end_reason == "no_criteria", world.journal.of(f.ModelFailed)
    return world


@pytest.mark.spec("U2", "C2")
def test_each_anthropic_request_begins_with_the_one_before_and_reads_its_cache() -> None:
    with WireServer(works) as server:
        world = run(server, "anthropic")
    assert server.faults == []
    assert len(server.seen) == STEPS + 1
    for one, next_ in zip(server.seen, server.seen[1:], strict=False):
        assert part(one, "system") == part(next_, "system")
        assert part(one, "tools") == part(next_, "tools")
        assert part(next_, "messages").replace(MARK, "").startswith(open_end(part(one, "messages")))
        assert MARK in part(one, "system")
        assert MARK in part(one, "tools")
        written = marked(one)[-1]
        assert written in marked(next_), "what one request wrote to the cache, the next one reads"
        assert written == len(one.messages) - 1
    calls = world.journal.of(f.ModelAnswered)
    assert all(call.usage.cache_write_tokens == 0 for call in calls)


def marked(seen: Seen) -> list[int]:
    return [
        at for at, message in enumerate(seen.messages) if any("cache_control" in block for block in message["content"])
    ]


@pytest.mark.spec("U2")
def test_each_openai_request_begins_with_the_one_before() -> None:
    with WireServer(works) as server:
        run(server, "openai")
    assert len(server.seen) == STEPS + 1
    for one, next_ in zip(server.seen, server.seen[1:], strict=False):
        assert part(one, "tools") == part(next_, "tools")
        assert part(next_, "messages").startswith(open_end(part(one, "messages")))


@pytest.mark.spec("U2", "U1")
def test_pruning_leaves_the_cached_system_prompt_and_tools_as_they_are() -> None:
    """The other half of the proof: messages do change then, and the comparison sees it."""

    def large(seen: Seen) -> Say:
        end = seen.number == 12  # pruned turns can't be counted
        call = ("task_completion", {"result": "done"}) if end else ("look", {"at": seen.number})
        usage = {"input_tokens": len(seen.raw) // 4}
        return Say(text="I look. " * 150, calls=[call], ids=[f"call_{seen.number}"], usage=usage)

    with WireServer(large) as server:
        world = run(server, "anthropic", windows={"scripted": 2600})
    assert server.faults == []
    assert world.journal.of(f.ContextPruned)
    pairs = list(zip(server.seen, server.seen[1:], strict=False))
    grown = [part(b, "messages").replace(MARK, "").startswith(open_end(part(a, "messages"))) for a, b in pairs]
    assert False in grown
    assert True in grown
    assert len({part(seen, "system") for seen in server.seen}) == 1
    assert len({part(seen, "tools") for seen in server.seen}) == 1


CONFIG = ModelConfig(name="m", provider="anthropic", model_id="m")


def talk(turns: int) -> list[dict[str, Any]]:
    messages = [user("do it \ud800")]
    for number in range(turns):
        call = {"type": "tool_use", "id": f"i{number}", "name": "count", "input": {"upto": number}}
        messages.append({"role": "assistant", "content": [{"type": "text", "text": "so"}, call]})
        outcome = {"type": "tool_result", "tool_use_id": f"i{number}", "content": f"{number}\0"}
        messages.append({"role": "user", "content": [{"type": "text", "text": "hm"}, outcome]})
    return messages


@pytest.mark.spec("U2", "J7")
@pytest.mark.parametrize("xml", [False, True])
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_message_is_translated_once_and_exactly_as_before(provider: str, xml: bool) -> None:
    """With a memory of its own messages a request is the same as without, also after messages were replaced."""
    messages = talk(20)
    asked: list[ModelRequest] = [request(*messages[:length]) for length in range(1, len(messages) + 1, 2)]
    asked.append(request(messages[0], *messages[9:]))
    made: Any = (
        request_of_anthropic.memo("m", xml=xml) if provider == "anthropic" else request_of_openai.memo(CONFIG, xml=xml)
    )
    body: Any = request_of_anthropic.request_body if provider == "anthropic" else request_of_openai.request_body
    for each in asked[:-1]:
        assert body(each, CONFIG, xml=xml, made=made) == body(each, CONFIG, xml=xml)
    assert made.made == len(messages)
    assert body(asked[-1], CONFIG, xml=xml, made=made) == body(asked[-1], CONFIG, xml=xml)
    assert made.made == len(messages) + len(messages) - 9
