"""Signs that are read as others are written as their code points; what people write every day stays as it is."""

import gettext
import html
import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django.conf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gates.web.escaping import reveal, warnings_of
from loops.printable import look_alikes
from loops.printable.text import printable

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


DISGUISED = {
    "one letter": ("p\u0430ypal", "p[0430]ypal"),
    "a name of a file": ("\u0455etup.py", "[0455]etup.py"),
    "Greek": ("\u03c1aypal", "[03C1]aypal"),
    "Greek, with an accent": ("p\u03acypal", "p[03AC]ypal"),
    "Armenian": ("g\u0585\u0585gle", "g[0585][0585]gle"),
    "Cherokee": ("\u13aapple", "[13AA]pple"),
    "a digit": ("a\u06f1b", "a[06F1]b"),
    "a stroke that reads as a slash": ("etc\u30cepasswd", "etc[30CE]passwd"),
    "most of the letters": ("\u0455\u0443\u0455t\u0435m", "[0455][0443][0455]t[0435]m"),
    "two alphabets beside Latin": ("p\u0430yp\u03b1l", "p[0430]yp[03B1]l"),
    "Greek in Cyrillic": ("\u041f\u03c1\u0438\u0432\u0435\u0442", "\u041f[03C1]\u0438\u0432\u0435\u0442"),
    "whole words, a name": ("\u0441\u043e\u0440\u0443.\u0440\u0443", "[0441][043E][0440][0443].[0440][0443]"),
    "a whole word of Greek": ("\u0391\u0392\u0395", "[0391][0392][0395]"),
    "a command": ("\u0441\u043e\u0440\u0443 a b", "[0441][043E][0440][0443] a b"),
    "in an English sentence": ("run \u0440\u0443 now", "run [0440][0443] now"),
    "a folder": ("src/\u0441\u043e\u0440\u0443/a.py", "src/[0441][043E][0440][0443]/a.py"),
    "an option": ("ls \u0430", "ls [0430]"),
    "a name in a sentence of its alphabet": (
        "\u041e\u0442\u043a\u0440\u043e\u0439 \u0440\u0443.\u0440\u0443 \u0434\u0430",
        "\u041e\u0442\u043a\u0440\u043e\u0439 [0440][0443].[0440][0443] \u0434\u0430",
    ),
    "a command in backticks in one": (
        "\u0414\u0430\u0439 `\u0441\u043e\u0440\u0443`",
        "\u0414\u0430\u0439 `[0441][043E][0440][0443]`",
    ),
    "only names are of its alphabet": ("\u0440\u0443 \u0434\u043b\u044f.txt", "[0440][0443] \u0434\u043b\u044f.txt"),
    "a path in a sentence": ("\u0414\u0430\u0439 /\u0440\u0443", "\u0414\u0430\u0439 /[0440][0443]"),
    "most of the letters, with an accent": ("\u0441\u0451a", "[0441][0451]a"),
    "a path of its alphabet": ("\u0440\u0443/\u0434\u043b\u044f", "[0440][0443]/\u0434\u043b\u044f"),
    "another line is of its alphabet": ("\u0440\u0443\n\u0434\u043b\u044f", "[0440][0443]\n\u0434\u043b\u044f"),
}


@pytest.mark.parametrize("what", DISGUISED)
def test_letters_of_another_script_are_written_as_their_code_points(what: str) -> None:
    text, shown = DISGUISED[what]
    assert printable(text).replace("<U+", "[").replace(">", "]") == shown
    assert len(warnings_of([text])) >= 1


def test_the_letter_that_does_not_belong_is_marked_in_a_word_of_another_alphabet() -> None:
    assert printable("\u041fp\u0438\u0432\u0435\u0442") == "\u041f\\x70\u0438\u0432\u0435\u0442"
    assert printable("\u03b7\u03bb\u03b5\u03bao") == "\u03b7\u03bb\u03b5\u03ba\\x6f"


DATA = Path(__file__).parents[2] / "data"
ORDINARY = (DATA / "ordinary_names.txt").read_text("utf-8").splitlines()


@pytest.mark.parametrize("text", ORDINARY)
def test_names_and_signs_of_many_languages_stay_as_they_are(text: str) -> None:
    assert printable(text) == html.unescape(reveal(text)) == text
    assert warnings_of([text]) == []


LANGUAGES = "ar bg bn de el es fa fr he hi hy ja ka ko pl ru sr ta te th tr uk vi zh_Hans"


@pytest.mark.parametrize("language", LANGUAGES.split())
def test_sentences_of_many_languages_have_no_disguised_words(language: str) -> None:
    """Those of Django's own translations, without the places that it fills."""
    file = Path(django.conf.__file__).parent / "locale" / language / "LC_MESSAGES" / "django.mo"
    with file.open("rb") as opened:
        texts = [
            text for text in gettext.GNUTranslations(opened)._catalog.values() if text and not set(text) & set("%<[")
        ]
    sentences = [
        text for text in texts if not text.isascii() and (len(text.split()) > 3 or language in ("ja", "zh_Hans"))
    ]
    assert sentences
    assert [word for text in sentences for word in look_alikes.disguised(text)] == []


@pytest.mark.parametrize("file", ["languages_complexity.json", "languages_stopping.json"])
def test_tasks_and_messages_of_many_languages_have_no_disguised_words(file: str) -> None:
    texts = [*strings(json.loads((DATA / file).read_text("utf-8")))]
    assert sum(not text.isascii() for text in texts) > 50
    assert [word for text in texts for word in look_alikes.disguised(text)] == []


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    else:
        for one in value.values() if isinstance(value, dict) else value:
            yield from strings(one)


def test_a_text_of_ascii_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("_signs", "disguised"):
        monkeypatch.setattr(look_alikes, each, lambda text: pytest.fail("it was searched"))
    assert printable("x = 1\t# done\n" * 5_000) == "x = 1\t# done\n" * 5_000


def test_a_word_is_judged_once_however_often_it_stands_there(monkeypatch: pytest.MonkeyPatch) -> None:
    look_alikes._judged.cache_clear()
    text = "x = 1  # \u044d\u0442\u043e \u043e\u0441\u0430\n" * 5_000
    assert printable(text) == text
    assert look_alikes._judged.cache_info().misses == 2


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
