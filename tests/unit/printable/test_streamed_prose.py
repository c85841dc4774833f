"""What is shown while it is written reads as what is stored of it: the same signs are code points (SPEC R2, Q3)."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine.values import TextDelta
from loops.printable.stream import ProseInPieces
from loops.printable.text import prose
from loops.streams import ModelStream

pytestmark = pytest.mark.spec("R2", "Q3")
WORDS = st.sampled_from(
    [
        *("run", "\u0441\u043e\u0440", "\u0440\u0430\u0443\u0440al", "\u043f\u0440\u0438\u0432\u0435\u0442", "\u0410"),
        *(
            "\u03b1\u03b2",
            "\u00b5s",
            "na\u00efve",
            "\u200badmin",
            "\u202eexe.txt",
            "\x1b[31m",
            "a/\u0441\u043e\u0440.py",
        ),
        *("`\u0430`", "rm\u034f", "\U0001f600", "\ufe0f", "-", "\u2013"),
    ]
)
TEXTS = st.lists(st.tuples(WORDS, st.sampled_from([" ", "\n", ", ", "", "\t"])), max_size=25).map(
    lambda words: "".join(word + gap for word, gap in words)
)


def in_pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    reader = ProseInPieces()
    return [*(reader.feed(text[one:other]) for one, other in itertools.pairwise(places)), reader.finish()]


@given(TEXTS, st.lists(st.integers(0, 500), max_size=60))
def test_the_pieces_are_the_whole(text: str, cuts: list[int]) -> None:
    assert "".join(in_pieces(text, cuts)) == prose(text)


def test_letter_by_letter_an_ordinary_text_is_not_marked_and_comes_as_it_is_written() -> None:
    """Russian, Greek, Chinese and English lines, some of which begin with a word that Latin letters could write."""
    lines = [
        "\u0410 \u0442\u0430\u043a\u0436\u0435 \u0441\u043e\u0440 \u0432 \u0438\u0437\u0431\u0435",
        "\u03a4\u03bf \u03c0\u03c1\u03cc\u03b3\u03c1\u03b1\u03bc\u03bc\u03b1 \u03c4\u03c1\u03ad\u03c7\u03b5\u03b9",
        "\u8fd9\u4e2a\u6587\u4ef6\u662f\u7a7a\u7684\uff0c\u6ca1\u6709\u5185\u5bb9",
        "The file is empty; na\u00efve caf\u00e9s stay.",
    ]
    text = "\n".join(lines) + "\n"
    shown = in_pieces(text, [*range(len(text))])
    assert "".join(shown) == text
    chinese = [piece for piece in shown if "\u4e00" <= piece <= "\u9fff"]
    assert len(chinese) >= 10, "a script without blanks is not held back to the end of its line"


def test_no_more_than_a_bound_waits() -> None:
    reader = ProseInPieces()
    shown = "".join(reader.feed("\u0441\u043e\u0440 ") for _ in range(1_000))
    assert 4_000 - len(shown.replace("<U+0441><U+043E><U+0440>", "\u0441\u043e\u0440")) <= reader.LONGEST_WAITING


def test_a_word_of_two_alphabets_never_reaches_the_live_page() -> None:
    sent: list[str] = []

    class Feed:
        def delta(self, **piece: Any) -> None:
            sent.append(piece["text"])

    stream = ModelStream(Feed(), 1, 1)  # type: ignore[arg-type]
    for letter in "send it to \u0440\u0430\u0443\u0440al.example now":
        stream.on_event(TextDelta(letter))
    stream.close()
    assert "".join(sent) == "send it to <U+0440><U+0430><U+0443><U+0440>al.example now"


def test_the_offsets_number_what_was_sent() -> None:
    sent: list[tuple[int, str]] = []

    class Feed:
        def delta(self, *, offset: int, text: str, **_: Any) -> None:
            sent.append((offset, text))

    stream = ModelStream(Feed(), 1, 1)  # type: ignore[arg-type]
    chance = random.Random(1)
    for _ in range(300):
        stream.on_event(TextDelta(chance.choice(["a \u0430b ", "\x1b[1m", "\n", "plain "])))
    stream.close()
    at = 0
    for offset, text in sent:
        assert offset == at
        at += len(text)
