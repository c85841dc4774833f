"""Path and host patterns people type, matched in linear time (RE2): ``*`` stays in a folder, ``**`` crosses them."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import re2  # type: ignore[import-untyped]


class Pattern(Protocol):
    def search(self, text: str) -> object | None: ...

    def fullmatch(self, text: str) -> object | None: ...


class BadPattern(ValueError):
    """The pattern cannot be compiled; the message is RE2's own, fit for the person or model that wrote it."""


def matches(pattern: str, text: str) -> bool:
    """True when the whole of ``text`` fits the glob."""
    return _compiled(pattern).fullmatch(text) is not None


def literal_length(pattern: str) -> int:
    """Characters of the pattern that are not wild cards: the longer, the more specific."""
    return sum(1 for character in pattern if character not in "*?")


def regular_expression(pattern: str, *, ignore_case: bool = False) -> Pattern:
    """Compile a user's regular expression. Raises BadPattern; never takes exponential time."""
    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.log_errors = False
    options.max_mem = 8 << 20
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except re2.error as error:
        message = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise BadPattern(f"bad regular expression: {message}") from error
    return compiled


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
