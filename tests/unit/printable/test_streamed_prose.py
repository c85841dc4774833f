"""What is shown while it is written reads as what is stored of it: the same signs are code points (SPEC R2, Q3)."""

from __future__ import annotations

import itertools
import random
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine.values import CallDetected, TextDelta
from loops.printable.stream import PrintableInPieces, ProseInPieces
from loops.printable.text import printable, prose
from loops.streams import ModelStream, OutputStream

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
        *("etc\u2215passwd", "1\u20442", "a\u2044", "\uff52\uff4d", "e\u0301", "o\u030a\u0301", "\u2212rf", "a\u00a0b"),
        *(
            "\u65e5\u672c\u8a9e",
            "caf\u00e9",
            "3\u00d74",
            "\u201cyes\u201d",
            "\u03bf\u0301",
            "\U0001d41a",
            "\u1112\u1161\u11ab",
        ),
        *("`\u0430`", "rm\u034f", "\U0001f600", "\ufe0f", "-", "\u2013"),
    ]
)
TEXTS = st.lists(st.tuples(WORDS, st.sampled_from([" ", "\n", ", ", "", "\t"])), max_size=25).map(
    lambda words: "".join(word + gap for word, gap in words)
)


LATIN_FIRST = re.compile(r"[A-Za-z0-9](?=[A-Za-z0-9]*[^\W_A-Za-z0-9])")
"""A cut between a letter of ASCII and one that is none: of ASCII nothing waits for what may come."""


def in_pieces(text: str, cuts: list[int], kind: type[ProseInPieces] = ProseInPieces) -> list[str]:
    wanted = {cut % (len(text) + 1) for cut in cuts}
    places = sorted({0, len(text), *(cut for cut in wanted if not LATIN_FIRST.match(text[max(0, cut - 1) :]))})
    reader = kind()
    return [*(reader.feed(text[one:other]) for one, other in itertools.pairwise(places)), reader.finish()]


@given(TEXTS, st.lists(st.integers(0, 500), max_size=60))
def test_the_pieces_are_the_whole(text: str, cuts: list[int]) -> None:
    assert "".join(in_pieces(text, cuts)) == prose(text)
    assert "".join(in_pieces(text, cuts, PrintableInPieces)) == printable(text)


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


@pytest.mark.parametrize("kind", [ProseInPieces, PrintableInPieces])
def test_a_very_long_word_takes_no_longer_than_many_short_ones(kind: type[ProseInPieces]) -> None:
    begun = time.process_time()
    shown = in_pieces("x" * 60_000 + " caf\u00e9 ", [], kind)
    assert len("".join(shown)) == 60_006
    assert time.process_time() - begun < 3, "it took a time by the square of its length"


def test_output_and_names_of_calls_are_marked_as_in_the_stored_step() -> None:
    """Signs and spaces that are read as others too, which the sentences of a model may have."""
    sent: dict[str, str] = {}

    class Feed:
        def delta(self, *, kind: str, text: str, **_: Any) -> None:
            sent[kind] = sent.get(kind, "") + text

    deceives = "cat etc\u2215passwd 1\u20442 \uff52\uff4d e\u0301 a\u00a0b \u2212rf"
    output = OutputStream(Feed(), 1, "c1")  # type: ignore[arg-type]
    for byte in deceives.encode():
        output.on_output("stdout", bytes([byte]))
    output.on_output("stderr", b"plain \xc3\xa9t\xc3\xa9\n")
    output.close()
    model = ModelStream(Feed(), 1, 1)  # type: ignore[arg-type]
    model.on_event(CallDetected("c1", "run\u2215it"))
    model.on_event(TextDelta("a\u00a0b, 5\u00a0%"))
    model.close()
    assert (
        sent["stdout"]
        == printable(deceives)
        == ("cat etc<U+2215>passwd 1\u20442 <U+FF52><U+FF4D> e<U+0301> a<U+00A0>b <U+2212>rf")
    )
    assert sent["stderr"] == "plain \u00e9t\u00e9\n", "ordinary words stay"
    assert (sent["call"], sent["text"]) == ("run<U+2215>it\n", "a\u00a0b, 5\u00a0%")


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
