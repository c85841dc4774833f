"""What a run was asked to do and within which bounds: changed only by facts (SPEC section 0, D2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loops.engine.detection.thresholds import THRESHOLDS, Thresholds
from loops.engine.values import Json


@dataclass(frozen=True, slots=True)
class Criterion:
    """An acceptance criterion; ``command`` is a shell command whose exit code 0 proves it, or empty."""

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run (SPEC D1, D2). Times in seconds, money in millionths of a US dollar."""

    max_steps: int = 20
    max_seconds: int = 600
    max_failures: int = 3
    max_tokens: int = 500_000
    max_cost_microusd: int = 5_000_000
    allow_unknown_cost: int = 1
    """0: a call without a known price puts the run before a person, since the bound above cannot hold what it costs."""
    max_repairs: int = 3
    max_model_attempts: int = 6
    max_extensions: int = 20
    identical_errors: int = 3
    circles: Thresholds = THRESHOLDS
    """When repetition counts as a circle; of its own ``identical_errors`` the field above has the say."""
    calls_per_reply: int = 8
    warn_at: float = 0.8
    max_attempts: int = 3
    """Failed steps in a row before an approach is given up (SPEC E2)."""
    reflect_after: int = 3
    """Tool errors in a row before the model has to reflect: circuit level 1 (SPEC E4); 0 for never."""
    max_backtracks: int = 5
    """Approaches given up before the run ends: circuit level 2 (SPEC E4)."""
    confirm_after: int = 0
    """Steps without a person before one is asked whether to go on (SPEC D4); 0 for never."""
    max_second_opinions: int = 10
    """Failures that no rule is sure of and a model is asked about, in all (SPEC E1); 0 for none."""
    max_depth: int = 3
    """Of runs that were begun by runs (SPEC P1)."""


@dataclass(frozen=True, slots=True)
class ConfidenceTerms:
    """When the confidence is judged (SPEC G2): every so many steps and at the agent's own doubt, 0 for neither; below
    ``threshold`` a person is asked. ``by_model`` false: measured only, no model is asked."""

    every_steps: int = 0
    threshold: float = 0.5
    by_model: bool = False


@dataclass(frozen=True, slots=True)
class AgentRef:
    id: str
    type: str
    name: str
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class RunSpec:
    run_id: str
    task_id: str
    project_id: str
    agent: AgentRef
    goal: str
    workspace: str
    loop: str = "react"
    criteria: tuple[Criterion, ...] = ()
    constraints: str = ""
    output_schema: Mapping[str, Json] | None = None
    limits: Limits = Limits()
    models: Mapping[str, str] = field(default_factory=lambda: {"actor": "scripted"})
    """Model name by role; a role that is absent uses the actor's."""
    windows: Mapping[str, int] = field(default_factory=dict)
    """Tokens that a model takes, question and answer together, by the model's name; an unknown one is not there."""
    final_review: str = "unless_verified"
    policy_version: str = ""
    complexity: str = "moderate"
    complexity_reason: str = ""
    depth: int = 0
    """0 for a run that a person began, one more for each run between."""
    confidence: ConfidenceTerms = ConfidenceTerms()

    def model_for(self, role: str) -> str:
        return self.models.get(role) or self.models["actor"]
