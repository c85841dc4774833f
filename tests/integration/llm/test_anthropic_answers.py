"""Whole answers of the Messages API, through the real SDK, from a local server."""

import asyncio
import json
import time
from typing import Any

import pytest

from loops.engine.values import ArgumentsDelta, CallDetected, ModelEvent, StopReason, TextDelta, ThinkingDelta
from loops.llm.registry import build_adapter
from tests.wire.client import answer, ask, config, continued, left_by_its_client, request, user
from tests.wire.say import Raw, Say, Seen, Wire, anthropic_events, anthropic_sse
from tests.wire.server import WireServer

pytestmark = pytest.mark.spec("C2", "C3")


def test_text_thinking_and_several_calls_keep_their_order() -> None:
    said = Say(
        thinking="First I look.",
        text="I look at two files.",
        calls=[("read_file", {"path": "a.py"}), ("read_file", {"path": "b.py"}), ("count", {"upto": 3})],
    )
    reply = answer(lambda seen: said)
    assert (reply.thinking, reply.text) == ("First I look.", "I look at two files.")
    assert [(call.name, call.arguments, call.error) for call in reply.calls] == [
        ("read_file", {"path": "a.py"}, ""),
        ("read_file", {"path": "b.py"}, ""),
        ("count", {"upto": 3}, ""),
    ]
    assert [block["type"] for block in reply.blocks] == ["thinking", "text", "tool_use", "tool_use", "tool_use"]
    assert reply.blocks[0] == {"type": "thinking", "thinking": "First I look.", "signature": "sig-0=="}
    assert (reply.stop, reply.raw_stop, reply.request_id) == (StopReason.TOOL_USE, "tool_use", "req_wire")
    assert reply.first_token_ms > 0
    assert reply.first_call_ms >= reply.first_token_ms
    assert reply.duration_ms >= reply.first_call_ms


def test_a_call_without_arguments_has_none() -> None:
    assert answer(lambda seen: Say(calls=[("run_tests", {})])).calls[0].arguments == {}


def test_the_conversation_goes_on_with_the_blocks_unchanged() -> None:
    with WireServer(lambda seen: Say(thinking="Hm.", calls=[("read_file", {"path": "a"}), ("count", {})])) as server:
        asked = request()
        reply = ask(config(server), asked)
        ask(config(server), continued(asked, reply, ["text of a", "3"]))
        echoed = server.seen[1].messages[1]["content"]
    assert server.faults == []
    assert echoed == [dict(block) for block in reply.blocks]


def test_events_arrive_while_the_model_still_speaks() -> None:
    events: list[tuple[float, ModelEvent]] = []
    said = Say(thinking="Let me see. " * 3, text="I read it.", calls=[("read_file", {"path": "x" * 60})])
    with WireServer(lambda seen: said, pace=0.01) as server:
        ask(config(server), on_event=lambda event: events.append((time.monotonic(), event)))
    kinds = [type(event) for _, event in events]
    assert kinds.index(ThinkingDelta) < kinds.index(TextDelta) < kinds.index(CallDetected) < kinds.index(ArgumentsDelta)
    detected = next(at for at, event in events if isinstance(event, CallDetected))
    assert detected < events[-1][0], "the call is known before the answer has ended"


def test_the_request_marks_what_can_be_cached() -> None:
    with WireServer(lambda seen: Say(text="ok")) as server:
        messages = [user("one"), {"role": "assistant", "content": [{"type": "text", "text": "two"}]}, user("three")]
        ask(config(server), request(*messages))
    sent = server.seen[0].body
    assert sent["system"][-1]["cache_control"] == {"type": "ephemeral"}
    assert ["cache_control" in tool for tool in sent["tools"]] == [False, True]
    assert ["cache_control" in message["content"][-1] for message in sent["messages"]] == [True, False, True]
    assert server.seen[0].headers["x-stainless-retry-count"] == "0"


@pytest.mark.parametrize("thinking", ["adaptive", "2048", "9000"])
def test_thinking_is_asked_for_within_the_limits(thinking: str) -> None:
    with WireServer(lambda seen: Say(thinking="ok", text="ok")) as server:
        ask(config(server), request(thinking=thinking))
    assert server.faults == []
    assert server.seen[0].body["thinking"]["type"] in ("adaptive", "enabled")


