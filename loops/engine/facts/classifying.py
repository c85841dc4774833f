"""A model was asked about a failure that no rule was sure of (SPEC E1)."""

from __future__ import annotations

from dataclasses import dataclass, field

from loops.engine.facts.fact import Fact
from loops.engine.values import FailureKind, Usage


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
