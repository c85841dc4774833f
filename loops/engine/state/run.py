"""The state of a run: small, frozen, and nothing but a fold of its facts. It never holds the history (SPEC J7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from loops.engine.state.check import Check
from loops.engine.state.clearance import NOTHING_CLEARED, Clearance
from loops.engine.state.failure import Failure, SecondOpinion
from loops.engine.state.lifecycle import RETRIABLE, TERMINAL, Phase
from loops.engine.state.limits import Limits
from loops.engine.state.loop_escalation import NO_CIRCLE, LoopEscalation
from loops.engine.state.measures import (
    NOT_JUDGED,
    NOT_MEASURED,
    NOTHING_DENIED,
    UNMEASURED,
    Confidence,
    Denials,
    Measured,
    WindowMeasures,
)
from loops.engine.state.outage import NO_OUTAGE, Outage
from loops.engine.state.recovery import NOTHING_FAILED, RecoveryState
from loops.engine.state.remark import Remark
from loops.engine.state.review import NO_REVIEW, Review
from loops.engine.state.spec import RunSpec
from loops.engine.state.step_window import Window
from loops.engine.values import Access, Json, ToolCall

T = TypeVar("T")


class CallStatus(StrEnum):
    """Where a call of the latest answer is: proposed -> judged -> (gated -> approved, or refused) -> intended
    (-> gated -> again) -> done."""

    PROPOSED = "proposed"
    JUDGED = "judged"
    GATED = "gated"
    APPROVED = "approved"
    INTENDED = "intended"
    AGAIN = "again"
    REFUSED = "refused"
    DONE = "done"


@dataclass(frozen=True)
class PendingCall:
    """A call of the latest answer on its way through judgement, gate, intent and outcome.

    ``ok`` is set once it is done.
    """

    call: ToolCall
    status: CallStatus = CallStatus.PROPOSED
    access: Access = Access.ALLOW
    reasons: tuple[str, ...] = ()
    invalid: bool = False
    gate_kind: str = ""
    risk: str = "low"
    gate: str = ""
    attempt: int = 1
    ok: bool | None = None
    error: str = ""
    rejection: str = ""
    since: int = 0
    """When its INTENT was written, in microseconds since the epoch."""
    expects: Mapping[str, Json] = field(default_factory=dict)
    voided: int = 0
    """How often its approval did not cover any more what was about to run."""
    void_reason: str = ""
    """Why, the last time."""
    may_live: bool = False
    """The worker that began it was lost, and nobody could prove that its process is gone."""
    operation: str = ""
    alternatives: tuple[str, ...] = ()
    """Of a denied call: what the agent may use instead, in words (SPEC I4)."""
    grantable: bool = False
    """Only the matrix denies it: a person can grant this one call."""
    granted: bool = False
    rung: str = ""
    """How far the ladder of ``denial`` was climbed for this call."""
    specialist: str = ""
    may_change: bool = False
    """Its INTENT said how it is undone: it may change something."""
    changed: bool = False
    """It did, by its own word."""
    failure: Failure | None = None
    """What classifies it, when it failed (SPEC E1)."""
    said: str | None = None
    """What came of it, shortened; None where that is no news by itself (``detection``)."""


@dataclass(frozen=True, slots=True)
class OpenGate:
    id: str
    kind: str
    call_id: str = ""
    limit: str = ""
    tree: str = ""
    """Name of the tree of the workspace that a review binds; "" where it binds none."""


def fresh_in_fork(default: T) -> T:
    """A field with which a fork begins anew: nothing is used up, asked, permitted or decided in it (SPEC K3)."""
    made: T = field(default=default, metadata={"fresh_in_fork": True})
    return made


@dataclass(frozen=True)
class RunState:
    spec: RunSpec
    limits: Limits
    phase: Phase = Phase.PLAN
    seq: int = 0
    step: int = 0
    step_base: int = 0
    """Steps before the latest message of a person: such a message starts a fresh allowance (PRD R5.6)."""
    started_at: int = 0
    last_at: int = 0
    active_us: int = 0
    """Time spent working, in microseconds: waiting for people does not count against the time limit."""
    tokens: int = fresh_in_fork(0)
    cost_microusd: int = fresh_in_fork(0)
    cost_unknown: bool = fresh_in_fork(False)
    context_tokens: int = 0
    """Estimated size of the next request."""
    windowing: WindowMeasures = UNMEASURED
    requested: bool = False
    """A model request is in flight: written, and not answered yet."""
    model_attempt: int = fresh_in_fork(0)
    outage: Outage = fresh_in_fork(NO_OUTAGE)
    folder_awaited: str = ""
    """Why the run waits for its folder; "" while it does not."""
    folder_since: int = 0
    wake_at: int = fresh_in_fork(0)
    calls: tuple[PendingCall, ...] = ()
    stopped_without_calls: bool = False
    """The latest answer ended and called no tool."""
    plain_answers: int = fresh_in_fork(0)
    last_stop: str = ""
    answered: bool = False
    """The model has answered in this step and the step is not completed."""
    last_text: str = ""
    unsure: str = ""
    """What the model is not sure of, by the field that tools have for it in its latest answer (SPEC G2)."""
    gate: OpenGate | None = fresh_in_fork(None)
    paused: bool = fresh_in_fork(False)
    stop_requested: bool = fresh_in_fork(False)
    stop_reason: str = "operator_stop"
    awaiting_message: bool = False
    warned: frozenset[str] = fresh_in_fork(frozenset())
    reached: str = fresh_in_fork("")
    """The limit whose gate is to be opened or was refused."""
    refused_limit: str = fresh_in_fork("")
    extensions: int = fresh_in_fork(0)
    recovering: RecoveryState = fresh_in_fork(NOTHING_FAILED)
    """What failed, and what follows from it (SPEC E1-E4)."""
    second_opinions: tuple[SecondOpinion, ...] = fresh_in_fork(())
    """Of a model on failures that no rule is sure of: at most ``limits.max_second_opinions`` (SPEC E1)."""
    loop_found: str = ""
    recent: Window = ()
    """The last steps as fingerprints: what loop detection looks at (SPEC F1)."""
    circle: LoopEscalation = NO_CIRCLE
    """How far the run was helped out of its latest circle (SPEC F3)."""
    failures_in_row: int = fresh_in_fork(0)
    result: str | None = None
    checks: tuple[Check, ...] | None = fresh_in_fork(None)
    remarks: tuple[Remark, ...] = ()
    """What a reviewer should know of the result that was checked."""
    checking: bool = fresh_in_fork(False)
    tried: tuple[Check, ...] | None = None
    """What the criteria said before the first request where something kept them from running, for a person to decide;
    empty where nothing did, or where that is decided. None: not tried."""
    clearance: Clearance = NOTHING_CLEARED
    reviewed: bool = fresh_in_fork(False)
    approver: str = fresh_in_fork("")
    review_rejection: str = fresh_in_fork("")
    review: Review = NO_REVIEW
    repairs: int = fresh_in_fork(0)
    causes: tuple[str, ...] = ()
    failed_checks: tuple[Check, ...] = ()
    """Of the latest result that was not accepted: what the report shows once a repair has begun."""
    failed_result: str | None = None
    progress: float = 0.0
    progress_method: str = ""
    files_changed: int = 0
    measured: Measured = NOT_MEASURED
    confidence: Confidence = NOT_JUDGED
    denials: Denials = fresh_in_fork(NOTHING_DENIED)
    tool_calls: int = fresh_in_fork(0)
    model_calls: int = 0
    resume_phase: Phase | None = fresh_in_fork(None)
    end_reason: str = fresh_in_fork("")
    fatal: str = fresh_in_fork("")
    """A reason code that ends the run at the next decision."""
    recoveries: int = fresh_in_fork(0)
    deaths: int = fresh_in_fork(0)
    """Workers that died while they held the run at step ``died_at``; a later step begins to count anew."""
    died_at: int = 0
    effects: int = fresh_in_fork(0)
    """Calls begun that may have changed something: what they changed is folded from the journal when it is to be
    undone (``loops.engine.rollback``)."""
    rollback: str = fresh_in_fork("")
    """Of an ended run: "" not asked yet, "wanted", "partly", "continued" or "settled". An effect begins it anew."""
    undone: int = fresh_in_fork(0)
    """Effects undone since the model was last told so."""
    turn_at: str = fresh_in_fork("")
    """The model whose endpoint has other calls to answer first; empty while none is waited for."""
    turn_after: int = fresh_in_fork(0)
    """So many of them, when it began to wait."""
    reusing: str = ""
    """The run whose facts are being taken over: this one is a fork that has not begun (SPEC K3)."""
    reused_steps: int = 0
    reused_answers: int = 0

    @property
    def is_ended(self) -> bool:
        return self.phase in TERMINAL

    @property
    def can_be_reentered(self) -> bool:
        """A person may have this ended run go on where it was (SPEC A5)."""
        by_itself = self.end_reason in RETRIABLE or self.rollback == "continued"
        return self.phase is Phase.HALT or (self.phase is Phase.FAIL and by_itself)

    @property
    def steps_used(self) -> int:
        return self.step - self.step_base

    @property
    def step_is_open(self) -> bool:
        """The step is counted and the model has not answered in it: asking again begins no new one."""
        return self.requested or self.model_attempt > 0 or self.outage.is_open

    @property
    def is_resting(self) -> bool:
        """Waiting for a person, a model or its folder (or over): no time is charged and no worker is held."""
        asks = self.gate is not None or self.paused or self.awaiting_message
        return asks or self.lacks_resource or self.is_ended or bool(self.reusing)

    @property
    def lacks_resource(self) -> bool:
        """It goes on by itself once its folder, its turn at a model's server or a model that answers is there."""
        return bool(self.folder_awaited or self.turn_at) or self.outage.until > 0

    def call(self, call_id: str) -> PendingCall:
        """The pending call with this id. Raises KeyError."""
        for pending in self.calls:
            if pending.call.id == call_id:
                return pending
        raise KeyError(call_id)