@pytest.mark.parametrize("wire", [Wire(crlf=True), Wire(chunk=1), Wire(chunk=1, crlf=True), Wire(chunk=7)])
def test_any_chunking_and_line_ends_give_the_same_answer(wire: Wire) -> None:
    said = Say(thinking="Höher, 日本", text="naïve 😀 text", calls=[("read_file", {"path": "ü/日.py"})], wire=wire)
    reply = answer(lambda seen: said)
    assert (reply.thinking, reply.text) == ("Höher, 日本", "naïve 😀 text")
    assert reply.calls[0].arguments == {"path": "ü/日.py"}


def test_pings_comments_and_unknown_events_are_passed_over() -> None:
    odd = 'event: ping\ndata: {"type": "ping"}\n\n: a comment\n\nevent: news\ndata: {"type": "news", "x": 1}\n\n'
    reply = answer(lambda seen: Say(text="Hello", wire=Wire(insert=dict.fromkeys(range(5), odd))))
    assert (reply.text, reply.stop) == ("Hello", StopReason.END_TURN)


def test_unknown_blocks_are_kept_and_sent_back_as_they_came() -> None:
    block = {"type": "hologram", "colour": "blue", "nested": {"a": None}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "hologram_delta", "shape": "cube"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "teleported"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    reply = answer(lambda seen: Raw.sse("".join(anthropic_sse(events))))
    assert reply.blocks == ({**block, "shape": "cube"},)
    assert (reply.stop, reply.raw_stop) == (StopReason.OTHER, "teleported")


def test_usage_is_the_last_total_with_cache_and_thinking() -> None:
    events = [
        {
            "type": "message_start",
            "message": {"model": "m", "usage": {"input_tokens": 9, "cache_read_input_tokens": 100, "output_tokens": 1}},
        },
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {
                "input_tokens": 12,
                "output_tokens": 40,
                "cache_creation_input_tokens": 7,
                "cache_read_input_tokens": None,
                "output_tokens_details": {"thinking_tokens": 30},
            },
        },
    ]
    usage = answer(lambda seen: Raw.sse("".join(anthropic_sse(events)))).usage
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    assert counts == (12, 40, 100, 7)
    assert (usage.thinking_tokens, usage.cost_microusd) == (30, None)


@pytest.mark.parametrize(
    ("stop", "mapped"),
    [
        ("end_turn", StopReason.END_TURN),
        ("stop_sequence", StopReason.STOP_SEQUENCE),
        ("pause_turn", StopReason.PAUSE_TURN),
        ("refusal", StopReason.REFUSAL),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("model_context_window_exceeded", StopReason.CONTEXT_EXCEEDED),
        ("something_new", StopReason.OTHER),
    ],
)
def test_every_stop_reason_is_named(stop: str, mapped: StopReason) -> None:
    reply = answer(lambda seen: Say(text="So", stop=stop))
    assert (reply.stop, reply.raw_stop) == (mapped, stop)


def test_a_refusal_says_why_and_spoils_its_calls() -> None:
    def refuse(seen: Seen) -> Raw:
        events = anthropic_events(Say(calls=[("count", {"upto": 1})], stop="refusal"), seen)
        events[-2]["delta"]["stop_details"] = {"type": "refusal", "category": "cyber", "explanation": "Not this."}
        return Raw.sse("".join(anthropic_sse(events)))

    reply = answer(refuse)
    assert reply.stop_detail == "cyber: Not this."
    assert "refused" in reply.calls[0].error
    assert reply.calls[0].arguments == {}


@pytest.mark.parametrize("stop", ["max_tokens", "model_context_window_exceeded"])
def test_only_the_last_call_of_an_answer_that_was_cut_is_distrusted(stop: str) -> None:
    said = Say(calls=[("count", {"upto": 1}), ("count", {"names": ["a"]})], raw_json={1: '{"names": ["a"'}, stop=stop)
    first, second = answer(lambda seen: said).calls
    assert (first.arguments, first.error) == ({"upto": 1}, "")
    assert second.arguments == {}
    assert "not executed" in second.error


def test_a_plausible_call_cut_by_max_tokens_is_not_executed() -> None:
    (call,) = answer(lambda seen: Say(calls=[("count", {"names": ["# TAX"]})], stop="max_tokens")).calls
    assert (call.arguments, call.error) == ({}, "cut off by max_tokens; not executed")


@pytest.mark.parametrize("events", [1, 2, 4, 6, 7, 8])
def test_a_silent_early_end_is_seen(events: int) -> None:
    said = Say(text="I read it.", calls=[("read_file", {"path": "a"})], wire=Wire(events=events))
    reply = answer(lambda seen: said)
    assert reply.stop is StopReason.CUT
    assert all("not executed" in call.error for call in reply.calls)


