"""Facts as stored bytes: every kind comes back as it went in, whatever it holds."""

from __future__ import annotations

import dataclasses

import pytest

from loops.engine import facts as f
from loops.engine.facts.encoding import LABEL
from loops.engine.values import FailureKind, ToolResult
from loops.storage.encoding import BLOB_FROM, INLINE_BYTES, decode_fact, encode_fact, link, references

HOSTILE = "NUL \0, half a pair \ud800, " + "x" * (INLINE_BYTES + BLOB_FROM)


@pytest.mark.spec("A3", "N1")
def test_no_field_shares_its_name_with_the_label() -> None:
    for kind in f.KINDS.values():
        assert not {LABEL, "v"} & {field.name for field in dataclasses.fields(kind)}


@pytest.mark.spec("J1", "N1")
@pytest.mark.parametrize(
    "fact",
    [
        f.ModelFailed(at=5, kind=FailureKind.TRANSIENT, code="overloaded_error", message="busy", attempt=2),
        f.GateOpened(at=5, gate="g", kind="question", title="?"),
        f.GateDecided(at=5, gate="g", kind="question", verdict="respond", payload={"answer": HOSTILE}),
        f.ToolCompleted(at=5, call_id="c1.0", tool="read_file", result=ToolResult(ok=True, content=HOSTILE)),
        f.MessageReceived(at=5, text=HOSTILE),
    ],
    ids=lambda fact: type(fact).__name__,
)
def test_a_fact_survives_storage(fact: f.Fact) -> None:
    encoded = encode_fact(fact, b"prev")
    assert decode_fact(encoded.body, lambda sha256: encoded.blobs[sha256]) == fact
    assert set(references(encoded.body)) == set(encoded.blobs)
    assert encoded.hash == link(b"prev", encoded.body)


@pytest.mark.spec("J7")
def test_long_parts_move_to_blobs_and_short_ones_stay() -> None:
    long = encode_fact(f.ToolCompleted(call_id="c", tool="t", result=ToolResult(ok=True, content="x" * 100_000)), b"")
    short = encode_fact(f.ToolCompleted(call_id="c", tool="t", result=ToolResult(ok=True, content="x" * 100)), b"")
    assert len(long.body) < 1000
    assert len(long.blobs) == 1
    assert short.blobs == {}
