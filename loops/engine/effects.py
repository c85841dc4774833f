"""Effects: what is to be done next, in the imperative. ``decide`` names one; the driver performs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loops.engine.facts import Fact
from loops.engine.state.failure import Failure
from loops.engine.state.lifecycle import Event
from loops.engine.values import Json, ModelRole, ToolCall


@dataclass(frozen=True, slots=True)
class Record:
    """Write these facts: a decision that needs nothing from the world."""

    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class CallModel:
    role: ModelRole
    max_tokens: int
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class JudgeCall:
    call: ToolCall


@dataclass(frozen=True, slots=True)
class RunTool:
    """Write INTENT (using up the approval of ``gate`` in the same transaction), then execute."""

    call: ToolCall
    gate: str = ""
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class RecoverTool:
    """An INTENT without outcome was found: ask the world, or a person, never repeat blindly (SPEC J2)."""

    call: ToolCall
    attempt: int = 1


ABOUT_A_CALL = frozenset({"tool_approval", "irreversible_action", "in_doubt", "permission_blocked"})
"""Kinds of gates that show a call and what it would do. Who approves it can take that back until it begins."""


@dataclass(frozen=True, slots=True)
class OpenGate:
    kind: str
    title: str
    call: ToolCall | None = None
    reasons: tuple[str, ...] = ()
    risk: str = "low"
    recommended: str = ""
    subject: Mapping[str, Json] = field(default_factory=dict)
    view: Mapping[str, Json] = field(default_factory=dict)
    confidence: float | None = None
    criterion: str = ""
    """The acceptance criterion whose command ``call`` is: no call of the agent's."""


@dataclass(frozen=True, slots=True)
class CheckConfidence:
    """Judge how likely the run is to reach its goal (SPEC G2). ``trigger``: request, every_steps or uncertain."""

    trigger: str


@dataclass(frozen=True, slots=True)
class ClassifyFailure:
    """Ask a model about the failure of a call that no rule is sure of (SPEC E1)."""

    call_id: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class FindSpecialist:
    """Ask the orchestrator for an agent of the project that may do what this one may not (SPEC I4)."""

    call: ToolCall
    operation: str
    times: int


@dataclass(frozen=True, slots=True)
class RunChecks:
    """Measure the acceptance criteria and the output schema of the proposed result."""


@dataclass(frozen=True, slots=True)
class TryCriteria:
    """Run the commands of the acceptance criteria once, before the first request to a model (ADR 0064)."""


@dataclass(frozen=True, slots=True)
class PruneContext:
    """Make the conversation shorter: the whole request to ``most`` tokens, the harder ways from ``level`` on and where
    more than ``enough`` (0: ``most``) would remain (SPEC U1)."""

    most: int
    enough: int = 0
    level: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """Until this time (microseconds since the epoch)."""

    until: int


@dataclass(frozen=True, slots=True)
class AwaitTurn:
    """Until the endpoint of ``model`` takes the next call."""

    model: str


@dataclass(frozen=True, slots=True)
class AwaitModel:
    """Until this time (microseconds since the epoch), or until a model may be asked, without holding a worker."""

    until: int


@dataclass(frozen=True, slots=True)
class End:
    """Leave the artifact of a terminal state and be done."""

    event: Event
    reason: str
    detail: str = ""
    """What the report says of it, where there is more to say than the reason's own words."""
    gate: str = ""
    """The review by which the result was accepted: it is used up with the end, where the workspace is as it showed."""
    subject: Mapping[str, Json] = field(default_factory=dict)
    """What that review binds besides the workspace."""


@dataclass(frozen=True, slots=True)
class AskRollback:
    """The run has ended and something it did is still there: roll back, keep or continue? (SPEC O3)"""


@dataclass(frozen=True, slots=True)
class RollBack:
    """Undo what the run did, the latest effect first (SPEC O2)."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do until the outside says something: give the worker back."""

    why: str


Effect = (
    Record
    | CallModel
    | JudgeCall
    | RunTool
    | RecoverTool
    | OpenGate
    | CheckConfidence
    | ClassifyFailure
    | FindSpecialist
    | RunChecks
    | TryCriteria
    | PruneContext
    | Wait
    | AwaitModel
    | AwaitTurn
    | End
    | AskRollback
    | RollBack
    | Rest
)
