"""What was measured against a run, as a card of low confidence lists it (SPEC G2)."""

from __future__ import annotations

from dataclasses import dataclass

from loops.engine.confidence.score import in_words


@dataclass(frozen=True, slots=True)
class Feature:
    """One thing measured against a run: its value, its weight, and what both take off the confidence."""

    name: str
    value: str
    weight: str
    off: str
    said: str
    """As a sentence about the run."""

    @classmethod
    def of(cls, name: str, value: float, weight: float) -> Feature:
        (said,) = in_words({name: 1.0}, {name: 1.0})
        named, sentence = (words.replace("_", " ").capitalize() for words in (name, said))
        return cls(named, f"{value:.2f}", f"{weight:.2f}", f"{value * weight:.3f}", sentence)
