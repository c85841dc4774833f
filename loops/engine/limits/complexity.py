"""How hard a task looks before anybody has tried it (SPEC D2): a score made of named reasons, open to argument.

Nothing here is learned. A wrong estimate costs little: limits can be stated with the task, and extended at a gate.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from loops.engine.text.segments import words_in

SIMPLE, MODERATE, COMPLEX = "simple", "moderate", "complex"
LEVELS = (SIMPLE, MODERATE, COMPLEX)
MODERATE_FROM = 3
COMPLEX_FROM = 9

READ_AT_MOST = 6_000
"""Characters of a goal that are searched for signs; its whole length counts."""
SENTENCE = 8
"""Words of a goal beyond which it is moderate without any other sign: one thing to do has fewer in every language."""
LENGTHS = (60, 150, 400)
"""Words beyond which there is a point more. Far apart: the same text has up to twice the words in another language."""
LISTED = re.compile(
    r"^[ \t]*(?:\d{1,3}[.):、\uff0e\uff09]|[^\W\d_](?:[)、\uff09]|\.\s)|[①-⑳]|[-*+•・‣\u2013])\s*\S", re.MULTILINE
)
"""An entry of a list: a number in any script's digits, a single letter, or a bullet."""
FILE = re.compile(r"(?<![\w/.])(?:[\w.-]+/)+[\w.*-]+|(?<![\w/.-])[\w*-]+\.[A-Za-z][A-Za-z0-9]{0,7}\b(?!/)")
"""A path, or a name with an extension."""


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

    By structure alone, so that a task is as hard in every language. Criteria weigh most: each is something more to be
    done and proven. Without them length says whether there is more than one thing to do, and nothing how much.
    """
    read = goal[:READ_AT_MOST]
    signs = [
        _length(words_in(goal)),
        _capped(len(criteria), 9, ("acceptance criterion", "acceptance criteria"), free=1, weight=3),
        _capped(len(set(FILE.findall(read))), 2, ("file or folder named", "files or folders named"), free=2),
        _capped(len(LISTED.findall(read)), 3, ("listed entry", "listed entries"), free=1),
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
    points = MODERATE_FROM * (words > SENTENCE) + sum(words > length for length in LENGTHS)
    return points, f"goal of {words} words"


def _capped(count: int, most: int, noun: tuple[str, str], *, free: int = 0, weight: int = 1) -> tuple[int, str]:
    points = min(max(count - free, 0) * weight, most)
    return points, f"{count} {noun[count != 1]}"


def _lines(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip())
