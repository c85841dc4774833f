"""Everything one run needs of the world, in one value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loops.engine import breakers as b
from loops.engine import ports as p

NO_BREAKERS = b.AlwaysClosed()


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
    classifier_prompt: tuple[str, str] = ("", "")
    """How a model is asked for the class of a failure: (the prompt, version of its template)."""
    orchestrator: p.Orchestration | None = None
    """None: confidence is only measured, and nobody else's permissions are known."""
    breakers: b.Breakers = NO_BREAKERS
    fallbacks: Callable[[str], Sequence[str]] = lambda model: (model,)
    """A model and those to ask instead of it, in order (SPEC E6)."""
