"""The shape of a rule, and when it matches. Plain words are found in linear time, whatever the text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from loops.engine.state.failure import Failure, Source
from loops.engine.values import FailureKind

LOOKED_AT = 4_000
"""Characters of a text that are looked at: half of them at its beginning, half at its end, where errors stand."""
_LONGEST_CODE = 200
_STATUS = re.compile(
    r"(?:http(?:/[0-9.]{1,4})?|status|code|error|exception|returned)(?: code)?(?: of)?"
    r"[\s:='\"(\[\\]{1,6}(?:error[ :]{1,2})?([45][0-9]{2})(?![0-9])"
)
"""An HTTP status as clients write it into messages. Every repetition is bounded, so the search is linear."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A failure as rules look at it: a bounded text and code without capitals, the exit code as a shell has it, the
    HTTP status from the text where the failure brings none."""

    failure: Failure
    text: str
    code: str
    exit_code: int | None
    status: int


def seen(failure: Failure) -> Seen:
    """Cut and folded once for all rules."""
    text = failure.text
    if len(text) > LOOKED_AT:
        half = LOOKED_AT // 2
        text = f"{text[:half]}\n{text[-half:]}"
    exit_code = failure.exit_code
    if exit_code is None and failure.signal is not None:
        exit_code = 128 + failure.signal
    text = text.lower()
    return Seen(failure, text, failure.code[:_LONGEST_CODE].lower(), exit_code, failure.status or _status(text))


def _status(text: str) -> int:
    found = _STATUS.search(text)
    return int(found[1]) if found else 0


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table. It matches when every column that is filled holds; within a column one entry is enough.

    ``words`` stand in the text (lower case); with ``beside``, one of those stands on the same line; none of ``unless``
    stands anywhere in it. ``codes`` is the whole code. ``own_words`` leaves out what a program printed: only what the
    tool itself says counts, so that a program cannot speak for the sandbox.
    """

    name: str
    kind: FailureKind
    why: str
    words: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    tools: tuple[str, ...] = ()
    exit_codes: tuple[int, ...] = ()
    statuses: tuple[int, ...] = ()
    codes: tuple[str, ...] = ()
    known: FailureKind | None = None
    timed_out: bool = False
    own_words: bool = False
    person_can_help: bool = False
    certain: bool = True

    def matches(self, seen: Seen) -> bool:
        return self._concerns(seen) and self._says(seen.text)

    def _concerns(self, seen: Seen) -> bool:
        failure = seen.failure
        return (
            (not self.sources or failure.source in self.sources)
            and (not self.tools or failure.tool in self.tools)
            and (not self.exit_codes or seen.exit_code in self.exit_codes)
            and (not self.statuses or seen.status in self.statuses)
            and (not self.codes or seen.code in self.codes)
            and (self.known is None or failure.known is self.known)
            and (failure.timed_out or not self.timed_out)
            and (not self.own_words or seen.exit_code is None or seen.exit_code < 0)
        )

    def _says(self, text: str) -> bool:
        if self.words and not _any(self.words, text):
            return False
        if self.beside and not any(_any(self.words, line) and _any(self.beside, line) for line in text.splitlines()):
            return False
        return not _any(self.unless, text)


def _any(words: tuple[str, ...], text: str) -> bool:
    for word in words:  # noqa: SIM110  # half the time of any() with a generator, and this is most of the work
        if word in text:
            return True
    return False
