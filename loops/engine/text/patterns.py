"""Patterns that people, models and packages write, matched in linear time (RE2): no pattern can hold a worker up. Pure.

Python's own ``re`` tries every way to match before it gives up, for years where a pattern is made for it, and lets
nothing else of its process run meanwhile. It is for patterns that stand in this code.
"""

from __future__ import annotations

from typing import Protocol

import re2  # type: ignore[import-untyped]

LARGEST_PROGRAM = 10_000
"""Instructions of a compiled pattern; a hostile text costs up to 8 ns for each of them and each character."""
_MEMORY = 8 << 20


class Pattern(Protocol):
    programsize: int

    def search(self, text: str) -> object | None: ...

    def fullmatch(self, text: str) -> object | None: ...


class BadPattern(ValueError):
    """The pattern cannot be compiled; the message is RE2's own, fit for the person or model that wrote it."""


def regular_expression(pattern: str, *, ignore_case: bool = False) -> Pattern:
    """Compile a pattern of somebody else's. Raises BadPattern; never takes exponential time."""
    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except re2.error as error:
        message = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise BadPattern(f"bad regular expression: {message}") from error
    except UnicodeError as error:
        raise BadPattern(f"bad regular expression: {error}") from error
    if compiled.programsize > LARGEST_PROGRAM:
        raise BadPattern("bad regular expression: it is too large; ask for fewer repetitions")
    return compiled


def work(pattern: Pattern, text: str | bytes) -> int:
    """Upper bound of the steps that a search takes, of some 8 ns each; nearly every search takes far fewer."""
    return max(pattern.programsize, 1) * (len(text) + 1)
