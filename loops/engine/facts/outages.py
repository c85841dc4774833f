"""No model of a role may be asked: the run is parked until one may (SPEC E5, E6)."""

from __future__ import annotations

from dataclasses import dataclass

from loops.engine.facts.fact import Fact
from loops.engine.values import ModelRole


@dataclass(frozen=True, kw_only=True)
class ModelAwaited(Fact):
    """The breakers of every model that could be asked are open. No worker is held, and no attempt is used up."""

    role: ModelRole
    model: str
    """The one that may be tried first."""
    until: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class ModelAwaitEnded(Fact):
    """Time has come, or a breaker let somebody pass before."""
