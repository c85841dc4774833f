"""Text that any store can hold: no NUL (PostgreSQL refuses it) and no lone surrogate (UTF-8 can't carry it)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

REPLACEMENT = "\ufffd"


def is_clean(text: str) -> bool:
    """Whether any store can hold the text as it is."""
    if "\0" in text:
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def clean_text(text: str) -> str:
    """Joins surrogate pairs, replaces what has no other half, and NUL."""
    if is_clean(text):
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined.replace("\0", REPLACEMENT)


def clean_json(value: Any) -> Any:
    """The same for every string in a JSON value, keys included."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {clean_text(str(key)): clean_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(item) for item in value]
    return value


class StreamCleaner:
    """``clean_text`` for text in pieces: a pair cut in two by the wire is joined again."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """The clean form of the piece, less a half pair at its end."""
        text = self._half + piece
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return clean_text(text)

    def finish(self) -> str:
        """What was held back."""
        half, self._half = self._half, ""
        return clean_text(half)
