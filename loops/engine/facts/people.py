"""What people were asked, and what they said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from loops.engine.facts.fact import Fact
from loops.engine.values import Json, Verdict

CONTINUE_VERDICTS = frozenset({Verdict.APPROVE, Verdict.RESPOND, Verdict.EXTEND, Verdict.APPROVE_WITH_EDITS})


@dataclass(frozen=True, kw_only=True)
class GateOpened(Fact):
    gate: str
    kind: str
    title: str
    call_id: str = ""
    detail: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class GateDecided(Fact):
    gate: str
    kind: str
    verdict: str
    reason: str = ""
    payload: Mapping[str, Json] = field(default_factory=dict)
    call_id: str = ""
    by: str = ""

    @property
    def continues(self) -> bool:
        """Does the run go on with what it was about to do?"""
        return self.verdict in CONTINUE_VERDICTS


@dataclass(frozen=True, kw_only=True)
class ApprovalVoided(Fact):
    """What would run is no longer what was approved: judged and asked again, nothing ran (SPEC Q5)."""

    call_id: str
    gate: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class MessageReceived(Fact):
    HEAVY: ClassVar[tuple[str, ...]] = ("text",)
    text: str
    by: str = ""


@dataclass(frozen=True, kw_only=True)
class StopRequested(Fact):
    by: str = ""


@dataclass(frozen=True, kw_only=True)
class StopWished(Fact):
    """A message that says nothing but that the run should stop (SPEC D1, ``people.stop_phrases``)."""

    by: str = ""
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class RunPaused(Fact):
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class RunResumed(Fact):
    """Go on after a pause, or re-enter a halted run at the phase it left (CH15 15.11.2)."""

    by: str = ""
