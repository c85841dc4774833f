"""A tool call on its way: judged, begun, ended (SPEC I, J)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from loops.engine.facts.fact import Fact
from loops.engine.values import Access, Compensation, Json, ToolResult


@dataclass(frozen=True, kw_only=True)
class CallJudged(Fact):
    """What the TAS said before anything ran: the verdict and the version of the rules it came from."""

    call_id: str
    access: Access
    reasons: tuple[str, ...] = ()
    invalid: bool = False
    gate_kind: str = ""
    risk: str = "low"
    policy_version: str = ""
    reversibility: str = ""
    """Of this call with these arguments: what is too large to keep makes a reversible tool irreversible (SPEC O1)."""
    operation: str = ""
    alternatives: tuple[str, ...] = ()
    """Of a denied call: what the agent may use instead, in words (SPEC I4)."""
    grantable: bool = False
    """Only the matrix denies it: a person can grant this one call."""


@dataclass(frozen=True, kw_only=True)
class ToolIntended(Fact):
    """INTENT of the write-ahead log: committed before the call may touch anything (SPEC J1)."""

    HEAVY: ClassVar[tuple[str, ...]] = ("arguments", "compensation")
    call_id: str
    tool: str
    arguments: Mapping[str, Json]
    idempotency_key: str
    attempt: int = 1
    gate: str = ""
    policy_version: str = ""
    sandbox_level: int = 0
    expects: Mapping[str, Json] = field(default_factory=dict)
    """SHA-256 by path, "before" the call and, where that can be known, "after" it: what a recovery looks for."""
    reversibility: str = ""
    compensation: Compensation | None = None
    """How it will be undone; None for a call that changes nothing (SPEC O2)."""


@dataclass(frozen=True, kw_only=True)
class ToolVerified(Fact):
    """The world was asked about an INTENT without outcome: ``found`` is done, not_done or unknown (SPEC J2).

    ``evidence`` holds hashes by path: "before" and "after" as INTENT expected them, "now" as they are.
    """

    call_id: str
    tool: str
    found: str
    evidence: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ToolCompleted(Fact):
    HEAVY: ClassVar[tuple[str, ...]] = ("result", "compensation")
    call_id: str
    tool: str
    result: ToolResult
    recovered: bool = False
    """The outcome was learnt from the world after an interruption, not from the execution itself."""
    compensation: Compensation | None = None
    """What only the execution could tell of how to undo it; takes the place of the INTENT's."""


@dataclass(frozen=True, kw_only=True)
class ToolRefused(Fact):
    """ABORT: the call did not run. ``why`` is one of REFUSALS; ``message`` goes to the model."""

    call_id: str
    tool: str
    why: str
    message: str


REFUSALS = (
    "malformed",
    "invalid",
    "denied",
    "rejected",
    "void",
    "surplus",
    "interrupted",
    "in_doubt",
    "circle",
    "identical",
    "reflect_first",
    "breaker_open",
)
