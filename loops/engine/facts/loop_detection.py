"""Going in circles: what was found, and what was done about it before a person was asked (SPEC F)."""

from __future__ import annotations

from dataclasses import dataclass

from loops.engine.facts.fact import Fact


@dataclass(frozen=True, kw_only=True)
class LoopDetected(Fact):
    """``method`` names the detector, ``by`` is "monitor" when it was found from outside. ``confidence`` is 0..1."""

    method: str
    evidence: str
    steps: tuple[int, ...] = ()
    confidence: float = 0.0
    by: str = ""


@dataclass(frozen=True, kw_only=True)
class LoopBroken(Fact):
    """One rung of the ladder was tried, or ``skipped`` for the reason given there. ``anew``: what failed until then
    counts as one failure from now on (ADR 0022); older journals do not say so."""

    rung: str
    method: str
    steps: tuple[int, ...] = ()
    skipped: str = ""
    anew: bool = False


@dataclass(frozen=True, kw_only=True)
class StallDetected(Fact):
    """The monitor saw that the run does not get on, or what it spends: it changes nothing by itself."""

    method: str
    evidence: str
    steps: tuple[int, ...] = ()
    by: str = ""
