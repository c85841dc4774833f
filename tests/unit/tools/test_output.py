"""Any bytes become text that a database, a model and a screen can take (SPEC C5)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.printable.text import printable, prose, reveal
from loops.tools.canonical import problems
from loops.tools.output import clean_text, sha256_hex, show
from tests.unit.tools.harness import Desk

any_text = st.text(st.characters(codec=None, exclude_categories=()))


@pytest.mark.spec("C5")
@given(st.one_of(any_text, st.binary()))
def test_clean_text_is_storable_and_stays_as_it_is(raw: str | bytes) -> None:
    text = clean_text(raw)
    text.encode("utf-8")
    assert "\0" not in text
    assert "\x1b" not in text
    assert clean_text(text) == text


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"))))
def test_ordinary_text_is_not_touched(text: str) -> None:
    assert clean_text(text) == text
    assert clean_text(text.encode()) == text


@pytest.mark.spec("C5")
def test_what_is_hidden_becomes_visible() -> None:
    assert clean_text("a\x1b[31mred\x00\ud800\r\n\t") == "a\\x1b[31mred\\x00\\ud800\r\n\t"
    assert clean_text(b"caf\xe9 \xc3\xa9") == "caf\\xe9 é"


@pytest.mark.spec("C5")
def test_what_a_file_hides_is_seen_by_whoever_reads_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (desk.workspace / "a.txt").write_text("paid\x1b[2K \x9b31m")
    content = desk.run("read_file", path="a.txt").content
    assert "paid\\x1b[2K \\x9b31m" in content
    assert "\x1b" not in content


def test_binary_output_is_named_and_kept_whole() -> None:
    data = os.urandom(1_000)
    blobs: dict[str, bytes] = {}
    shown = show(data, 16_384, lambda b: blobs.setdefault(sha256_hex(b), b) and sha256_hex(b))
    assert shown.text == f"binary output, 1000 bytes, sha256 {sha256_hex(data)}"
    assert blobs[shown.whole_sha256] == data


@given(st.binary(min_size=0, max_size=3_000), st.integers(200, 1_000))
def test_cut_output_fits_says_how_much_is_missing_and_is_kept_whole(data: bytes, limit: int) -> None:
    blobs: list[bytes] = []
    shown = show(data, limit, lambda b: blobs.append(b) or sha256_hex(b))  # type: ignore[func-returns-value]
    assert len(shown.text.encode()) <= 4 * limit + 200
    if shown.truncated:
        assert blobs == [data]
        assert (shown.whole_sha256, shown.whole_size) == (sha256_hex(data), len(data))
    else:
        assert shown.text == clean_text(data)


def test_a_cut_names_the_exact_number_of_bytes() -> None:
    text = show(b"h" * 6_000 + b"t" * 6_000, 1_000, lambda b: "d1").text
    assert "[... 11000 bytes cut; whole output kept as artifact d1 ...]" in text
    assert text.startswith("h" * 500)
    assert text.endswith("t" * 500)


@pytest.mark.spec("Q5")
@pytest.mark.parametrize(
    ("word", "shown", "warned"),
    [
        ("ls", "ls", 0),
        ("ls ", "ls ", 1),
        ("ls\u00a0-l", "ls<U+00A0>-l", 1),
        ("a\u202ecod.exe", "a<U+202E>cod.exe", 1),
        ("pa\u200bth", "pa<U+200B>th", 1),
        ("a\x07b", "a\\x07b", 1),
    ],
)
def test_nothing_hides_from_a_reviewer(word: str, shown: str, warned: int) -> None:
    """Rows 3 and 5 of the attack list."""
    text, warnings = reveal(word)
    assert text == shown
    assert len(warnings) == warned


def test_values_without_a_canonical_form_are_named() -> None:
    assert problems({"a": [1, float("nan")]}, 64) == ["/a/1: NaN and Infinity are not JSON"]
    assert problems({"a": 2**60}, 64) == ["/a: integer beyond 2^53; send it as a string"]
    assert "lone surrogate" in problems({"a": "\ud800"}, 64)[0]
    deep: object = "x"
    for _ in range(100_000):
        deep = [deep]
    found = problems({"a": deep}, 64)  # type: ignore[dict-item]
    assert len(found) == 1
    assert found[0].endswith("nested deeper than 64 levels")
    while isinstance(deep, list):  # take it apart, or the interpreter's own clean-up recurses
        deep = deep.pop()


@pytest.mark.spec("S1")
def test_what_looks_like_nothing_is_written_as_its_code_point() -> None:
    assert printable("a\u3164b\u202ec\ufe0f\x1b[2J") == "a<U+3164>b<U+202E>c<U+FE0F>\\x1b[2J"
    assert printable("Grüße, 你好, Ελλάδα\n\t") == "Grüße, 你好, Ελλάδα\n\t"


@pytest.mark.spec("S1")
@given(any_text)
def test_a_terminal_is_given_nothing_to_obey(text: str) -> None:
    assert all(letter in "\n\t" or letter.isprintable() for letter in printable(text))


@pytest.mark.spec("S1")
@pytest.mark.parametrize(
    "text",
    [
        "\u26a0\ufe0f \U0001f469\u200d\U0001f4bb done",
        "5\u202f% of non\u2011blocking",
        "L\u2019\u00e9t\u00e9\u00a0!",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    ],
)
def test_sentences_stay_as_people_and_models_write_them(text: str) -> None:
    assert prose(text) == text


@pytest.mark.spec("S1", "Q5")
def test_in_sentences_what_deceives_is_written_as_its_code_point() -> None:
    assert (
        prose("run p\u0430ypal\u202e \u2067now\u200b\x1b[2J") == "run p<U+0430>ypal<U+202E> <U+2067>now<U+200B>\\x1b[2J"
    )
