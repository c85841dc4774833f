"""Whole answers of OpenAI-compatible endpoints and their habits, through the real SDK, from a local server."""

import asyncio
import json
from typing import Any

import pytest

from loops.engine.ports import ModelError
from loops.engine.values import CallDetected, FailureKind, ModelEvent, StopReason
from loops.llm.registry import build_adapter
from tests.wire.client import answer, ask, config, continued, left_by_its_client, request, user
from tests.wire.say import Raw, Say, Wire, openai_sse
from tests.wire.server import WireServer

pytestmark = pytest.mark.spec("C2", "C3")


def said(*deltas: dict[str, Any], finish: str | None = "tool_calls", usage: dict[str, Any] | None = None) -> Raw:
    chunks: list[dict[str, Any]] = [{"model": "m", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage:
        chunks.append({"model": "m", "choices": [], "usage": usage})
    return Raw.sse("".join(openai_sse(chunks)))


def piece(arguments: str = "", **more: Any) -> dict[str, Any]:
    name = more.pop("name", None)
    function = {"arguments": arguments, **({"name": name} if name else {})}
    return {"tool_calls": [{**more, "function": function}]}


def test_reasoning_text_and_calls() -> None:
    turn = Say(thinking="Hm.", text="I read.", calls=[("read_file", {"path": "ü"}), ("count", {"upto": 2})])
    reply = answer(lambda seen: turn, "openai")
    assert (reply.thinking, reply.text, reply.stop) == ("Hm.", "I read.", StopReason.TOOL_USE)
    assert [(call.id, call.name, call.arguments) for call in reply.calls] == [
        ("call_0_0", "read_file", {"path": "ü"}),
        ("call_0_1", "count", {"upto": 2}),
    ]
    assert reply.request_id == "req_wire"
    assert reply.first_call_ms > 0


@pytest.mark.parametrize("wire", [Wire(crlf=True), Wire(chunk=1), Wire(chunk=5, crlf=True)])
def test_any_chunking_gives_the_same_answer(wire: Wire) -> None:
    turn = Say(text="naïve 😀", calls=[("read_file", {"path": "日"})], wire=wire)
    reply = answer(lambda seen: turn, "openai")
    assert (reply.text, reply.calls[0].arguments) == ("naïve 😀", {"path": "日"})


def test_the_conversation_goes_on_in_the_other_form() -> None:
    turn = Say(thinking="Hm.", text="I read.", calls=[("read_file", {"path": "a"}), ("count", {"upto": 2})])
    with WireServer(lambda seen: turn) as server:
        asked = request()
        reply = ask(config(server, "openai"), asked)
        ask(config(server, "openai"), continued(asked, reply, ["text of a", "2"]))
    system, first, assistant, *results = server.seen[1].messages
    assert server.faults == []
    assert (system["role"], first) == ("system", {"role": "user", "content": "Hello"})
    assert (assistant["content"], assistant["reasoning_content"]) == ("I read.", "Hm.")
    assert [json.loads(call["function"]["arguments"]) for call in assistant["tool_calls"]] == [
        {"path": "a"},
        {"upto": 2},
    ]
    assert [(message["role"], message["content"]) for message in results] == [("tool", "text of a"), ("tool", "2")]


def test_thinking_of_another_model_is_not_sent() -> None:
    foreign = [{"type": "thinking", "thinking": "Hm.", "signature": "x"}, {"type": "text", "text": "Yes."}]
    with WireServer(lambda seen: Say(text="ok")) as server:
        ask(config(server, "openai"), request(user("a"), {"role": "assistant", "content": foreign}, user("b")))
    assert server.seen[0].messages[2] == {"role": "assistant", "content": "Yes."}


def test_calls_count_whatever_the_finish_reason_says() -> None:
    reply = answer(lambda seen: said(piece("{}", index=0, id="a", name="count"), finish="stop"), "openai")
    assert (reply.stop, reply.raw_stop, len(reply.calls)) == (StopReason.TOOL_USE, "stop", 1)


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", StopReason.END_TURN),
        ("length", StopReason.MAX_TOKENS),
        ("content_filter", StopReason.REFUSAL),
        ("new_reason", StopReason.OTHER),
        (None, StopReason.CUT),
    ],
)
def test_finish_reasons(finish: str | None, stop: StopReason) -> None:
    assert answer(lambda seen: said({"content": "So"}, finish=finish), "openai").stop is stop


