"""How a run begins, moves through its phases, changes hands, and ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from loops.engine.facts.fact import Fact
from loops.engine.facts.forks import Origin
from loops.engine.state.lifecycle import Event, Phase
from loops.engine.state.spec import RunSpec
from loops.engine.values import Json


@dataclass(frozen=True, kw_only=True)
class RunStarted(Fact):
    """The first fact: everything that was decided before the first step."""

    HEAVY: ClassVar[tuple[str, ...]] = ("system", "wording")
    spec: RunSpec
    system: str
    prompt_version: str
    tools_sha256: str
    sandbox_level: int = 0
    prompts: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 (hex) of every prompt template by its name (SPEC U3)."""
    wording: Mapping[str, str] = field(default_factory=dict)
    """The templates with which the fold says what facts have no words for, by name; empty: their first wording."""
    forked_from: Origin | None = None
    """Set for a fork: the facts up to ``Forked`` are that run's (SPEC K3)."""
    snapshot: str = ""
    """SHA-256 of the blob that lists the workspace as the run found it; empty where it was too large (SPEC O3)."""
    began: str = ""
    """Of a fork of a run that was at work: the same of that run, or of the first that it came from."""
    surroundings: str = ""
    """What the first message says of the folder; runs of earlier versions were told nothing of it."""
    obeyed: str = ""
    """SHA-256 over all that a command would obey in that workspace; empty where no criterion has a command, where it
    cannot be told whole, or where another run worked in that folder before (SPEC Q5)."""


@dataclass(frozen=True, kw_only=True)
class RunTakenOver(Fact):
    """A worker found the run without a living owner (SPEC J4). ``lost`` is that owner, ``why`` what it said of itself
    when it could still speak, ``lost_is_dead`` whether its process is proven to be gone (reliability#lease), ``died``
    whether that happened to this process alone and nobody had told it to end."""

    epoch: int
    worker: str
    lost: str = ""
    lost_is_dead: bool = False
    why: str = ""
    died: bool = False


@dataclass(frozen=True, kw_only=True)
class TextsChanged(Fact):
    """A worker of another version goes on: from here on these templates are new or worded otherwise (SPEC U3).
    ``prompts`` is their SHA-256 (hex) by name. What the fold says stays in the wording of the first fact."""

    prompts: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class PhaseEntered(Fact):
    phase: Phase
    event: Event
    came_from: Phase


@dataclass(frozen=True, kw_only=True)
class StepCompleted(Fact):
    step: int
    success: bool
    error: str = ""
    error_signature: str = ""
    progress: float = 0.0
    progress_method: str = ""
    progress_detail: str = ""
    """The same in words, with the numbers it comes from (SPEC G1)."""
    action: str = ""
    """Mark of what the step did (``detection.fingerprints``)."""
    outcome: str = ""
    """Mark of what came of it."""
    changed: bool = False


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
    evidence: str = ""
    """The weakest level behind a result (ADR 0079); it stands in the report as well, which is read apart."""


@dataclass(frozen=True, kw_only=True)
class WorkspaceAwaited(Fact):
    """No worker is held, no time is charged, and no model is told."""

    why: str
    """For people: which folder, and which worker does not have it."""


@dataclass(frozen=True, kw_only=True)
class WorkspaceFound(Fact):
    """It is there again, or a worker that has it took the run."""
