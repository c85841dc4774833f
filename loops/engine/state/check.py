"""One acceptance criterion, measured."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from loops.engine.state.evidence import Evidence
from loops.engine.state.own_tests import OwnTests


class CheckStatus(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    """It could not be measured."""
    UNPROVEN = "unproven"
    """Nothing measures it."""


@dataclass(frozen=True, slots=True)
class Check:
    """One acceptance criterion, measured."""

    text: str
    status: CheckStatus
    command: str = ""
    detail: str = ""
    method: str = "command"
    duration_ms: int = 0
    obstacle: str = ""
    """Code of what kept it from being measured here, which is no fault of the work (``verification.environment``)."""
    wanted: str = ""
    """The same in words: what is missing, and what a person can do."""
    counts: str = ""
    """Of tests, where their runner reports them: "7 failed, 13 passed"."""
    report: str = ""
    """The hash of the list of its tests with their outcomes, where a reporter told of single ones (ADR 0078)."""
    evidence: Evidence = Evidence.NONE
    why: str = ""
    """It holds and is not proved: the reason, for people."""
    own_tests: OwnTests | None = None
    """What the tests that the run wrote are worth; None where there are none, or where it was not tried."""

    @property
    def holds(self) -> bool:
        return self.status == CheckStatus.PASSED
