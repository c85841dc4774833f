"""Signs that are read as others are written as their code points; what people write every day stays as it is."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gates.web.escaping import reveal, warnings_of
from loops.tools import look_alikes
from loops.tools.output import printable

pytestmark = pytest.mark.spec("Q3", "Q5", "S1")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("rm\u034f -rf", "034F"),
        ("rm a\u037eb", "037E"),
        ("cat etc\u2215passwd", "2215"),
        ("cat etc\u2044passwd", "2044"),
        ("ls \u2215", "2215"),
        ("rm \u2212rf .", "2212"),
        ("rm \u2013rf .", "2013"),
        ("\uff52\uff4d -rf .", "FF52"),
        ("\U0001d42b\U0001d426 -rf .", "1D42B"),
        ("cat re\u0301sume\u0301.txt", "0301"),
        ("\u212bngstrom.txt", "212B"),
    ],
)
def test_what_is_read_as_something_else_is_written_as_its_code_point(text: str, code: str) -> None:
    assert f"<U+{code}>" in printable(text)
    assert f"U+{code}" in reveal(text)
    assert any(f"U+{code}" in warning for warning in warnings_of({"command": text}))


@pytest.mark.parametrize(
    "text",
    [
        "Don\u2019t \u201cquote\u201d the users\u2019 \u2018it\u2019 and so on\u2026",
        "A dash \u2013 pages 1\u20132, 3 \u00d7 4 m\u00b2",
        "Größe \u2013 naïve café, Ångström",
        "\u041f\u0440\u0438\u0432\u0435\u0442, \u0441 \u043d\u0443\u043b\u044f: \u043e\u0441\u0430",
        "\u8fd0\u884c git status\uff0c\u7136\u540e\u4fee\u590d\uff1a\u9519\u8bef\uff08\u89c1\u6587\u6863\uff09\u3002",
        "\u65e5\u672c\u8a9e\uff1a\u30c6\u30b9\u30c8\u3092\u5b9f\u884c",
        "\ud55c\uad6d\uc5b4 \u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22 \u0939\u093f\u0928\u094d\u0926\u0940",
        "\u092c\u0921\u093c\u093e \u092c\u095c\u093e \u0958\u0932\u092e",
        "ti\u1ebfng Vi\u1ec7t",
    ],
)
def test_what_people_write_every_day_stays_as_it_is(text: str) -> None:
    assert printable(text) == reveal(text) == text


LETTERS = st.characters(categories=["L", "Mn"]) | st.sampled_from("e\u00e9a\u1ead\uac00\uac01\u0301\u0323\u0327")


@given(text=st.text(LETTERS))
def test_two_texts_that_differ_in_how_they_are_composed_are_not_shown_alike(text: str) -> None:
    composed, apart = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    shown = {unicodedata.normalize("NFC", printable(one)) for one in (composed, apart)}
    assert len(shown) == len({composed, apart})


def test_a_long_word_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, read_as = [], look_alikes._read_as
    monkeypatch.setattr(look_alikes, "_read_as", lambda character: looked.append(1) or read_as(character))
    word = "a\u2013" * 20_000
    assert len(list(look_alikes.places(word))) == 20_000
    assert len(looked) <= 2 * len(word)
