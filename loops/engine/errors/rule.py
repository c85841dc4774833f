"""The shape of a rule, and when it matches. No regular expressions: plain words are found in linear time."""

from __future__ import annotations

from dataclasses import dataclass

from loops.engine.errors.failure import Failure, Source
from loops.engine.values import FailureKind

LOOKED_AT = 4_000
"""Characters of a text that are looked at: half of them at its beginning, half at its end, where errors stand."""
LONGEST_CODE = 200


@dataclass(frozen=True, slots=True)
class Seen:
    """A failure as rules look at it: a bounded text without capitals, runs of white space as one space."""

    failure: Failure
    text: str
    code: str


def seen(failure: Failure) -> Seen:
    """Cut and folded once for all rules."""
    text = failure.text
    if len(text) > LOOKED_AT:
        half = LOOKED_AT // 2
        text = f"{text[:half]} … {text[-half:]}"
    return Seen(failure, " ".join(text.lower().split()), failure.code[:LONGEST_CODE].lower())


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table. It matches when every column that is filled holds; within a column one entry is enough.

    ``words`` stand in the text (lower case), ``also`` too, and none of ``unless``. ``codes`` is the whole code.
    """

    name: str
    kind: FailureKind
    why: str
    words: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    tools: tuple[str, ...] = ()
    exit_codes: tuple[int, ...] = ()
    statuses: tuple[int, ...] = ()
    codes: tuple[str, ...] = ()
    known: FailureKind | None = None
    timed_out: bool = False
    person_can_help: bool = False
    certain: bool = True

    def matches(self, seen: Seen) -> bool:
        failure = seen.failure
        return (
            (not self.sources or failure.source in self.sources)
            and (not self.tools or failure.tool in self.tools)
            and (not self.exit_codes or failure.exit_code in self.exit_codes)
            and (not self.statuses or failure.status in self.statuses)
            and (not self.codes or seen.code in self.codes)
            and (self.known is None or failure.known is self.known)
            and (failure.timed_out or not self.timed_out)
            and (not self.words or _any(self.words, seen.text))
            and (not self.also or _any(self.also, seen.text))
            and not (self.unless and _any(self.unless, seen.text))
        )


def _any(words: tuple[str, ...], text: str) -> bool:
    return any(word in text for word in words)  # a plain search of words: linear, whatever the text
