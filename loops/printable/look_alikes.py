"""Characters that are read as others: by Unicode Technical Standard 39 (its table of characters, its levels for mixed
scripts), and by how they are composed."""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

_WORD = re.compile(r"\S+")
_LINE = re.compile(r"[^\n]+")
_TOKEN = re.compile(r"[^\s,;]+")
_BETWEEN_TOKENS = re.compile(r"[\s,;]")
_LETTERS = re.compile(r"[^\W_]+")
_AROUND_A_WORD = ".:!?\"'()[]*-\u2013\u2014\u2026\u00ab\u00bb\u2018\u2019\u201c\u201d\u201e"
_NAMES_HAVE = re.compile(r"[^\x80-\U0010ffff'0-9/-]")
_PATHS_BEGIN = ("/", "~", "./", "../")

_REMEMBERED = 40
"""Longest word whose judgement is kept for the next time."""

_LATIN = frozenset({"LATIN"})
_OF_NO_SCRIPT = frozenset({"COMMON", "INHERITED"})
_HIGHLY_RESTRICTIVE = (
    frozenset({"LATIN", "HAN", "HIRAGANA", "KATAKANA"}),
    frozenset({"LATIN", "HAN", "BOPOMOFO"}),
    frozenset({"LATIN", "HAN", "HANGUL"}),
)
_BESIDE_LATIN = frozenset(
    (
        *("ARABIC", "ARMENIAN", "BENGALI", "BOPOMOFO", "DEVANAGARI", "ETHIOPIC", "GEORGIAN", "GUJARATI", "GURMUKHI"),
        *("HAN", "HANGUL", "HEBREW", "HIRAGANA", "KANNADA", "KATAKANA", "KHMER", "LAO", "MALAYALAM", "MYANMAR"),
        *("ORIYA", "SINHALA", "TAMIL", "TELUGU", "THAANA", "THAI", "TIBETAN"),
    )
)
"""Scripts in use today (UAX 31), without Cyrillic and Greek: "moderately restrictive" allows one of them."""


@dataclass(frozen=True, slots=True)
class Disguised:
    """A word that pretends to be of another script, and where in the text the letters stand that make it so."""

    word: str
    scripts: tuple[str, ...]
    places: tuple[int, ...]


def places(text: str) -> Iterator[int]:
    """Where in ``text`` such characters stand: those of a word that would be read as ASCII, those that would be read
    the same if they were composed in another way, and letters of another script (``disguised``)."""
    if text.isascii():
        return
    yield from _signs(text)
    for word in disguised(text):
        yield from word.places


def disguised(text: str) -> Iterator[Disguised]:
    """Words whose letters are read as those of another script (UTS 39, 4.2 and 5).

    - Scripts are mixed, and all of it is read as ASCII: every letter that is not Latin, whichever scripts they are.
    - Scripts are mixed beyond "highly" and "moderately restrictive", as Latin with Cyrillic or Greek: the letters of
      the fewer that are read as those of the others. \u0394t, k\u03a9 and \u00b5s are read as nothing else.
    - All of one other script, and read as ASCII (a whole-script confusable): every letter, unless its line is written
      in that script: a word that cannot be read as ASCII stands in it, not joined to others by a slash, and not in a
      name. In a name (a dot, an underscore or ASCII letters beside it, a slash before it, backticks) words of two
      letters or more are marked whatever the line is written in. One small Greek letter is a sign of mathematics.
    """
    if text.isascii():
        return
    for line in _LINE.finditer(text):
        if not line.group().isascii():
            yield from (word for word, _ in _in_line(line.group(), line.start()))


def decided(text: str) -> int:
    """How many characters of ``text`` are judged as they are whatever follows. What is not: a name that may go on, and
    words that are as they should be if the rest of their line is written in their script."""
    start = text.rfind("\n") + 1
    line = text[start:]
    if line.isascii():
        return len(text)
    last = _BETWEEN_TOKENS.split(line)[-1]
    if not last.isascii() and not all(map(_is_settled, last)):
        line = line[: len(line) - len(last)]
    return min((word.places[0] for word, is_sure in _in_line(line, start) if not is_sure), default=start + len(line))


def _is_settled(character: str) -> bool:
    """Is it the same whatever letters are joined to it?"""
    script = _script(character)
    return script in _BESIDE_LATIN or (script in _OF_NO_SCRIPT and (character.isascii() or not _table().get(character)))


def decided_with_signs(text: str) -> int:
    """The same of all ``places``: what a sign is read as is decided by the whole of its word."""
    until = decided(text)
    word = "" if not until or text[until - 1].isspace() else text[:until].rsplit(None, 1)[-1]
    return until if word.isascii() else until - len(word)


def _in_line(line: str, start: int) -> Iterator[tuple[Disguised, bool]]:
    """Each with whether it is disguised whatever else the line says."""
    alone: set[str] = set()
    anywhere: set[str] = set()
    whole: list[tuple[int, str, _Judged, bool]] = []
    for at, word, is_name, is_prose in _words(line):
        judged = _judged(word) if len(word) <= _REMEMBERED else _judged.__wrapped__(word)
        if judged.is_whole:
            whole.append((at, word, judged, is_name and len(word) > 1))
        elif judged.places:
            yield _made(word, judged, start + at), True
        elif len(judged.scripts) == 1:
            anywhere |= judged.scripts
            alone |= judged.scripts if is_prose else frozenset()
    for at, word, judged, is_name in whole:
        if is_name or not judged.scripts <= (alone if len(word) > 1 else anywhere):
            yield _made(word, judged, start + at), is_name


