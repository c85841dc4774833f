"""Text from models and tools as a reviewer must see it: whole, inert, and with nothing invisible (attack list A 3-5).

Characters that cannot be seen, that change the direction of reading, or that are read as a space, as other signs or as
letters of another script are written as their code points.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from loops.engine.text.truncation import shortened
from loops.printable.look_alikes import disguised
from loops.printable.text import odd_places, printable

_EDGES = re.compile(r"\A +| +\Z")
_MOST_WARNINGS = 12


def reveal(text: Any) -> SafeString:
    """Escaped HTML of ``text`` with every odd character as a marked code point. Nothing is ever left out.

    Spaces at the edges of a single line are marked too: ``ls`` and ``ls `` are different commands.
    """
    whole = str(text)
    if "\n" in whole or not (edges := [(match.start(), match.end()) for match in _EDGES.finditer(whole)]):
        return reveal_code(whole)
    start = edges[0][1] if edges[0][0] == 0 else 0
    end = edges[-1][0] if edges[-1][0] >= start and edges[-1][1] == len(whole) else len(whole)
    before, after = _spaces(start), _spaces(len(whole) - end)
    return format_html("{}{}{}", before, reveal_code(whole[start:end]), after)


def reveal_code(text: str) -> SafeString:
    """The same without marking spaces: for lines of code."""
    return format_html_join("", "{}", ((part,) for part in _parts(text)))


def warnings_of(value: Any) -> list[str]:
    """What is odd about all texts in ``value``, in words."""
    found = dict.fromkeys(warning for text in _texts(value) for warning in _warnings(text))
    more = len(found) - _MOST_WARNINGS
    return [*list(found)[:_MOST_WARNINGS], *([f"and {more} more kinds, marked where they stand"] if more > 0 else [])]


def _parts(text: str) -> Iterator[str | SafeString]:
    end = 0
    for place in odd_places(text):
        yield text[end:place]
        yield _code_point(text[place])
        end = place + 1
    yield text[end:]


def _spaces(count: int) -> SafeString | str:
    return _mark(f"{count} space{'s' * (count > 1)}", "at the edge") if count else ""


def _code_point(character: str) -> SafeString:
    return _mark(f"U+{ord(character):04X}", _name(character))


def _mark(said: str, title: str) -> SafeString:
    return format_html('<span class="odd" title="{}">{}</span>', title.capitalize(), said)


def _name(character: str) -> str:
    if character == "\u2400":
        return "a null character, or its symbol"
    return unicodedata.name(character, "control or unassigned character").lower()


def _warnings(text: str) -> Iterator[str]:
    letters: set[int] = set()
    for word in disguised(text):
        letters.update(word.places)
        yield f"“{printable(shortened(word.word, 40))}” {_disguise(word.scripts)}"
    for place in odd_places(text):
        if place not in letters:
            yield f"U+{ord(text[place]):04X} {_name(text[place])}"


def _disguise(scripts: tuple[str, ...]) -> str:
    names = " and ".join(script.replace("_", " ").title() for script in sorted(scripts, key="LATIN".__ne__))
    return f"mixes {names} letters" if len(scripts) > 1 else f"is in {names} letters that are read as Latin ones"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
