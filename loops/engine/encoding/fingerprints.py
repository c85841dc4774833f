"""Short strings for what a step did and what came of it: equal when they are the same, comparable when not.

A mark is ``<exact>.<sketch>``: 16 hex digits that are equal for equal content, and a MinHash of the content's word
pairs (one permutation, 32 bins of a byte each), from which the share of common pairs of two steps is estimated. Of
scripts that do not part their words they are pairs of characters (``segments``).
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache

from loops.engine.encoding.canonical import encode
from loops.engine.text.segments import pieces
from loops.engine.values import ToolCall

HEAD = TAIL = 1000
"""Characters of a long text that are looked at closely, from each of its ends; what lies between has to be equal."""
BINS = 32
COMPARED_CHARS = 2_000
"""Of an error: what differs behind them does not count."""
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?")
_CHANGING = re.compile(
    r"\d{4}-\d\d-\d\d[t ]\d\d:\d\d(:\d\d)?([.,]\d+)?(z|[+-]\d\d:?\d\d)?"  # a moment
    r"|\b\d\d:\d\d:\d\d([.,]\d+)?\b"  # a time of day
    r"|\b\d+(\.\d+)? ?(ms|µs|us|ns|s|sec|secs|seconds)\b"  # a duration
    r"|\b0x[0-9a-f]+\b"  # an address
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"  # an id
    r"|/tmp/[\w./-]+"  # a scratch file
)


def error_signature(tool: str, error: str) -> str:
    """The same for the same error of the same tool, whatever numbers, times and addresses it carries."""
    return _digest(f"{tool}\n{_NUMBER.sub('#', error.strip().lower())[:COMPARED_CHARS]}")


def action_mark(calls: Sequence[ToolCall], text: str = "") -> str:
    """Mark of what an answer asked for: its calls with canonical arguments, or its text when it called nothing."""
    if not calls:
        return mark(text)
    return mark("\n".join(f"{call.name} {encode(dict(call.arguments)).decode()}" for call in calls))


def outcome_mark(results: Iterable[str]) -> str:
    """Mark of what came of a step: the marks of its calls' results, in their order; empty when one is not known."""
    marks = list(results)
    if len(marks) <= 1 or not all(marks):
        return marks[0] if len(marks) == 1 else ""
    exact = _digest("".join(exact_part(each) for each in marks))
    return f"{exact}.{_merged([_bins(each) for each in marks])}"


def result_mark(text: str) -> str:
    """Mark of one result. Moments, durations, addresses, ids and scratch files make no difference."""
    return mark(_CHANGING.sub("#", shortened(text).lower()))


def figures(text: str) -> frozenset[str]:
    """Numbers and codes in a text, but for those that make no difference in a result."""
    words = pieces(_CHANGING.sub("#", text.lower()))
    return frozenset(word for word in words if any(map(str.isdigit, word)))


def mark(text: str) -> str:
    """Mark of any text; white space and case make no difference."""
    words = pieces(shortened(text).lower())
    return f"{_digest(' '.join(words))}.{_sketch(words)}"


def shortened(text: str) -> str:
    """The ends of a long text and the checksum of the rest: as good as the text for making a mark."""
    if len(text) <= HEAD + TAIL + 20:
        return text
    rest = zlib.crc32(text[HEAD:-TAIL].encode("utf-8", "surrogatepass"))
    return f"{text[:HEAD]} sum{rest} {text[-TAIL:]}"


def exact_part(mark: str) -> str:
    return mark.partition(".")[0]


def says_something(mark: str) -> bool:
    """False for the mark of a text without a single word, and for none."""
    return exact_part(mark) not in ("", _NOTHING)


def similarity(one: str, other: str) -> float:
    """Estimated share of word pairs that two marks have in common, 0..1; 1 for equal content."""
    if not one or not other:
        return 0.0
    if exact_part(one) == exact_part(other):
        return 1.0
    equal = filled = 0
    for ours, theirs in zip(_bins(one), _bins(other), strict=False):
        if ours or theirs:
            filled += 1
            equal += ours == theirs
    return equal / filled if filled else 0.0


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _sketch(words: Sequence[str]) -> str:
    """The smallest hash of each bin, cut to a byte that is never 0: 0 says that the bin is empty."""
    smallest, before = [0xFFFFFFFF] * BINS, 0
    for word in words:
        code = word.encode("utf-8", "surrogatepass")
        value = zlib.crc32(code, before)
        before = zlib.crc32(code)
        number, rest = value % BINS, value // BINS
        if rest < smallest[number]:
            smallest[number] = rest
    return _written([0 if value == 0xFFFFFFFF else 1 + value % 255 for value in smallest])


def _merged(sketches: Sequence[bytes]) -> str:
    """A sketch for several texts together: bin by bin a mixture, the same for the same texts."""
    return _written([(sum(column) - 1) % 255 + 1 if any(column) else 0 for column in zip(*sketches, strict=False)])


def _written(bins: Sequence[int]) -> str:
    return base64.b64encode(bytes(bins)).decode()


@lru_cache(maxsize=256)
def _bins(mark: str) -> bytes:
    try:
        return base64.b64decode(mark.partition(".")[2], validate=True)
    except ValueError:
        return b""


_NOTHING = _digest("")
