"""Text as a reviewer sees it."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gates.web.shown import is_odd, reveal, reveal_code, warnings_of

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
    assert warnings_of({"host": "ex\u0430mple.com"}) == ["“ex\u0430mple” mixes Latin and Cyrillic letters"]
    assert warnings_of({"host": "example.com"}) == []
