"""Text as a reviewer sees it."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gates.web.escaping import reveal, reveal_code, warnings_of
from loops.printable.text import is_odd

pytestmark = pytest.mark.spec("Q3", "Q5")


def plain(shown: str) -> str:
    """What remains of the text when marks are taken for their characters again."""
    back = re.sub(r'<span class="odd" title="[^"]*">U\+([0-9A-F]+)</span>', lambda found: chr(int(found[1], 16)), shown)
    return html.unescape(back)


@given(text=st.text(st.characters(codec="utf-8", exclude_characters="&")))
def test_nothing_is_left_out_or_added(text: str) -> None:
    assert plain(reveal_code(text)) == text


@given(text=st.text())
def test_no_odd_character_reaches_the_page(text: str) -> None:
    assert not any(is_odd(character) for character in reveal(text))


@given(text=st.text(alphabet="<>&\"'abc=/ \u202e"))
def test_text_is_never_markup(text: str) -> None:
    assert "<" not in re.sub(r'<span class="odd" title="[^"<>]*">[^<>]*</span>', "", reveal(text))


@pytest.mark.parametrize(("text", "said"), [("ls ", "1 space"), ("  ls", "2 spaces"), ("   ", "3 spaces")])
def test_spaces_at_the_edges_are_said(text: str, said: str) -> None:
    assert said in reveal(text)


@pytest.mark.parametrize(
    "text", ["ls -la", "déjà vu", "日本語", "if x:\n    y\n", "\u043f\u0440\u0438\u0432\u0435\u0442"]
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert "odd" not in reveal(text)
    assert not warnings_of({"x": [text]})


def test_letters_of_two_alphabets_in_a_word_are_pointed_out() -> None:
    assert warnings_of({"host": "ex\u0430mple.com"}) == ["“ex<U+0430>mple” mixes Latin and Cyrillic letters"]
    whole = "“<U+0441><U+043E><U+0440><U+0443>” is in Cyrillic letters that are read as Latin ones"
    assert warnings_of(["\u0441\u043e\u0440\u0443 a.txt"]) == [whole]
    assert warnings_of({"host": "example.com", "size": "\u0394t = 5 \u00b5s"}) == []


@pytest.mark.spec("X5")
def test_letters_are_pointed_out_however_far_down_they_stand() -> None:
    assert warnings_of(["\u043f" * 300_000 + " ex\u0430mple"]) == ["“ex<U+0430>mple” mixes Latin and Cyrillic letters"]


@pytest.mark.spec("X5")
def test_kinds_of_oddity_beyond_the_twelfth_are_counted() -> None:
    odd = [chr(0xE000 + number) for number in range(15)]
    assert len(warnings_of(odd[:12])) == 12
    assert not any(warning.startswith("and ") for warning in warnings_of(odd[:12]))
    assert warnings_of(odd)[12:] == ["and 3 more kinds, marked where they stand"]
