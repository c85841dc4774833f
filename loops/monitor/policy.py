"""When the monitor speaks up."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from loops.engine.state.command_limits import COMMAND_LIMITS
from loops.engine.state.thresholds import THRESHOLDS, Thresholds


@dataclass(frozen=True, slots=True)
class Policy:
    """Times in seconds. 0 for a rate switches its check off."""

    every_s: float = 3.0
    untaken_s: float = 60.0
    """Something is to be done, and no worker has taken it for so long."""
    lapsed_s: float = 10.0
    """The owner's lease ran out so long ago, and nobody took the run over."""
    model_s: float = 1860.0
    """Longest silence while a model is asked: its own bound and a minute (``driver.model_calls``)."""
    tool_s: float = COMMAND_LIMITS["criterion_seconds"].high + 60.0
    """Longest silence while a tool runs: the longest command of any project and a minute. One that hangs sooner costs
    its worker the lease, which is noticed at once."""
    other_s: float = 120.0
    usd_per_minute: float = 2.0
    tokens_per_minute: float = 1_000_000.0
    rate_over_s: float = 30.0
    """A rate is measured over at least so long, and over twice that at most."""
    pace: float = 4.0
    """So many times faster than would use up the budget of money in the run's time is too fast."""
    pace_from: float = 0.25
    """Share of the budget that has to be used before its pace is judged."""
    thresholds: Thresholds = THRESHOLDS
    same_meaning: float = 0.9
    """Two texts mean the same from this cosine of their embeddings on, where an embedding model is configured."""


def from_settings() -> Policy:
    return Policy(
        usd_per_minute=settings.MONITOR_USD_PER_MINUTE,
        tokens_per_minute=settings.MONITOR_TOKENS_PER_MINUTE,
        same_meaning=settings.MONITOR_EMBEDDINGS_COSINE,
    )
