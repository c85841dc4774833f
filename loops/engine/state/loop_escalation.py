"""How a circle is broken before a person is asked: the rungs of SPEC F3, in their order.

Every rung tells the model something else. The last two change more than words: another model, where one is configured,
and then a person, which is no rung of the ladder but its end. Temperature is none: current providers do not take one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from loops.engine import prompts

FRESH_STEPS = 2
"""What was told gets so many steps to help, before the same circle counts again."""
LEFT_AFTER = 8
"""So many steps without a circle, and the next one starts at the first rung."""
GOAL_CHARS = 2000


class EscalationStep(StrEnum):
    ANOTHER_APPROACH = "another_approach"
    OTHER_WORDS = "other_words"
    FRESH_EVIDENCE = "fresh_evidence"
    ANOTHER_MODEL = "another_model"


@dataclass(frozen=True)
class LoopEscalation:
    """Where a run stands on the ladder. ``rung`` counts those that were tried; ``refused`` are the exact parts of the
    marks of what it may not do again, until something changes; ``progress`` what it had reached then."""

    rung: int = 0
    broken_at: int = 0
    progress: float = 0.0
    method: str = ""
    steps: tuple[int, ...] = ()
    refused: tuple[str, ...] = ()


NO_CIRCLE = LoopEscalation()


def next_rung(circle: LoopEscalation) -> EscalationStep | None:
    """The rung to be tried now; None when a person is to be asked."""
    rungs = tuple(EscalationStep)
    return rungs[circle.rung] if circle.rung < len(rungs) else None


def was_left(circle: LoopEscalation, step: int) -> bool:
    """The run came out of its latest circle: this one is another."""
    return step - circle.broken_at > LEFT_AFTER


def is_helped(circle: LoopEscalation, step: int) -> bool:
    """Was the run just told how to get out of a circle, and has not yet had its steps to do so?"""
    return circle.rung > 0 and step < circle.broken_at + FRESH_STEPS


def told(rung: EscalationStep, evidence: str, goal: str) -> str:
    """What the model is told on this rung."""
    match rung:
        case EscalationStep.ANOTHER_APPROACH:
            return prompts.fill("circle_another_approach", evidence=evidence)
        case EscalationStep.OTHER_WORDS:
            return prompts.fill("circle_other_words", evidence=evidence, goal=goal[:GOAL_CHARS])
        case EscalationStep.FRESH_EVIDENCE:
            return prompts.fill("circle_fresh_evidence", evidence=evidence)
        case EscalationStep.ANOTHER_MODEL:
            return prompts.fill("circle_another_model", evidence=evidence)
