"""Embeddings through the real client against a server on the wire: what is asked, and what is refused (SPEC F2)."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from loops.engine.loop_detection.meaning import cosine
from loops.engine.ports import ModelError
from loops.llm.embeddings import BATCH, MOST_BYTES, Embeddings, connected
from tests.wire.embeddings import DIMENSIONS, MODEL, config, honest, serving
from tests.wire.say import Handler, Raw, Wire
from tests.wire.server import WireServer

pytestmark = pytest.mark.spec("F2")
ONE = [1.0] * DIMENSIONS


def refused(handler: Handler, texts: tuple[str, ...] = ("a", "b"), within_s: float = 60.0) -> ModelError:
    with WireServer(handler) as server, pytest.raises(ModelError) as caught:
        Embeddings(config(server), within_s)(texts)
    return caught.value


def test_each_text_gets_its_vector_whatever_the_order_of_the_answer() -> None:
    texts = [f"{word} the file" for word in ("find", "seek", "burn", "paint")] * 20
    with WireServer(serving(), key="secret-key-1") as server:
        vectors = Embeddings(config(server))(texts)
        assert [len(seen.body["input"]) for seen in server.seen] == [BATCH, BATCH, 16]
        assert {seen.body["model"] for seen in server.seen} == {MODEL}
        assert server.faults == []
    assert len(vectors) == len(texts)
    assert all(math.hypot(*each) == pytest.approx(1) for each in vectors)
    assert cosine(vectors[0], vectors[1]) == pytest.approx(1)
    assert cosine(vectors[0], vectors[2]) < 0.9
    assert vectors[0] == vectors[76]


HOSTILE: dict[str, Any] = {
    "too few": lambda texts: honest(texts)[:-1],
    "too many": lambda texts: [*honest(texts), ONE],
    "one that is shorter": lambda texts: [ONE, ONE[:-1]],
    "no dimensions": lambda texts: [[] for _ in texts],
    "too many dimensions": lambda texts: [[1.0] * 10_000 for _ in texts],
    "not a number": lambda texts: [ONE, [math.nan, *ONE[1:]]],
    "infinite": lambda texts: [ONE, [math.inf, *ONE[1:]]],
    "a number beyond all floats": lambda texts: [ONE, [10**400, *ONE[1:]]],
    "nothing but zeros": lambda texts: [ONE, [0.0] * DIMENSIONS],
    "words": lambda texts: [ONE, ["1.0"] * DIMENSIONS],
    "truth": lambda texts: [ONE, [True] * DIMENSIONS],
    "base64": lambda texts: ["AACAPw==" for _ in texts],
    "nothing": lambda texts: [None for _ in texts],
}
ANSWERS: dict[str, Raw] = {
    "no JSON": Raw(body="<html>hello</html>"),
    "another shape": Raw(body=json.dumps([1, 2])),
    "data of another shape": Raw(body=json.dumps({"data": {"0": ONE}})),
    "depths": Raw(body="[" * 100_000),
    "the same index twice": Raw(body=json.dumps({"data": [{"index": 0, "embedding": ONE}] * 2})),
    "an index in words": Raw(body=json.dumps({"data": [{"index": at, "embedding": ONE} for at in ("0", 1)]})),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_vectors_that_are_none_are_refused(name: str) -> None:
    assert refused(serving(HOSTILE[name])).code == "bad_vectors"


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_that_are_none_are_refused(name: str) -> None:
    assert refused(lambda seen: ANSWERS[name]).code == "bad_vectors"


def test_an_answer_without_end_is_left() -> None:
    assert "too large" in str(refused(lambda seen: Raw(body=b" " * (MOST_BYTES + 1))))


def test_a_model_that_changes_its_dimensions_is_refused() -> None:
    with WireServer(serving(lambda texts: [ONE[: len(text)] for text in texts])) as server:
        embeddings = Embeddings(config(server))
        assert len(embeddings(["four"])[0]) == 4
        with pytest.raises(ModelError, match="3 dimensions, where 4"):
            embeddings(["two"])


def test_a_refusal_of_the_server_is_told_without_the_key() -> None:
    error = refused(lambda seen: Raw.error(401, "invalid_api_key", "Incorrect API key: secret-key-1"))
    assert error.status == 401
    assert "secret-key-1" not in str(error)


def test_a_server_that_answers_too_late_is_left() -> None:
    silent = Raw.sse("", wire=Wire(then="stall"))
    dripping = Raw.sse(" " * 10_000, wire=Wire(chunk=1, pace=0.05))
    for answer in (silent, dripping):
        assert "no answer within 0.3 s" in str(refused(lambda seen, said=answer: said, within_s=0.3))


def test_nobody_at_the_address() -> None:
    with WireServer(serving()) as server:
        gone = config(server)
    for endpoint in (gone, config(server, base_url="nonsense"), config(server, api_key="k\u00e9y")):
        with pytest.raises(ModelError):
            Embeddings(endpoint)(["a"])


def test_only_a_configured_model_of_the_right_kind_can_be_asked() -> None:
    with WireServer(serving()) as server:
        model = config(server)
    assert connected({"meanings": model}, "meanings").model == MODEL
    for configs in ({}, {"meanings": replace(model, provider="anthropic")}):
        with pytest.raises(ModelError, match="no OpenAI-compatible model named 'meanings'"):
            connected(configs, "meanings")
