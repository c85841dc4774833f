"""How a circle is broken before a person is asked: the rungs of SPEC F3, in their order.

Every rung tells the model something else. The last two change more than words: another model, where one is configured,
and then a person, which is no rung of the ladder but its end. Temperature is none: current providers do not take one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

FRESH_STEPS = 2
"""What was told gets so many steps to help, before the same circle counts again."""
LEFT_AFTER = 8
"""So many steps without a circle, and the next one starts at the first rung."""
GOAL_CHARS = 2000


class Rung(StrEnum):
    ANOTHER_APPROACH = "another_approach"
    OTHER_WORDS = "other_words"
    FRESH_EVIDENCE = "fresh_evidence"
    ANOTHER_MODEL = "another_model"


@dataclass(frozen=True)
class Circle:
    """Where a run stands on the ladder. ``rung`` counts those that were tried; ``refused`` are the exact parts of the
    marks of what it may not do again, until something changes; ``progress`` what it had reached then."""

    rung: int = 0
    broken_at: int = 0
    progress: float = 0.0
    method: str = ""
    steps: tuple[int, ...] = ()
    refused: tuple[str, ...] = ()


NO_CIRCLE = Circle()


def next_rung(circle: Circle) -> Rung | None:
    """The rung to be tried now; None when a person is to be asked."""
    rungs = tuple(Rung)
    return rungs[circle.rung] if circle.rung < len(rungs) else None


def was_left(circle: Circle, step: int) -> bool:
    """The run came out of its latest circle: this one is another."""
    return step - circle.broken_at > LEFT_AFTER


def told(rung: Rung, evidence: str, goal: str) -> str:
    """What the model is told on this rung."""
    return _TEXTS[rung](evidence, goal[:GOAL_CHARS])


def _another_approach(evidence: str, goal: str) -> str:
    return (
        f"You are going in circles: {evidence}. Trying it once more will tell you nothing new, and the same call is "
        "refused from now on. Say in one sentence why it cannot work, then take a really different approach."
    )


def _other_words(evidence: str, goal: str) -> str:
    return (
        f"This is still a circle: {evidence}. Put your plan aside and read the task as if for the first time:\n\n{goal}"
        "\n\nName three ways to reach it that you have not tried, and take the one that is least like what you did."
    )


def _fresh_evidence(evidence: str, goal: str) -> str:
    return (
        f"Still a circle: {evidence}. What you believe about the state of things is probably wrong. Before anything "
        "else look at it afresh: list or read what your last steps depended on, and act only on what you then see."
    )


def _another_model(evidence: str, goal: str) -> str:
    return (
        f"Another model takes over here, because the work so far went in circles: {evidence}. Judge for yourself what "
        "has been tried, and do not go on with it."
    )


_TEXTS: dict[Rung, Callable[[str, str], str]] = {
    Rung.ANOTHER_APPROACH: _another_approach,
    Rung.OTHER_WORDS: _other_words,
    Rung.FRESH_EVIDENCE: _fresh_evidence,
    Rung.ANOTHER_MODEL: _another_model,
}
