"""Everything one run needs of the world, in one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loops.engine import ports as p


@dataclass(frozen=True, slots=True)
class Ports:
    journal: p.Journal
    models: p.Models
    tools: p.Tools
    gatekeeper: p.Gatekeeper
    archive: p.Archive
    feed: p.Feed
    clock: p.Clock
    new_id: Callable[[], str]
    summary_prompt: Callable[[str], tuple[str, str]] | None = None
    """How a model is asked to sum up work on a goal: (the question, version of its template); None: no model is."""
    orchestrator: p.Orchestration | None = None
    """None: confidence is only measured, and nobody else's permissions are known."""
