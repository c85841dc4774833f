"""The endpoint of a model answers only so many calls at once: the run waits for its turn (SPEC E6)."""

from __future__ import annotations

from dataclasses import dataclass

from loops.engine.facts.fact import Fact
from loops.engine.values import ModelRole


@dataclass(frozen=True, kw_only=True)
class TurnAwaited(Fact):
    """The run is parked: no worker is held, no time is charged and nothing was sent. ``before`` calls of other runs
    came first at that moment."""

    role: ModelRole
    model: str
    before: int = 0


@dataclass(frozen=True, kw_only=True)
class TurnTaken(Fact):
    """It may ask now."""

    model: str
