"""What the loop itself noticed, and told the model."""

from __future__ import annotations

from dataclasses import dataclass

from loops.engine.facts.fact import Fact


@dataclass(frozen=True, kw_only=True)
class Reminded(Fact):
    """The model was told something by the loop itself (no tool call, warning of a limit)."""

    reason: str
    text: str


@dataclass(frozen=True, kw_only=True)
class LimitWarned(Fact):
    limit: str
    used: int
    bound: int


@dataclass(frozen=True, kw_only=True)
class LimitReached(Fact):
    limit: str
    used: int
    bound: int
