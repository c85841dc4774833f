"""When a detector speaks up: all numbers of loop detection in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """0 switches a detector off; more than the window's sixteen steps does the same. Chosen on half of the recorded
    runs, measured on the other half (SPEC F4, docs/loop-detection.md)."""

    repeated_result: int = 3
    """The same result so often in the window, whatever was asked, or the same error in so many steps in a row."""
    similar_steps: int = 4
    """Steps in a row, each similar to the newest in what it did and in what came of it."""
    similar_action: float = 0.5
    similar_outcome: float = 0.7
    similar_rounds: int = 2
    """Results handed in, each with nearly the same content and nearly the same diagnosis."""
    recurring_steps: int = 5
    """Steps of the window that mean the same as the newest, not in a row; only with an embedding model."""
    stalled_steps: int = 12
    """Steps without progress, where tests or checks measure it."""


THRESHOLDS = Thresholds()
OFF = Thresholds(0, 0, similar_rounds=0, recurring_steps=0, stalled_steps=0)
