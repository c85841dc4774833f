"""Facts: what happened, in the past tense. The journal is a sequence of these and nothing else (ARCHITECTURE 3).

``at`` is microseconds since the epoch, stamped by the driver: the engine itself has no clock. ``HEAVY`` names fields
that may be long; the journal moves them to blobs, and the fold never needs them to *decide* (SPEC J7).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from loops.engine.fact import Fact as Fact
from loops.engine.facts_of_forking import Forked as Forked
from loops.engine.facts_of_forking import Origin as Origin
from loops.engine.facts_of_undoing import CompensationCompleted as CompensationCompleted
from loops.engine.facts_of_undoing import CompensationIntended as CompensationIntended
from loops.engine.facts_of_undoing import RollbackEnded as RollbackEnded
from loops.engine.facts_of_undoing import RollbackRequested as RollbackRequested
from loops.engine.facts_of_undoing import UndoLearnt as UndoLearnt
from loops.engine.lifecycle import Event, Phase
from loops.engine.spec import RunSpec
from loops.engine.values import (
    Access,
    Block,
    Compensation,
    FailureKind,
    Json,
    ModelRole,
    StopReason,
    ToolCall,
    ToolResult,
    Usage,
)


@dataclass(frozen=True, kw_only=True)
class RunStarted(Fact):
    """The first fact: everything that was decided before the first step."""

    HEAVY: ClassVar[tuple[str, ...]] = ("system",)
    spec: RunSpec
    system: str
    prompt_version: str
    tools_sha256: str
    sandbox_level: int = 0
    forked_from: Origin | None = None
    """Set for a fork: the facts up to ``Forked`` are that run's (SPEC K3)."""
    snapshot: str = ""
    """SHA-256 of the blob that lists the workspace as the run found it; empty where it was too large (SPEC O3)."""


@dataclass(frozen=True, kw_only=True)
class RunTakenOver(Fact):
    """A worker found the run without a living owner (SPEC J4). ``lost`` is that owner, ``why`` what it said of itself
    when it could still speak, ``lost_is_dead`` whether its process is proven to be gone (RELIABILITY 3.1)."""

    epoch: int
    worker: str
    lost: str = ""
    lost_is_dead: bool = False
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class PhaseEntered(Fact):
    phase: Phase
    event: Event
    came_from: Phase


@dataclass(frozen=True, kw_only=True)
class ModelRequested(Fact):
    """Written before the request is sent; ``request_sha256`` identifies its whole content."""

    role: ModelRole
    model: str
    request_sha256: str
    attempt: int = 1


@dataclass(frozen=True, kw_only=True)
class ModelAnswered(Fact):
    HEAVY: ClassVar[tuple[str, ...]] = ("blocks", "text", "thinking", "calls")
    role: ModelRole
    model: str
    provider: str
    model_id: str
    stop: StopReason
    usage: Usage
    blocks: tuple[Block, ...] = ()
    text: str = ""
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    request_id: str = ""
    raw_stop: str = ""
    stop_detail: str = ""
    first_token_ms: int = 0
    first_call_ms: int = 0
    duration_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class ModelFailed(Fact):
    kind: FailureKind
    code: str
    message: str
    attempt: int
    status: int = 0
    retry_after_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class ModelInterrupted(Fact):
    """A person stopped or paused the run while the model was answering; nothing of the answer was used."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class BackoffStarted(Fact):
    until: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class BackoffEnded(Fact):
    pass


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


@dataclass(frozen=True, kw_only=True)
class ApprovalVoided(Fact):
    """What would run is no longer what was approved: judged and asked again, nothing ran (SPEC Q5)."""

    call_id: str
    gate: str
    reason: str


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


REFUSALS = ("malformed", "invalid", "denied", "rejected", "void", "surplus", "interrupted", "in_doubt")


@dataclass(frozen=True, kw_only=True)
class StepCompleted(Fact):
    step: int
    success: bool
    error: str = ""
    error_signature: str = ""
    progress: float = 0.0
    progress_method: str = ""


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


@dataclass(frozen=True, kw_only=True)
class LoopDetected(Fact):
    method: str
    evidence: str
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MessageReceived(Fact):
    HEAVY: ClassVar[tuple[str, ...]] = ("text",)
    text: str
    by: str = ""


@dataclass(frozen=True, kw_only=True)
class StopRequested(Fact):
    by: str = ""


@dataclass(frozen=True, kw_only=True)
class RunPaused(Fact):
    by: str = ""


@dataclass(frozen=True, kw_only=True)
class RunResumed(Fact):
    """Go on after a pause, or re-enter a halted run at the phase it left (CH15 15.11.2)."""

    by: str = ""


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


@dataclass(frozen=True, kw_only=True)
class RunEnded(Fact):
    """The artifact of a terminal state (SPEC A5): AgentResult, FailureReport or HaltRecord."""

    HEAVY: ClassVar[tuple[str, ...]] = ("report",)
    phase: Phase
    reason: str
    report: Mapping[str, Json]
    report_kind: str
    amends: bool = False
    """The run had ended already; only its report is new, because it was rolled back since."""


KINDS: Mapping[str, type[Fact]] = {
    kind.__name__: kind
    for kind in (
        RunStarted,
        Forked,
        RunTakenOver,
        PhaseEntered,
        ModelRequested,
        ModelAnswered,
        ModelFailed,
        ModelInterrupted,
        BackoffStarted,
        BackoffEnded,
        CallJudged,
        GateOpened,
        GateDecided,
        ApprovalVoided,
        ToolIntended,
        ToolVerified,
        ToolCompleted,
        ToolRefused,
        StepCompleted,
        Reminded,
        LimitWarned,
        LimitReached,
        LoopDetected,
        MessageReceived,
        StopRequested,
        RunPaused,
        RunResumed,
        ResultProposed,
        ChecksStarted,
        ChecksCompleted,
        DiagnosisMade,
        RunEnded,
        UndoLearnt,
        RollbackRequested,
        CompensationIntended,
        CompensationCompleted,
        RollbackEnded,
    )
}
