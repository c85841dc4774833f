"""The last steps of a run, as fingerprints: all that the detectors ever look at."""

from __future__ import annotations

from dataclasses import dataclass

from loops.engine.encoding.fingerprints import exact_part

LENGTH = 16
"""Steps that are kept: what is further back is no circle any more, and looking must cost the same at every step."""


@dataclass(frozen=True)
class Seen:
    """One completed step. ``action`` and ``outcome`` are marks (``fingerprints``), empty for steps of older journals;
    ``error`` is the signature of the error that ended it, or empty; ``progress`` the score after it, 0..1, which proves
    something only when it was ``measured`` by checks or tests. ``changed``: a call of it changed something, by its own
    word: the same acknowledgement again is nothing new then, and no circle."""

    step: int
    action: str = ""
    outcome: str = ""
    error: str = ""
    progress: float = 0.0
    measured: bool = False
    changed: bool = False
    is_round: bool = False
    """It handed in a result, and its outcome is the diagnosis of that result."""

    @property
    def call(self) -> str:
        """Equal for steps that did the same and learnt the same; empty when one of the two is not known."""
        return f"{exact_part(self.action)}{exact_part(self.outcome)}" if self.action and self.outcome else ""


Window = tuple[Seen, ...]


def observe(window: Window, seen: Seen) -> Window:
    """``window`` with one more step, never longer than LENGTH."""
    return (*window, seen)[-LENGTH:]


def since_news(window: Window) -> Window:
    """The steps after the latest progress or change: what was tried before it may well be tried again."""
    for position in range(len(window) - 1, 0, -1):
        if window[position - 1].changed or window[position].progress > window[position - 1].progress:
            return window[position:]
    return window
