"""Say of a text that it was cut: where, of how much, and where the whole is. Nothing is shortened in silence (X5)."""

from __future__ import annotations


def cut(text: str, most: int, whole: str = "") -> str:
    """``text`` as it is up to ``most`` characters; a longer one ends in a line that says so. ``whole``: where it is."""
    if len(text) <= most:
        return text
    where = f"; the whole is {whole}" if whole else ""
    return f"{text[:most]}\n\n[cut at {most:,} of {len(text):,} characters{where}]"


def shortened(text: str, most: int, of: int = 0) -> str:
    """``text`` for one line of at most ``most`` characters; a longer one says at its end of how many it is. ``of``: the
    length of the whole, where ``text`` itself is only a part of it."""
    if len(text) <= most and of <= len(text):
        return text
    said = f"… ({max(of, len(text)):,} characters)"
    return f"{text[: most - len(said)]}{said}"


def quoted(text: str, most: int) -> str:
    """``text`` in quotation marks, with control characters escaped, for a sentence about it: ``shortened``."""
    return repr(shortened(text, most))