def _words(line: str) -> Iterator[tuple[int, str, bool, bool]]:
    """Where each word stands that is not ASCII and no sign, whether in a name, and whether it stands alone."""
    for token in _TOKEN.finditer(line):
        if (written := token.group()).isascii():
            continue
        core = written.strip(_AROUND_A_WORD)
        is_name = bool(_NAMES_HAVE.search(core)) or written.startswith(_PATHS_BEGIN)
        for word in _LETTERS.finditer(written):
            if not (letters := word.group()).isascii() and not _is_mathematics(letters):
                yield token.start() + word.start(), letters, is_name, not is_name and "/" not in core


def _is_mathematics(word: str) -> bool:
    return len(word) == 1 and word.islower() and _script(word) == "GREEK" and word != "\u03bf"


def _made(word: str, judged: _Judged, start: int) -> Disguised:
    return Disguised(word, tuple(sorted(judged.scripts)), tuple(start + at for at in judged.places))


class _Judged(NamedTuple):
    """Its scripts, the letters that are read as those of another one, and whether all of its letters are."""

    scripts: frozenset[str]
    places: tuple[int, ...] = ()
    is_whole: bool = False


@lru_cache(4096)
def _judged(word: str) -> _Judged:
    scripts = frozenset(map(_script, word)) - _OF_NO_SCRIPT
    if len(scripts) > 1:
        return _Judged(scripts, tuple(_intruders(word, scripts)))
    if scripts <= _LATIN or not all(map(_letter_read_as, word)):
        return _Judged(scripts)
    return _Judged(scripts, tuple(at for at, letter in enumerate(word) if not letter.isascii()), is_whole=True)


def _intruders(word: str, scripts: Set[str]) -> list[int]:
    """Letters of a word of several scripts that are read as those of another."""
    if all(map(_base_read_as, word)):
        return [at for at, letter in enumerate(word) if _script(letter) in scripts - _LATIN]
    if _is_moderately_restrictive(scripts):
        return []
    counted = Counter(map(_script, word))
    host = max(sorted(scripts), key=lambda script: (counted[script], script == "LATIN"))
    guests = scripts - {host}
    return [at for at, letter in enumerate(word) if _script(letter) in guests and _is_read_as_of(letter, host)]


def _is_read_as_of(letter: str, script: str) -> bool:
    return (script, letter) in _imitated() if letter.isascii() else bool(_base_read_as(letter))


def _is_moderately_restrictive(scripts: Set[str]) -> bool:
    others = scripts - _LATIN
    return any(scripts <= covered for covered in _HIGHLY_RESTRICTIVE) or (
        scripts >= _LATIN and len(others) == 1 and others <= _BESIDE_LATIN
    )


def _signs(text: str) -> Iterator[int]:
    for match in _WORD.finditer(text):
        word = match.group()
        if word.isascii():
            continue
        is_ascii_to_readers = all(map(_read_as, word))
        if not is_ascii_to_readers and unicodedata.is_normalized("NFC", word):
            continue
        base = ""
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
    """The ASCII character that it is, or is taken for; "" where it is neither, or a letter of another alphabet."""
    return character if character.isascii() else _sign_read_as(character)


@lru_cache(4096)
def _sign_read_as(character: str) -> str:
    if _is_sign(character) and (found := _table().get(character)):
        return found
    wide = unicodedata.normalize("NFKC", character)
    is_written_small = unicodedata.category(character) in {"No", "Lm", "Lo"}
    return wide if len(wide) == 1 and wide.isascii() and not is_written_small else ""


def _letter_read_as(character: str) -> str:
    """The same of letters and digits of every script."""
    return character if character.isascii() else _table().get(character, "")


@lru_cache(4096)
def _base_read_as(character: str) -> str:
    """The same without what stands above or below a letter: \u0451 is none of those that stand in a word of ASCII."""
    return _letter_read_as(unicodedata.normalize("NFD", character)[0])


def _is_typography(word: str, at: int) -> bool:
    """As people write prose: quotation marks, a dash or a \u00d7 alone, a sign between digits."""
    before, after = word[at - 1 : at], word[at + 1 : at + 2]
    if word[at] in "\u2018\u2019":
        return True
    if len(word) == 1 and (unicodedata.category(word) == "Pd" or _read_as(word).isalnum()):
        return True
    return before.isdecimal() and after.isdecimal() and not word[at].isalnum()


def _is_sign(character: str) -> bool:
    """No letter or digit of another alphabet: words in it are ordinary, and judged as words."""
    is_letter = unicodedata.category(character)[0] in "LMN"
    return not is_letter or unicodedata.normalize("NFKC", character).isascii()


@lru_cache(4096)
def _script(character: str) -> str:
    first, last, names = _scripts()
    at = bisect(first, ord(character)) - 1
    return names[at] if ord(character) <= last[at] else "COMMON"


@cache
def _scripts() -> tuple[list[int], list[int], list[str]]:
    """First and last code point of each range, and its script."""
    listed = _listed("categories.json")
    names, ranges = listed["iso_15924_aliases"], listed["code_points_ranges"]
    return [one[0] for one in ranges], [one[1] for one in ranges], [names[one[2]] for one in ranges]


@cache
def _table() -> Mapping[str, str]:
    """Character -> the ASCII that it is taken for. Read where text is not ASCII, and kept as small as it is."""
    pairs = ((one, other["c"]) for one, others in _listed("confusables.json").items() for other in others)
    return {
        one: other
        for one, other in pairs
        if len(one) == len(other) == 1 and other.isascii() and other.isprintable() and not one.isascii()
    }


@cache
def _imitated() -> Set[tuple[str, str]]:
    """Scripts, each with an ASCII letter that one of its own is taken for."""
    return {(_script(one), other) for one, other in _table().items() if other.isalpha()}


def _listed(name: str) -> Any:
    return json.loads((files("confusable_homoglyphs") / name).read_text("utf-8"))
