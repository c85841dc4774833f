"""Text of others as people and terminals may read it: what hides or deceives is its code point (SPEC Q3, S1)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from loops.printable import look_alikes

BLANK_LETTERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\u2400\ufffd"
"""Letters and symbols that look like nothing, or that stand for what could not be stored."""

_UNUSUAL = re.compile(r"[^\x20-\x7e\n\t]")
_IN_PROSE = frozenset("\u00a0\u00ad\u200c\u200d\u202f\ufe0f")
"""Spaces that do not break, a hyphen that may, and what joins letters and emoji or parts them."""


def is_odd(character: str) -> bool:
    """Would a reader not see this character, or take it for a blank?"""
    if character in "\n\t " or (character.isascii() and character.isprintable()):
        return False
    if character in BLANK_LETTERS or 0xFE00 <= ord(character) <= 0xFE0F or 0xE0000 <= ord(character) <= 0xE0FFF:
        return True
    return unicodedata.category(character) in {"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp", "Zs"}


def printable(text: str) -> str:
    """A form of ``text`` that a terminal shows and does not obey: odd characters are written as code points."""
    if text.isascii() and text.isprintable():
        return text
    return with_code_points(text, odd_places(text))


def with_code_points(text: str, places: Iterable[int]) -> str:
    written = [*text]
    for place in places:
        written[place] = _written(ord(text[place]))
    return "".join(written)


def prose(text: str) -> str:
    """The same for what is read as sentences: spaces, hyphens and emoji stay as people and models write them."""
    if text.isascii() and text.isprintable():
        return text
    return with_code_points(text, odd_in_prose(text))


def odd_in_prose(text: str) -> set[int]:
    places = {
        match.start() for match in _UNUSUAL.finditer(text) if is_odd(match.group()) and match.group() not in _IN_PROSE
    }
    return places.union(*(word.places for word in look_alikes.disguised(text)))


def odd_places(text: str) -> list[int]:
    """Where in ``text`` a reader would not see a character, or take it for another."""
    if text.isascii() and text.isprintable():
        return []
    odd = {match.start() for match in _UNUSUAL.finditer(text) if is_odd(match.group())}
    return sorted(odd.union(look_alikes.places(text)))


def _written(code: int) -> str:
    return f"<U+{code:04X}>" if code >= 0x80 else escaped(code)


def reveal(text: str) -> tuple[str, list[str]]:
    """A form of ``text`` in which nothing can hide from a reviewer, and a warning for each thing that tried.

    Invisible, direction-changing and look-alike blank characters are shown as code points; leading and trailing
    blanks are named. Returns (escaped text, warnings); the warnings are empty for plain text.
    """
    found = {ord(text[place]) for place in odd_places(text)}
    warnings = [f"contains U+{code:04X} {unicodedata.name(chr(code), 'a control character')}" for code in sorted(found)]
    if text != text.strip(" \t\n"):
        warnings.append("starts or ends with blanks")
    return printable(text), warnings


def escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
