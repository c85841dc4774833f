"""A claim, and what verification makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loops.engine.facts.fact import Fact


@dataclass(frozen=True, kw_only=True)
class ResultProposed(Fact):
    """task_completion, or a final text: a claim that verification has yet to accept (SPEC C6)."""

    HEAVY: ClassVar[tuple[str, ...]] = ("result",)
    result: str
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One acceptance criterion, measured. ``status``: passed, failed, error (not measurable), unproven (no command)."""

    text: str
    status: str
    command: str = ""
    detail: str = ""
    method: str = "command"
    duration_ms: int = 0
    obstacle: str = ""
    """Code of what kept it from being measured here, which is no fault of the work (``engine.environment``)."""
    wanted: str = ""
    """The same in words: what is missing, and what a person can do."""


@dataclass(frozen=True, kw_only=True)
class ChecksStarted(Fact):
    count: int


@dataclass(frozen=True, kw_only=True)
class ChecksCompleted(Fact):
    checks: tuple[Check, ...]


@dataclass(frozen=True, kw_only=True)
class DiagnosisMade(Fact):
    """Why verification failed, in the root-cause words of SPEC M4, and what the model is told."""

    causes: tuple[str, ...]
    feedback: str
