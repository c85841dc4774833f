"""Which lines of a file are other than before (SPEC X4)."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence

MOST_COMPARED = 500
"""Lines of a file between the first and the last that differ. To align more would take minutes where it is hostile."""
_LINE_END = re.compile(rb"\r\n|\r|\n")


def changed_lines(before: bytes, after: bytes) -> frozenset[int]:
    """Numbers of lines of ``after``, from 1. A line that only ends otherwise is the same."""
    old, new = lines(before), lines(after)
    first = equal_at_the_start(old, new)
    last = equal_at_the_start(old[first:][::-1], new[first:][::-1])
    old, new = old[first : len(old) - last], new[first : len(new) - last]
    aligned = max(len(old), len(new)) <= MOST_COMPARED
    return frozenset(first + 1 + at for at in (inserted(old, new) if aligned else unknown(old, new)))


def lines(text: bytes) -> list[bytes]:
    return [line.rstrip() for line in _LINE_END.split(text)]


def equal_at_the_start(old: Sequence[bytes], new: Sequence[bytes]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)))


def inserted(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[int]:
    for tag, _, _, begin, end in difflib.SequenceMatcher(None, old, new).get_opcodes():
        if tag in ("insert", "replace"):
            yield from range(begin, end)


def unknown(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[int]:
    """Lines that were not there, or not so often."""
    left = Counter(old)
    for at, line in enumerate(new):
        if left[line] > 0:
            left[line] -= 1
        else:
            yield at
