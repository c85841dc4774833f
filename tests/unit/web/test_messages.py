"""Nothing that is sent over a socket is longer than a message may be, and nothing is lost by that (SPEC R2)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentops.edge import request_limits
from loops.web.live import messages

pytestmark = pytest.mark.spec("R2")
BODY = {"t": "cards", "after": 3, "seq": 9, "said": "Step 2 done."}
PARTS = st.lists(st.builds(lambda text, times: text * times, st.text(max_size=30), st.integers(0, 400)), max_size=40)


@given(PARTS.map(lambda parts: [part for part in parts if messages.fits(part)]))
def test_parts_are_cut_between_each_other(parts: list[str]) -> None:
    texts = messages.of_parts(parts, BODY)
    sent = [json.loads(text) for text in texts]
    assert max(len(text.encode()) for text in texts) <= messages.LONGEST
    assert "".join(one["html"] for one in sent) == "".join(parts)
    assert [one.get("more", False) for one in sent] == [True] * (len(sent) - 1) + [False]
    assert [one["said"] for one in sent] == [""] * (len(sent) - 1) + [BODY["said"]]
    assert all((one["after"], one["seq"]) == (3, 9) for one in sent)


def test_a_title_of_200_signs_fits_beside_the_longest_part() -> None:
    part = "x" * (messages.LONGEST - messages._ENVELOPE - 2)
    assert messages.fits(part)
    (text,) = messages.of_parts([part], {**BODY, "said": "\U0001f600" * 200 + " waits for your decision"})
    assert len(text.encode()) <= messages.LONGEST


def test_the_server_lets_every_message_out() -> None:
    """Autobahn holds what is sent to the bound of what comes in, and ends the socket of a longer message."""
    assert messages.LONGEST <= request_limits.FRAME


def test_short_news_are_one_message() -> None:
    assert len(messages.of_parts(["<li>1</li>"] * 50, BODY)) == 1
    assert len(messages.of_parts([], BODY)) == 1


def test_long_ones_are_several() -> None:
    assert len(messages.of_parts(["x" * 40_000] * 5, BODY)) == 5


@pytest.mark.parametrize(("part", "fits"), [("x" * 60_000, True), ("x" * 65_536, False), ("\u2014" * 11_000, False)])
def test_a_part_is_measured_as_it_is_sent(part: str, fits: bool) -> None:
    assert messages.fits(part) is fits


def test_what_fits_into_no_message_is_refused_before_it_is_sent() -> None:
    with pytest.raises(ValueError, match="too long for a message"):
        messages.of_parts(["short", "x" * messages.LONGEST], BODY)


PIECE = st.fixed_dictionaries(
    {
        "step": st.integers(1, 9),
        "call": st.sampled_from(["m1", "c2.1"]),
        "kind": st.sampled_from(["text", "stdout"]),
        "offset": st.integers(0, 10**6),
        "text": st.builds(lambda text, times: text * times, st.text(min_size=1, max_size=20), st.integers(1, 600)),
    }
)


@given(st.lists(PIECE, max_size=20))
def test_streamed_pieces_keep_their_end_and_its_place(pieces: list[dict[str, Any]]) -> None:
    texts = messages.of_deltas(pieces)
    sent = [delta for text in texts for delta in json.loads(text)["deltas"]]
    assert all(len(text.encode()) <= messages.LONGEST for text in texts)
    assert len(sent) == len(pieces)
    for delta, piece in zip(sent, pieces, strict=True):
        assert piece["text"].endswith(delta["text"])
        assert len(delta["text"]) == min(len(piece["text"]), messages.STREAMED_CHARS)
        assert delta["offset"] + len(delta["text"]) == piece["offset"] + len(piece["text"])
