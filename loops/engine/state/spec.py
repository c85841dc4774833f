"""What a run was asked to do and within which bounds: changed only by facts (SPEC section 0, D2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from loops.engine.state.limits import DEFAULTS, Limits
from loops.engine.values import Json


@dataclass(frozen=True, slots=True)
class Criterion:
    """An acceptance criterion; ``command`` is a shell command whose exit code 0 says that it is met, or empty."""

    text: str
    command: str = ""


def test_command(commands: Iterable[str]) -> str:
    """Of the commands of acceptance criteria the one that runs the tests: the first that has the word in it, or the
    only one there is; "" where none can be told."""
    given = [one for one in commands if one.strip()]
    if len(given) == 1:
        return given[0]
    of_the_shell = ("test ", "[ ")  # what the shell itself calls a test looks at a file
    return next((one for one in given if "test" in one and not one.startswith(of_the_shell)), "")


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
    program: str = ""
    """The class that leads its runs (``agentops.agents``); "" for the execution loop alone."""


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
    limits: Limits = DEFAULTS
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
    tries_criteria: bool = False
    """The commands of its criteria run once before its first request (ADR 0064). Runs of earlier versions did not."""

    def model_for(self, role: str) -> str:
        return self.models.get(role) or self.models["actor"]
