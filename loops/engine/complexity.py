"""How hard a task looks before anybody has tried it (SPEC D2): a score made of named reasons, open to argument.

Nothing here is learned. A wrong estimate costs little: limits can be stated with the task, and extended at a gate.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

SIMPLE, MODERATE, COMPLEX = "simple", "moderate", "complex"
LEVELS = (SIMPLE, MODERATE, COMPLEX)
MODERATE_FROM = 3
COMPLEX_FROM = 7

LONG_GOAL_WORDS = 60
VERY_LONG_GOAL_WORDS = 250
LARGE = re.compile(
    r"\b(refactor|rewrite|migrate|redesign|architect|port|integrate|end[- ]to[- ]end|from scratch|entire|every)\b",
    re.IGNORECASE,
)
MAKING = re.compile(
    r"\b(implement|build|create|add|fix|repair|debug|optimi[sz]e|test|document|deploy|investigate|analy[sz]e|compare)\b",
    re.IGNORECASE,
)
IN_SEQUENCE = re.compile(
    r"\b(then|after that|afterwards|finally|next)\b|^\s*(?:\d+[.)]|[-*])\s", re.IGNORECASE | re.MULTILINE
)


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
    """Add up the signs of a large task in its goal, its acceptance criteria and its constraints."""
    signs = [
        _length(len(goal.split())),
        _capped(len(criteria), 4, ("acceptance criterion", "acceptance criteria"), free=1),
        _capped(_kinds(MAKING, goal), 3, ("kind of work", "kinds of work"), free=1),
        _capped(_kinds(LARGE, goal), 5, ("word of a large change", "words of a large change"), weight=2),
        _capped(len(IN_SEQUENCE.findall(goal)), 3, ("stated step", "stated steps"), free=1),
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


def _kinds(pattern: re.Pattern[str], text: str) -> int:
    return len({found.lower() for found in pattern.findall(text)})


def _lines(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip())
