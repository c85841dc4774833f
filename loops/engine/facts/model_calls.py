"""What was asked of a model, what came back, and what a run waits for before it may ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from loops.engine.facts.fact import Fact
from loops.engine.values import Block, FailureKind, ModelRole, StopReason, ToolCall, Usage
from loops.engine.values import Json as Json  # the hints of a Block name it, and are read here

TOO_LONG = frozenset({"prompt_too_long", "context_length_exceeded", "request_too_large"})
"""Codes of a provider that refuses a request for its length."""


@dataclass(frozen=True, kw_only=True)
class ModelRequested(Fact):
    """Written before the request is sent; ``request_sha256`` identifies its whole content.

    ``tokens`` are estimates by part: system, tools, messages. ``tools`` are those offered, where they are not the ones
    that an earlier request of the run offered; ``tools_sha256`` is then their hash.
    """

    HEAVY: ClassVar[tuple[str, ...]] = ("tools",)
    role: ModelRole
    model: str
    request_sha256: str
    attempt: int = 1
    max_tokens: int = 0
    tokens: Mapping[str, int] = field(default_factory=dict)
    size: int = 0
    """Bytes of system prompt, tools and messages as JSON."""
    dropped: int = 0
    """Messages of the conversation that were left out by then."""
    window: int = 0
    """Tokens that the model takes, question and answer together; 0 unknown."""
    tools: tuple[Block, ...] = ()
    tools_sha256: str = ""
    fell_back_from: str = ""
    """The model that was wanted, when another one of its chain is asked (SPEC E6)."""
    because: str = ""
    probe: bool = False
    """It shows everybody whether the model works again (SPEC E5)."""


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
    model: str = ""
    next_model: str = ""
    """Of the fallback chain: asked when this one is given up. Without one the run ends then."""
    probe: bool = False
    window: int = 0
    """Tokens that the model takes, where the provider named them when it refused the request as too long."""
    counted: int = 0
    """Tokens of the request by the provider's count, likewise."""


@dataclass(frozen=True, kw_only=True)
class ModelInterrupted(Fact):
    """The run was stopped or paused while the model was answering; nothing of the answer was used."""

    reason: str
    """Who wanted it (a person's name, "monitor"), or what: the end of the worker, the time limit."""


@dataclass(frozen=True, kw_only=True)
class BackoffStarted(Fact):
    until: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class BackoffEnded(Fact):
    pass


@dataclass(frozen=True, kw_only=True)
class ModelAwaited(Fact):
    """The breakers of every model that could be asked are open. No worker is held, and no attempt is used up."""

    role: ModelRole
    model: str
    """The one that may be tried first."""
    until: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class ModelAwaitEnded(Fact):
    """Time has come, or a breaker let somebody pass before."""


@dataclass(frozen=True, kw_only=True)
class TurnAwaited(Fact):
    """The run is parked: no worker is held, no time is charged and nothing was sent. ``before`` calls of other runs
    came first at that moment."""

    role: ModelRole
    model: str
    before: int = 0


@dataclass(frozen=True, kw_only=True)
class TurnTaken(Fact):
    """It may ask now."""

    model: str
