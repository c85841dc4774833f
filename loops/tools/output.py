"""Make any bytes fit for a model, a database and a screen: clean text, cut to a size, nothing lost (SPEC C5)."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from loops.masking import known
from loops.tools import look_alikes

SaveBlob = Callable[[bytes], str]
"""Keep these bytes and return their SHA-256 as hex; the same bytes may be saved twice."""

BLANK_LETTERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\u2400\ufffd"
"""Letters and symbols that look like nothing, or that stand for what could not be stored."""

_UNUSUAL = re.compile(r"[^\x20-\x7e\n\t]")
_IN_PROSE = frozenset("\u00a0\u00ad\u200c\u200d\u202f\ufe0f")
"""Spaces that do not break, a hyphen that may, and what joins letters and emoji or parts them."""

_KEPT_CONTROLS = frozenset("\t\n\r")
_SAMPLE = 64 * 1024
_BINARY_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Shown:
    """Text for the model. ``whole_sha256`` names the blob with everything, when the text is not everything."""

    text: str
    truncated: bool = False
    whole_sha256: str = ""
    whole_size: int = 0


def is_binary(data: bytes) -> bool:
    """True when more than one in twenty of the first 64 KiB is not text (control bytes or broken UTF-8)."""
    sample = data[:_SAMPLE]
    if not sample:
        return False
    controls = sum(sample.count(byte) for byte in range(32) if byte not in (9, 10, 13, 27))
    broken = sample.decode("utf-8", errors="replace").count("\ufffd") - sample.count("\ufffd".encode())
    return (controls + max(broken, 0)) / len(sample) > _BINARY_SHARE


def clean_text(raw: str | bytes) -> str:
    """Escape what storage or a terminal would choke on: NUL, ANSI and other controls, broken UTF-8, surrogates.

    ``"\\x1b[31m"`` becomes the visible text ``\\x1b[31m``: nothing is dropped, so nothing can hide.
    """
    text = raw.decode("utf-8", errors="backslashreplace") if isinstance(raw, bytes) else raw
    if text.isprintable():
        return text
    return text.translate(_ESCAPES)


class _Escapes(dict[int, str | int]):
    """A lazily filled translation table: one decision per code point ever seen."""

    def __missing__(self, code: int) -> str | int:
        character = chr(code)
        hidden = unicodedata.category(character) in ("Cc", "Cs") and character not in _KEPT_CONTROLS
        value: str | int = _escape(code) if hidden else code
        self[code] = value
        return value


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_ESCAPES = _Escapes()


def show(data: bytes, limit: int, save_blob: SaveBlob) -> Shown:
    """What a model sees of an output: all of it when short and clean, else head and tail with an exact note."""
    data = known().data(data)  # before anything is cut: half a secret is found by nobody
    if is_binary(data):
        digest = save_blob(data)
        size = len(data)
        return Shown(f"binary output, {size} bytes, sha256 {digest}", True, digest, size)
    if len(data) <= limit:
        text = clean_text(data)
        if len(text.encode()) <= limit * 2:
            return Shown(text)
    return _cut(data, limit, save_blob)


def _cut(data: bytes, limit: int, save_blob: SaveBlob) -> Shown:
    half = limit // 2 if len(data) > limit else min(limit // 4, len(data) // 2)
    digest = save_blob(data)
    head, tail = data[:half], data[len(data) - half :]
    while tail and tail[0] & 0xC0 == 0x80:  # do not start inside a character
        tail = tail[1:]
    head = head.decode("utf-8", errors="ignore").encode() if not is_binary(head) else head
    missing = len(data) - len(head) - len(tail)
    note = f"\n[... {missing} bytes cut; whole output kept as artifact {digest} ...]\n"
    return Shown(clean_text(head) + note + clean_text(tail), True, digest, len(data))


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
    return _with_code_points(text, odd_places(text))


def _with_code_points(text: str, places: Iterable[int]) -> str:
    written = [*text]
    for place in places:
        written[place] = _written(ord(text[place]))
    return "".join(written)


def prose(text: str) -> str:
    """The same for what is read as sentences: spaces, hyphens and emoji stay as people and models write them."""
    if text.isascii() and text.isprintable():
        return text
    return _with_code_points(text, _odd_in_prose(text))


def _odd_in_prose(text: str) -> set[int]:
    places = {
        match.start() for match in _UNUSUAL.finditer(text) if is_odd(match.group()) and match.group() not in _IN_PROSE
    }
    return places.union(*(word.places for word in look_alikes.disguised(text)))


class ProseInPieces:
    """``prose`` of a text that comes bit by bit: what its line has not decided yet waits, up to LONGEST_WAITING
    characters of it."""

    LONGEST_WAITING = 200
    LINE = 1_000
    """What is remembered of a long line."""

    def __init__(self) -> None:
        self._line = self._waits = ""

    def feed(self, piece: str) -> str:
        """What can be shown by now."""
        text = self._line + self._waits + piece
        decided = max(len(self._line), look_alikes.decided(text))
        return self._shown(text, len(text) if len(text) - decided > self.LONGEST_WAITING else decided)

    def finish(self) -> str:
        """The rest of it."""
        text = self._line + self._waits
        return self._shown(text, len(text))

    def _shown(self, text: str, until: int) -> str:
        before, new = len(self._line), text[len(self._line) : until]
        self._line = text[:until].rpartition("\n")[2][-self.LINE :]
        self._waits = text[until:]
        if new.isascii():
            return prose(new)
        return _with_code_points(new, (place - before for place in _odd_in_prose(text[:until]) if place >= before))


def odd_places(text: str) -> list[int]:
    """Where in ``text`` a reader would not see a character, or take it for another."""
    if text.isascii() and text.isprintable():
        return []
    odd = {match.start() for match in _UNUSUAL.finditer(text) if is_odd(match.group())}
    return sorted(odd.union(look_alikes.places(text)))


def _written(code: int) -> str:
    return f"<U+{code:04X}>" if code >= 0x80 else _escape(code)


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


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
