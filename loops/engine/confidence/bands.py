"""A score of confidence in a word: low, medium or high (SPEC G2).

On recorded runs the score ranked hardly better than the number of steps, and 0.8 did not come true four times in five
(docs/confidence.md). So the number is kept for machines, and no page shows it as a probability.
"""

from __future__ import annotations

LOW, MEDIUM, HIGH = "low", "medium", "high"
BANDS = (LOW, MEDIUM, HIGH)
HIGH_FROM = 0.8
THRESHOLD = 0.5
"""Below which a person is asked, where a policy does not say otherwise."""
CALIBRATED = False
"""True once weights are learnt from recorded verdicts of people and hold on others of them (SPEC G5)."""
SAID = "calibrated" if CALIBRATED else "uncalibrated"


def band(score: float, threshold: float = THRESHOLD) -> str:
    """One of BANDS; low is what a person is asked about."""
    if score < threshold:
        return LOW
    return HIGH if score >= HIGH_FROM else MEDIUM


def in_a_word(score: float, threshold: float = THRESHOLD) -> str:
    """For people: the band, and that nobody has measured what it is worth."""
    return f"{band(score, threshold)} ({SAID})"
