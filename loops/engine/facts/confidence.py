"""How sure a run may be of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loops.engine.facts.fact import Fact
from loops.engine.values import Json as Json  # the hints of a mapping name it, and are read here
from loops.engine.values import Usage


@dataclass(frozen=True, kw_only=True)
class ConfidenceAsked(Fact):
    """A person wants the confidence judged now (SPEC G2)."""

    by: str = ""


@dataclass(frozen=True, kw_only=True)
class ConfidenceRequested(Fact):
    """Written before a model is asked to judge: what it is about to read is identified by ``request_sha256``."""

    step: int
    trigger: str
    model: str
    request_sha256: str


@dataclass(frozen=True, kw_only=True)
class ConfidenceChecked(Fact):
    """How likely the run is to reach its goal, 0 to 1, and everything ``score`` can be computed from again (SPEC G2).

    ``score`` is the smaller of ``raw_score``, the model's own number (None without one), and ``ceiling``, which is
    computed from ``features`` and ``weights`` alone. ``method``: "model", or "measured" when no model was asked or none
    gave a number; ``problem`` then says why. ``progress`` is the model's own estimate, None without one.
    """

    step: int
    trigger: str
    score: float
    ceiling: float
    threshold: float
    method: str
    reason: str
    raw_score: float | None = None
    features: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    version: str = ""
    progress: float | None = None
    problem: str = ""
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    provider: str = ""
    model_id: str = ""
    request_id: str = ""
    duration_ms: int = 0