@pytest.mark.parametrize("finish", ["length", None])
def test_a_call_that_was_cut_is_not_executed(finish: str | None) -> None:
    deltas = (piece('{"upto": 1}', index=0, id="a", name="count"), piece('{"upto": 1', index=1, id="b", name="count"))
    first, second = answer(lambda seen: said(*deltas, finish=finish), "openai").calls
    assert (first.arguments, first.error) == ({"upto": 1}, "")
    assert "not executed" in second.error


WHOLE = '{"upto": 1}'


@pytest.mark.parametrize(
    "deltas",
    [
        [piece('{"upto"', name="count", id="a"), piece(": 1}"), piece(WHOLE, name="count", id="b")],
        [piece('{"upto"', name="count"), piece(": 1}"), piece(WHOLE, name="count")],
        [piece('{"upto"', name="count"), piece(": 1}", name="count"), piece(WHOLE, name="count")],
        [piece('{"upto"', id="a", name="count"), piece(": 1}", id="a"), piece(WHOLE, id="b", name="count")],
        [piece(WHOLE, index=0, id="a", name="count"), piece(WHOLE, index=0, id="b", name="count")],
        [piece('{"upto"', index=0, id="", name="count"), piece(": 1}", index=0), piece(WHOLE, index=1, name="count")],
        [{"tool_calls": [piece(WHOLE, name="count")["tool_calls"][0], piece(WHOLE, name="count")["tool_calls"][0]]}],
    ],
    ids=["no index", "no index or id", "name repeated", "id repeated", "index always 0", "empty id", "one chunk"],
)
def test_calls_without_proper_ids_and_indexes(deltas: list[dict[str, Any]]) -> None:
    reply = answer(lambda seen: said(*deltas), "openai")
    assert [(call.name, call.arguments, call.error) for call in reply.calls] == [("count", {"upto": 1}, "")] * 2
    assert len({call.id for call in reply.calls}) == 2
    assert all(call.id for call in reply.calls)


def test_interleaved_calls_are_put_together_by_index() -> None:
    deltas = [
        piece("", index=0, id="a", name="count"),
        piece("", index=1, id="b", name="read_file"),
        piece('{"up', index=0),
        piece('{"path": ', index=1),
        piece('to": 1}', index=0),
        piece('"x"}', index=1),
    ]
    reply = answer(lambda seen: said(*deltas), "openai")
    assert [call.arguments for call in reply.calls] == [{"upto": 1}, {"path": "x"}]


def test_ids_used_before_are_made_new() -> None:
    use = {"type": "tool_use", "id": "call_0", "name": "count", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "call_0", "content": "1"}
    asked = request(user("a"), {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]})
    reply = answer(lambda seen: said(piece("{}", index=0, id="call_0", name="count")), "openai", asked)
    assert reply.calls[0].id != "call_0"
    assert reply.blocks[0]["id"] == reply.calls[0].id


def test_a_name_in_pieces_is_told_when_it_is_whole() -> None:
    events: list[ModelEvent] = []
    deltas = [piece("", index=0, id="a", name="read_"), piece("", index=0, name="file"), piece("{}", index=0)]
    with WireServer(lambda seen: said(*deltas)) as server:
        reply = ask(config(server, "openai"), on_event=events.append)
    assert [event for event in events if isinstance(event, CallDetected)] == [CallDetected(0, "read_file")]
    assert reply.calls[0].name == "read_file"


def test_broken_arguments_and_arguments_as_an_object() -> None:
    deltas = [
        piece('{"upto": ', index=0, id="a", name="count"),
        {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "count", "arguments": {"upto": 3}}}]},
        piece("{}", index=2, id="c"),
    ]
    broken, whole, nameless = answer(lambda seen: said(*deltas), "openai").calls
    assert "not valid JSON" in broken.error
    assert (whole.arguments, whole.error) == ({"upto": 3}, "")
    assert nameless.error == "the call has no tool name"


