"""Real answers of the Messages API, served again to the real SDK: every one is mapped, none is lost.

The whole recordings are used where they are present, a small extract always (see ``tests/data/wire/SOURCES.md``).
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from loops.engine.values import ModelReply, ModelRequest, ModelRole, StopReason
from tests.wire.client import ask, config, request
from tests.wire.say import Raw
from tests.wire.server import WireServer

pytestmark = pytest.mark.spec("C2", "C3")

EXTRACT = Path(__file__).parents[2] / "data" / "wire"
WHOLE = Path(__file__).parents[4] / "shared" / "data" / "wire"


def exchanges(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("anthropic-recorded*.jsonl*")):
        open_text = gzip.open if path.suffix == ".gz" else open
        with open_text(path, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


@pytest.fixture(scope="module")
def server() -> Iterator[WireServer]:
    with WireServer(lambda seen: Raw(500, {}, "")) as running:
        running.strict = False
        yield running


def replayed(server: WireServer, exchange: Mapping[str, Any]) -> ModelReply:
    sse = bool(exchange["sse"])
    kind = "text/event-stream" if sse else "application/json"
    headers = {"content-type": kind, "request-id": exchange["headers"].get("request-id", "")}
    raw = Raw(exchange["status"], headers, exchange["body"], stream=sse)
    asked = ModelRequest(
        role=ModelRole.ACTOR, model="m", system="", messages=tuple(exchange["request"]["messages"]), max_tokens=4096
    )
    server.handler = lambda seen: raw
    return ask(config(server), asked)


def expected(exchange: Mapping[str, Any]) -> tuple[list[str], str, int, int, str]:
    """(kinds of blocks, stop, input and output tokens, text), read from the body without any of our code."""
    if not exchange["sse"]:
        body = json.loads(exchange["body"])
        usage = body["usage"]
        text = "".join(block.get("text", "") for block in body["content"] if block["type"] == "text")
        kinds = [block["type"] for block in body["content"]]
        return kinds, body["stop_reason"], usage["input_tokens"], usage["output_tokens"], text
    events = [json.loads(line[5:]) for line in exchange["body"].splitlines() if line.startswith("data:")]
    kinds = [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"]
    usage, stop, text = {}, "", ""
    for event in events:
        usage |= event.get("usage") or event.get("message", {}).get("usage") or {}
        delta = event.get("delta", {})
        stop = delta.get("stop_reason") or stop
        text += delta.get("text", "")
    return kinds, stop, usage["input_tokens"], usage["output_tokens"], text


def check(server: WireServer, exchange: Mapping[str, Any]) -> None:
    reply = replayed(server, exchange)
    kinds, stop, read, said, text = expected(exchange)
    assert [block["type"] for block in reply.blocks] == kinds
    assert (reply.raw_stop, reply.text) == (stop, text)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (read, said)
    assert len(reply.calls) == kinds.count("tool_use")
    assert all(not call.error for call in reply.calls)
    assert reply.stop not in (StopReason.CUT, StopReason.OTHER)
    assert reply.request_id == exchange["headers"].get("request-id", "")
    assert all(block["signature"] for block in reply.blocks if block["type"] == "thinking")
    json.dumps([dict(block) for block in reply.blocks], ensure_ascii=False).encode()


def test_the_extract_is_mapped_whole(server: WireServer) -> None:
    found = list(exchanges(EXTRACT))
    assert found
    for exchange in found:
        check(server, exchange)


@pytest.mark.skipif(not WHOLE.is_dir(), reason="the whole recordings are not here")
def test_every_recorded_exchange_is_mapped_whole(server: WireServer) -> None:
    found = list(exchanges(WHOLE))
    for exchange in found:
        check(server, exchange)
    assert len(found) == 117


def odd_streams(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "streams").glob("*.*"))}


STREAMS = odd_streams(EXTRACT) | (odd_streams(WHOLE) if WHOLE.is_dir() else {})
STOPS = {
    "basic_response.txt": StopReason.END_TURN,
    "compaction_response.txt": StopReason.END_TURN,
    "incomplete_partial_json_response.txt": StopReason.MAX_TOKENS,
    "refusal_response.txt": StopReason.REFUSAL,
    "tool_use_response.txt": StopReason.TOOL_USE,
}


def streamed(body: bytes) -> ModelReply:
    with WireServer(lambda seen: Raw.sse(body)) as server:
        return ask(config(server))


@pytest.mark.parametrize("name", STREAMS)
def test_every_odd_stream_is_understood(name: str) -> None:
    reply = streamed(STREAMS[name])
    assert reply.stop is STOPS.get(name, reply.stop)
    assert reply.stop is not StopReason.CUT
    assert reply.usage.output_tokens > 0 or reply.stop is StopReason.REFUSAL
    json.dumps([dict(block) for block in reply.blocks], ensure_ascii=False).encode()


def test_a_real_call_cut_at_the_limit_is_not_executed() -> None:
    (call,) = streamed(STREAMS["incomplete_partial_json_response.txt"]).calls
    assert (call.arguments, call.error) == ({}, "cut off by max_tokens; not executed")


def test_a_real_refusal_says_why() -> None:
    reply = streamed(STREAMS["refusal_response.txt"])
    assert reply.stop_detail == "cyber: This request was refused due to policy."


def test_what_came_before_the_cut_of_the_stream_is_never_lost() -> None:
    """Every prefix of a real stream gives an answer, or an error worth another try."""
    body = STREAMS["tool_use_response.txt"]
    parts = body.split(b"\n\n")
    for length in range(1, len(parts) + 1):
        reply = streamed(b"\n\n".join(parts[:length]) + b"\n\n")
        assert reply.stop in (StopReason.CUT, StopReason.TOOL_USE)
        assert all(call.error for call in reply.calls) or reply.stop is StopReason.TOOL_USE
    assert request().messages
