"""What a person said of a result, and of which state of the workspace (SPEC Q3, Q5)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Review:
    """The latest review of a result that binds the workspace; one that binds none, or is open, leaves nothing here."""

    gate: str = ""
    """It was accepted there: that is used up when the run ends, on the workspace as it is then."""
    voided: int = 0
    """How often the workspace had changed since it was accepted."""
    why: str = ""
    """What had changed, the last time."""


NO_REVIEW = Review()