def test_the_old_form_of_calls() -> None:
    deltas = [{"function_call": {"name": "count", "arguments": '{"upto"'}}, {"function_call": {"arguments": ": 4}"}}]
    (call,) = answer(lambda seen: said(*deltas, finish="function_call"), "openai").calls
    assert (call.name, call.arguments) == ("count", {"upto": 4})


def test_a_refusal_in_words() -> None:
    reply = answer(lambda seen: said({"refusal": "I will"}, {"refusal": " not."}, finish="stop"), "openai")
    assert (reply.stop, reply.stop_detail) == (StopReason.REFUSAL, "I will not.")


def test_usage_comes_last_and_cached_tokens_are_counted_once() -> None:
    counts = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 15},
    }
    usage = answer(lambda seen: said({"content": "x"}, finish="stop", usage=counts), "openai").usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (40, 60, 20)
    assert usage.thinking_tokens == 15


def test_an_endpoint_that_does_not_stream_is_understood() -> None:
    message = {
        "role": "assistant",
        "content": "Hi",
        "tool_calls": [piece('{"upto": 2}', id="a", name="count")["tool_calls"][0]],
    }
    whole = {"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    reply = answer(lambda seen: Raw(headers={"content-type": "application/json"}, body=json.dumps(whole)), "openai")
    assert (reply.text, reply.calls[0].arguments) == ("Hi", {"upto": 2})


@pytest.mark.spec("K1")
def test_cancelling_closes_the_connection_at_once() -> None:
    async def cancelled(server: WireServer) -> None:
        heard = asyncio.Event()
        adapter = build_adapter(config(server, "openai", timeout=600))
        task = asyncio.create_task(adapter.call(request(), lambda event: heard.set()))
        await asyncio.wait_for(heard.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await left_by_its_client(server)
        await adapter.close()

    with WireServer(lambda seen: Say(text="Long ago", wire=Wire(events=2, then="stall"))) as server:
        asyncio.run(cancelled(server))


def test_a_stream_that_ends_without_a_reason_may_call_tools() -> None:
    """Its end mark says that nothing is missing; a call that cannot be read is not trusted even then."""
    reply = answer(lambda seen: said(piece('{"upto": 1}', index=0, id="a", name="count"), finish=None), "openai")
    assert [(call.name, call.arguments, call.error) for call in reply.calls] == [("count", {"upto": 1}, "")]
    assert reply.stop is StopReason.TOOL_USE
    reply = answer(lambda seen: said(piece('{"upto": 1', index=0, id="a", name="count"), finish=None), "openai")
    assert reply.stop is StopReason.CUT
    assert "not executed" in reply.calls[0].error


def test_without_an_end_mark_a_call_is_not_trusted() -> None:
    chunk = {"model": "m", "choices": [{"index": 0, "delta": piece('{"upto": 1}', index=0, id="a", name="count")}]}
    reply = answer(lambda seen: Raw.sse(f"data: {json.dumps(chunk)}\n\n"), "openai")
    assert reply.stop is StopReason.CUT
    assert "not executed" in reply.calls[0].error


@pytest.mark.parametrize("empty", [{}, {"name": "", "arguments": ""}, {"name": None, "arguments": None}])
def test_empty_fields_of_the_older_form_are_no_call(empty: dict[str, Any]) -> None:
    deltas = (
        {"content": "So", "function_call": empty},
        {"content": "!", "tool_calls": [{"index": 0, "function": empty}]},
    )
    reply = answer(lambda seen: said(*deltas, finish="stop"), "openai")
    assert (reply.text, reply.calls, reply.stop) == ("So!", (), StopReason.END_TURN)


def test_a_call_in_the_older_form_is_still_one() -> None:
    deltas = ({"function_call": {"name": "count", "arguments": ""}}, {"function_call": {"arguments": '{"upto": 2}'}})
    reply = answer(lambda seen: said(*deltas, finish="function_call"), "openai")
    assert [(call.name, call.arguments, call.error) for call in reply.calls] == [("count", {"upto": 2}, "")]


WRITTEN = '<function=count{"upto": 2</function>'


def in_the_stream(**error: Any) -> Raw:
    chunks = [{"model": "m", "choices": [{"index": 0, "delta": {"content": "I count."}}]}, {"error": error}]
    return Raw.sse("".join(openai_sse(chunks)))


def as_an_answer(status: int, **error: Any) -> Raw:
    return Raw(status, {"content-type": "application/json"}, json.dumps({"error": error}))


FAILED_CALL = {
    "message": "Failed to call a function. See 'failed_generation' for more details.",
    "type": "invalid_request_error",
    "code": "tool_use_failed",
    "failed_generation": WRITTEN,
}


@pytest.mark.parametrize(
    "told", [in_the_stream(**FAILED_CALL), as_an_answer(400, **FAILED_CALL), as_an_answer(200, **FAILED_CALL)]
)
def test_a_call_that_the_provider_could_not_read_is_told_to_its_model(told: Raw) -> None:
    """It is no failure of the request: another try of the same would be another throw of the same dice."""
    with WireServer(lambda seen: told if len(seen.messages) == 2 else Say(text="2")) as server:
        asked = request()
        reply = ask(config(server, "openai"), asked)
        (call,) = reply.calls
        assert (reply.stop, call.name, call.arguments) == (StopReason.TOOL_USE, "count", {})
        assert WRITTEN in call.error
        assert ask(config(server, "openai"), continued(asked, reply, [call.error])).text == "2"
    assert server.faults == []


OLLAMA_SAID = f"error parsing tool call: raw='{WRITTEN}', err=invalid character '<' looking for beginning of value"
OLLAMA = {"message": OLLAMA_SAID, "type": "api_error", "param": None, "code": None}


@pytest.mark.parametrize(
    "told",
    [
        as_an_answer(500, **OLLAMA),
        in_the_stream(**OLLAMA),
        Raw(500, {"content-type": "application/json"}, json.dumps({"error": OLLAMA_SAID})),
        Raw.sse(f"data: {json.dumps({'error': OLLAMA_SAID})}\n\n"),
    ],
)
def test_a_call_that_ollama_could_not_read_is_told_to_its_model(told: Raw) -> None:
    reply = answer(lambda seen: told, "openai")
    (call,) = reply.calls
    assert (reply.stop, call.name) == (StopReason.TOOL_USE, "count")
    assert call.error.endswith(f": {WRITTEN}")


@pytest.mark.parametrize(
    "said",
    [
        "llama runner process has terminated: exit status 2",
        f"proxy: {OLLAMA_SAID}",
        "error parsing tool call",
    ],
)
def test_another_answer_of_500_stays_trouble_of_the_server(said: str) -> None:
    with pytest.raises(ModelError) as caught:
        answer(lambda seen: as_an_answer(500, **{**OLLAMA, "message": said}), "openai")
    assert (caught.value.kind, caught.value.status) == (FailureKind.TRANSIENT, 500)


def test_a_call_that_was_under_way_is_the_one_that_failed() -> None:
    chunks = [
        {"choices": [{"index": 0, "delta": piece('{"upto": 1}', index=0, id="a", name="count")}]},
        {"choices": [{"index": 0, "delta": piece('{"path"', index=1, id="b", name="read_file")}]},
        {"error": FAILED_CALL},
    ]
    reply = answer(lambda seen: Raw.sse("".join(openai_sse(chunks))), "openai")
    assert [(call.id, call.name, bool(call.error)) for call in reply.calls] == [
        ("a", "count", False),
        ("b", "read_file", True),
    ]


@pytest.mark.parametrize("finish", ["malformed_function_call", "function_call_filter: MALFORMED_FUNCTION_CALL"])
def test_a_malformed_call_that_only_the_reason_tells_of(finish: str) -> None:
    reply = answer(lambda seen: said({"content": "I count."}, finish=finish), "openai")
    assert (reply.text, reply.stop) == ("I count.", StopReason.TOOL_USE)
    assert [(call.name, "no call of a tool" in call.error) for call in reply.calls] == [("", True)]


@pytest.mark.parametrize(
    "change", [{"code": "invalid_request"}, {"failed_generation": ""}, {"failed_generation": None}, {"code": None}]
)
def test_another_error_of_the_stream_stays_a_failure_of_the_request(change: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="Failed to call"):
        answer(lambda seen: in_the_stream(**{**FAILED_CALL, **change}), "openai")
    assert not answer(lambda seen: said({"content": "Done."}, finish="stop"), "openai").calls
