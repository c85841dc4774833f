"""Path and host patterns people type, matched in linear time (RE2): ``*`` stays in a folder, ``**`` crosses them."""

from __future__ import annotations

from functools import lru_cache

import re2  # type: ignore[import-untyped]

from loops.engine.text.patterns import Pattern, regular_expression


def matches(pattern: str, text: str) -> bool:
    """True when the whole of ``text`` fits the glob."""
    return _compiled(pattern).fullmatch(text) is not None


def literal_length(pattern: str) -> int:
    """Characters of the pattern that are not wild cards: the longer, the more specific."""
    return sum(1 for character in pattern if character not in "*?")


@lru_cache(maxsize=2048)
def _compiled(pattern: str) -> Pattern:
    return regular_expression(f"(?s:{_translated(pattern)})")


def _translated(pattern: str) -> str:
    pieces: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            pieces.append("(?:.*/)?")
            at += 3
        elif pattern.startswith("**", at):
            pieces.append(".*")
            at += 2
        else:
            character = pattern[at]
            pieces.append({"*": "[^/]*", "?": "[^/]"}.get(character) or str(re2.escape(character)))
            at += 1
    return "".join(pieces)