def test_unfinished_thinking_is_told_but_not_sent_back() -> None:
    reply = answer(lambda seen: Say(thinking="I was about to", wire=Wire(events=3)))
    assert (reply.stop, reply.blocks) == (StopReason.CUT, ())
    assert reply.thinking == "I was about to"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"path": "a"', "not valid JSON"),
        ('{"path": a}', "not valid JSON"),
        ("[1, 2]", "one JSON object, not an array"),
        ('{"path": "a", "path": "b"}', "given twice"),
        ('{"upto": NaN}', "NaN is not JSON"),
        ('{"upto": 1e999}', "too large"),
        ('{"upto": ' + "9" * 5000 + "}", "beyond 2**53"),
        ('{"names": ' + "[" * 3000 + "]" * 3000 + "}", "nested deeper"),
        ('{"path": "a\\u0000b"}', "NUL"),
        ('{"path": "\\ud800"}', "surrogate"),
        ('{"path": "\\ud83d\\ude00"}', ""),
    ],
)
def test_broken_arguments_become_an_error_for_the_model(text: str, told: str) -> None:
    said = Say(text="Two.", calls=[("count", {}), ("read_file", {})], raw_json={0: text})
    reply = answer(lambda seen: said)
    first, second = reply.calls
    assert told in first.error
    assert bool(told) == bool(first.error)
    assert (second.name, second.error, reply.text) == ("read_file", "", "Two.")
    json.dumps([dict(block) for block in reply.blocks], ensure_ascii=False).encode()


def test_text_no_store_can_hold_is_cleaned() -> None:
    pieces = ["a\ud83d", "\ude00b", "\0", "\udc00"]
    deltas = [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": p}} for p in pieces]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"model": "m", "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *deltas,
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
    ]
    heard: list[str] = []
    with WireServer(lambda seen: Raw.sse("".join(anthropic_sse(events)))) as server:
        reply = ask(config(server), on_event=lambda event: heard.append(event.text))  # type: ignore[union-attr]
    assert reply.text == "a😀b\ufffd\ufffd"
    assert "".join(heard) == reply.text


def test_text_from_tools_that_the_wire_cannot_carry_is_cleaned_on_the_way_out() -> None:
    with WireServer(lambda seen: Say(text="ok")) as server:
        ask(config(server), request(user("half \ud800 and nul \0")))
    assert server.seen[0].messages[0]["content"][0]["text"] == "half \ufffd and nul \ufffd"


def test_history_of_another_provider_is_made_acceptable() -> None:
    foreign = [
        {"type": "thinking", "thinking": "unsigned", "model": "other"},
        {"type": "text", "text": ""},
        {"type": "tool_use", "id": "functions.read:0", "name": "read.file", "input": {}, "xml": "<tool_call>"},
    ]
    results = [
        {"type": "text", "text": "By the way"},
        {"type": "tool_result", "tool_use_id": "functions.read:0", "content": "text"},
    ]
    with WireServer(lambda seen: Say(text="ok")) as server:
        messages = [
            user("a"),
            user("b"),
            {"role": "assistant", "content": foreign},
            {"role": "user", "content": results},
        ]
        assert ask(config(server), request(*messages)).text == "ok"
    assert server.faults == []


def test_the_server_refuses_what_the_real_one_refuses() -> None:
    lonely = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "count", "input": {}}]}
    with WireServer(lambda seen: Say(text="ok")) as server, pytest.raises(Exception, match="without `tool_result`"):
        ask(config(server), request(user("a"), lonely, user("and?")))


def test_an_endpoint_that_does_not_stream_is_understood() -> None:
    message = {
        "model": "m",
        "content": [
            {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "t", "name": "count", "input": {"upto": 2}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }
    reply = answer(lambda seen: Raw(headers={"content-type": "application/json"}, body=json.dumps(message)))
    assert (reply.text, reply.calls[0].arguments, reply.usage.output_tokens) == ("Hi", {"upto": 2}, 4)


@pytest.mark.spec("K1")
def test_cancelling_closes_the_connection_at_once() -> None:
    async def cancelled(server: WireServer) -> None:
        heard = asyncio.Event()
        adapter = build_adapter(config(server, timeout=600))
        task = asyncio.create_task(adapter.call(request(), lambda event: heard.set()))
        await asyncio.wait_for(heard.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await left_by_its_client(server)
        await adapter.close()

    with WireServer(lambda seen: Say(text="Long, long ago", wire=Wire(events=3, then="stall"))) as server:
        asyncio.run(cancelled(server))
