"""Where a fork comes from and where it begins (``loops.engine.forks``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loops.engine.facts.fact import Fact


@dataclass(frozen=True, slots=True)
class Origin:
    """The point another run was forked at: its fact ``seq`` in step ``step``, whose hash (hex) is ``head``."""

    run_id: str
    seq: int
    step: int
    head: str


@dataclass(frozen=True, kw_only=True)
class Forked(Fact):
    """The end of what was taken over from another run; from here on this one goes its own way (SPEC K3).

    ``changed`` names what differs: model, instructions, limits. ``workspace`` says how sure it is that the folder holds
    what it held at that point; empty: certain. The amounts are what
    the other run paid for it.
    """

    HEAVY: ClassVar[tuple[str, ...]] = ("message",)
    run_id: str
    seq: int
    step: int
    by: str = ""
    message: str = ""
    changed: tuple[str, ...] = ()
    workspace: str = ""
    tokens: int = 0
    cost_microusd: int = 0
    cost_unknown: bool = False
