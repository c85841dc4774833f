"""How hard a task looks before anybody has tried it (SPEC D2): a score made of named reasons, open to argument.

Nothing here is learned. A wrong estimate costs little: limits can be stated with the task, and extended at a gate.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from loops.engine.languages import work
from loops.engine.text.segments import words_in

SIMPLE, MODERATE, COMPLEX = "simple", "moderate", "complex"
LEVELS = (SIMPLE, MODERATE, COMPLEX)
MODERATE_FROM = 3
COMPLEX_FROM = 7

READ_AT_MOST = 6_000
"""Characters of a goal that are searched for signs; its whole length counts."""
LONG_GOAL_WORDS = 60
VERY_LONG_GOAL_WORDS = 250
LISTED = re.compile(r"^[ \t]*(?:\d{1,3}[.):、\uff0e\uff09]|[①-⑳]|[-*+•・‣\u2013])\s*\S", re.MULTILINE)
"""An entry of a list, in any script's digits."""
FILE = re.compile(r"(?<![\w/.])(?:[\w.-]+/)+[\w.*-]+|(?<![\w/.-])[\w*-]+\.[A-Za-z][A-Za-z0-9]{0,7}\b(?!/)")
"""A path, or a name with an extension."""
_UNPARTED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]")


_ARABIC = re.compile("[\u0620-\u064a]")
_IN_A_WORD = r"\w\u0900-\u0963"
"""Vowel signs of Devanagari are no letters to a regular expression."""


def _meaning(words: str) -> re.Pattern[str]:
    return re.compile("|".join(map(_part, words.split("|"))), re.IGNORECASE)


def _part(word: str) -> str:
    """The beginning of a word, a whole one with "$", or a part of a text whose words are not parted."""
    if _UNPARTED.search(word):
        return word.removesuffix("$")
    joined = "[وف]?(?:ال)?" if _ARABIC.search(word) else ""
    begins = rf"(?<![{_IN_A_WORD}]){joined}{word.removesuffix('$')}"
    return rf"{begins}(?![{_IN_A_WORD}])" if word.endswith("$") else begins


@cache
def _large() -> tuple[re.Pattern[str], ...]:
    """Compiled where a goal is read, as the next two are: every other process starts without them."""
    return tuple(map(_meaning, work.LARGE.values()))


@cache
def _making() -> tuple[re.Pattern[str], ...]:
    return tuple(map(_meaning, work.MAKING.values()))


@cache
def _in_sequence() -> re.Pattern[str]:
    return _meaning("|".join(f"{word}$" for word in work.IN_SEQUENCE.split("|")))


@dataclass(frozen=True, slots=True)
class Estimate:
    """``level`` is one of LEVELS; ``reasons`` say which signs were seen and what each added."""

    level: str
    score: int
    reasons: tuple[str, ...]

    @property
    def explained(self) -> str:
        """One line for people."""
        return f"{self.level} ({self.score} points: {'; '.join(self.reasons) or 'nothing makes it hard'})"


def estimate(goal: str, criteria: Sequence[str] = (), constraints: str = "") -> Estimate:
    """Add up the signs of a large task in its goal, its acceptance criteria and its constraints.

    Length, criteria, files, lists and constraints are told in any language; kinds of work, large changes and words of
    order by a table for many.
    """
    read = unicodedata.normalize("NFC", goal[:READ_AT_MOST])
    signs = [
        _length(words_in(goal)),
        _capped(len(criteria), 4, ("acceptance criterion", "acceptance criteria"), free=1),
        _capped(len(set(FILE.findall(read))), 2, ("file or folder named", "files or folders named"), free=2),
        _capped(_meant(_making(), read), 3, ("kind of work", "kinds of work"), free=1),
        _capped(_meant(_large(), read), 5, ("word of a large change", "words of a large change"), weight=2),
        _capped(_steps(read), 3, ("stated step", "stated steps"), free=1),
        _capped(_lines(constraints), 2, ("constraint", "constraints")),
    ]
    score = sum(points for points, _ in signs)
    reasons = tuple(f"{what}: +{points}" for points, what in signs if points)
    return Estimate(_level(score), score, reasons)


def _level(score: int) -> str:
    if score >= COMPLEX_FROM:
        return COMPLEX
    return MODERATE if score >= MODERATE_FROM else SIMPLE


def _length(words: int) -> tuple[int, str]:
    points = 3 if words > VERY_LONG_GOAL_WORDS else 1 if words > LONG_GOAL_WORDS else 0
    return points, f"goal of {words} words"


def _capped(count: int, most: int, noun: tuple[str, str], *, free: int = 0, weight: int = 1) -> tuple[int, str]:
    points = min(max(count - free, 0) * weight, most)
    return points, f"{count} {noun[count != 1]}"


def _meant(meanings: Sequence[re.Pattern[str]], text: str) -> int:
    return sum(1 for meaning in meanings if meaning.search(text))


def _steps(text: str) -> int:
    return len(LISTED.findall(text)) + len(_in_sequence().findall(text))


def _lines(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip())
