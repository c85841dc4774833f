"""Make any bytes fit for a model, a database and a screen: clean text, cut to a size, nothing lost (SPEC C5)."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from loops.masking import known
from loops.printable.text import escaped

SaveBlob = Callable[[bytes], str]
"""Keep these bytes and return their SHA-256 as hex; the same bytes may be saved twice."""

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
        value: str | int = escaped(code) if hidden else code
        self[code] = value
        return value


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


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
