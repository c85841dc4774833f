"""What was done to make a conversation fit into the model's window (SPEC U1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from loops.engine.facts.fact import Fact
from loops.engine.values import Usage


@dataclass(frozen=True, kw_only=True)
class ContextWarned(Fact):
    """Most of the model's window is full: ``used`` of ``window`` tokens, estimated."""

    used: int
    window: int


@dataclass(frozen=True, kw_only=True)
class PromptShortened(Fact):
    """The window turned out to be small: from here on the model reads the short form of system prompt and tools, with
    which the whole request has ``size`` bytes."""

    HEAVY: ClassVar[tuple[str, ...]] = ("system",)
    system: str
    prompt_version: str
    size: int
    window: int


@dataclass(frozen=True, kw_only=True)
class SummaryRequested(Fact):
    """Written before a model is asked to sum up what is going to be left out."""

    model: str
    request_sha256: str
    prompt_version: str = ""


@dataclass(frozen=True, kw_only=True)
class ContextPruned(Fact):
    """The conversation was made shorter; whoever folds it does exactly the same.

    Results longer than ``cut_to`` characters in the first ``cut_before`` messages were shortened to their two ends,
    ``shortened`` in number; the ``dropped_messages`` after the first message were left out, and ``summary`` stands for
    them. ``kept`` messages remain. ``method``: none (nothing could be left out), shortened, dropped or summarised, the
    last by ``model``, for ``usage``. Token counts are estimates of the whole request.
    """

    HEAVY: ClassVar[tuple[str, ...]] = ("summary",)
    before_tokens: int
    after_tokens: int
    dropped_messages: int = 0
    kept: int = 0
    summary: str = ""
    method: str = "none"
    shortened: int = 0
    cut_before: int = 0
    cut_to: int = 0
    level: int = 0
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    fixed_tokens: int = 0
    """Of system prompt and tools, which nothing makes shorter."""
    why_no_model: str = ""
    """Why the model that sums up was of no use."""
