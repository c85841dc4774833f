"""Characters that are read as others: by the table of Unicode Technical Standard 39, and by how they are composed."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

_WORD = re.compile(r"\S+")


def places(text: str) -> Iterator[int]:
    """Where in ``text`` such characters stand: those of a word that would be read as ASCII, and those that would be
    read the same if they were composed in another way. Letters of other alphabets are none of them."""
    if text.isascii():
        return
    for match in _WORD.finditer(text):
        word = match.group()
        if word.isascii():
            continue
        is_ascii_to_readers, base = all(map(_read_as, word)), ""
        for at, character in enumerate(word):
            if not character.isascii() and (
                _is_composed_otherwise(base, character) or (is_ascii_to_readers and not _is_typography(word, at))
            ):
                yield match.start() + at
            if not unicodedata.combining(character):
                base = character


def _is_composed_otherwise(base: str, character: str) -> bool:
    """Is there one character for this one, or for it and the one that it stands on? Those that Unicode takes apart
    for good, as letters with a nukta in Hindi, are written either way."""
    alone = unicodedata.normalize("NFC", character)
    return (alone != character and len(alone) == 1) or (
        bool(base) and len(unicodedata.normalize("NFC", base + character)) == 1
    )


def _read_as(character: str) -> str:
    """The ASCII character that it is, or is taken for; "" where it is neither."""
    if character.isascii():
        return character
    if found := _table().get(character):
        return found
    wide = unicodedata.normalize("NFKC", character)
    is_written_small = unicodedata.category(character) in {"No", "Lm", "Lo"}
    return wide if len(wide) == 1 and wide.isascii() and not is_written_small else ""


def _is_typography(word: str, at: int) -> bool:
    """As people write prose: quotation marks, a dash or a \u00d7 alone, a sign between digits."""
    before, after = word[at - 1 : at], word[at + 1 : at + 2]
    if word[at] in "\u2018\u2019":
        return True
    if len(word) == 1 and (unicodedata.category(word) == "Pd" or _read_as(word).isalnum()):
        return True
    return before.isdecimal() and after.isdecimal() and not word[at].isalnum()


@cache
def _table() -> Mapping[str, str]:
    """Character -> the ASCII that it is taken for. Read where text is not ASCII, and kept as small as it is."""
    listed = json.loads((files("confusable_homoglyphs") / "confusables.json").read_text("utf-8"))
    pairs = ((one, other["c"]) for one, others in listed.items() for other in others if _is_sign(one))
    return {one: other for one, other in pairs if len(other) == 1 and other.isascii() and other.isprintable()}


def _is_sign(character: str) -> bool:
    """No letter of another alphabet: words in it are ordinary, and those that mix two are pointed out as words."""
    if len(character) != 1 or character.isascii():
        return False
    is_letter = unicodedata.category(character)[0] in "LM"
    return not is_letter or unicodedata.normalize("NFKC", character).isascii()
