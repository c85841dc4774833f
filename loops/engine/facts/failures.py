"""What failures lead to: their classes, also by a model's word, approaches given up, reflections, silence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from loops.engine.facts.fact import Fact
from loops.engine.state.failure import Recovery
from loops.engine.values import FailureKind, Usage


@dataclass(frozen=True, kw_only=True)
class FailureClassified(Fact):
    """A call failed: its class, by which rule, and what follows (SPEC E1). ``attempt`` counts the failed steps in a
    row of the present approach, this one included. Without ``certain`` no rule was sure, and a guess holds.

    Where a model may break such a tie, ``rule_kind`` is what the rule said and ``model_kind`` what ``model`` said, now
    or of the same failure before; without a word of it ``problem`` says why.
    """

    step: int
    call_id: str
    tool: str
    kind: FailureKind
    decision: Recovery
    rule: str
    reason: str
    certain: bool = True
    attempt: int = 1
    person_can_help: bool = False
    rule_kind: FailureKind | None = None
    model: str = ""
    model_kind: FailureKind | None = None
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Backtracked(Fact):
    """An approach was given up: the conversation goes back to after ``to_step``, with ``summary`` in place of the steps
    from ``from_step`` on (SPEC E3). ``number`` counts the backtracks of the run."""

    HEAVY: ClassVar[tuple[str, ...]] = ("summary",)
    to_step: int
    from_step: int
    summary: str
    reason: str
    number: int = 1
    from_call: str = ""
    """The first call that goes: its results, its answer and whatever follows are left out."""
    files: tuple[str, ...] = ()
    """What the approach changed and left as it is."""


@dataclass(frozen=True, kw_only=True)
class ReflectionForced(Fact):
    """Circuit level 1: so many tool errors in a row that the model has to say what is wrong first (SPEC E4)."""

    errors: int
    text: str


@dataclass(frozen=True, kw_only=True)
class ReflectionGiven(Fact):
    step: int


@dataclass(frozen=True, kw_only=True)
class ModelStopped(Fact):
    """The model ended its turn without a tool call, so often in a row that this counts (SPEC D1). ``taken`` says that
    its text is taken as the result; else there was none to take, and the run ends."""

    answers: int
    taken: bool


@dataclass(frozen=True, kw_only=True)
class ClassificationRequested(Fact):
    """Written before a model is asked about the failure of a call; ``fingerprint`` is that of the failure."""

    call_id: str
    fingerprint: str
    model: str
    request_sha256: str
    prompt_version: str = ""


@dataclass(frozen=True, kw_only=True)
class ClassificationGiven(Fact):
    """What the model said, for ``usage``. ``kind`` is None when it said nothing of use; ``problem`` is why."""

    fingerprint: str
    model: str
    kind: FailureKind | None = None
    problem: str = ""
    usage: Usage = field(default_factory=Usage)
    provider: str = ""
    model_id: str = ""
    request_id: str = ""
    duration_ms: int = 0
