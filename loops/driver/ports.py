"""Everything one run needs of the world, in one value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loops.engine import ports as p
from loops.engine.failures import breakers as b
from loops.engine.model_calls import turns as t
from loops.engine.state.spec import RunSpec

NO_BREAKERS = b.AlwaysClosed()
NO_LINE = t.NoLine()


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
    checkouts: p.Checkouts | None = None
    """None: criteria are measured in the folder of the run alone, and what holds there is proved."""
    summary_prompt: Callable[[str], tuple[str, str]] | None = None
    """How a model is asked to sum up work on a goal: (the question, version of its template); None: no model is."""
    classifier_prompt: tuple[str, str] = ("", "")
    """How a model is asked for the class of a failure: (the prompt, version of its template)."""
    orchestrator: p.Orchestration | None = None
    """None: confidence is only measured, and nobody else's permissions are known."""
    breakers: b.Breakers = NO_BREAKERS
    turns: t.Turns = NO_LINE
    learnt: Callable[[str, int], None] = lambda model, window: None
    """Keep for all runs what a provider named as the window of a model."""
    short_prompt: Callable[[RunSpec], tuple[str, str]] | None = None
    """The short form of the system prompt, and the version of its template; None: there is none."""
    folder_missing: Callable[[str], str] = lambda path: ""
    """Why the folder at this path is not to be had here, for people; "" where it is."""
    fallbacks: Callable[[str], Sequence[str]] = lambda model: (model,)
    """A model and those to ask instead of it, in order (SPEC E6)."""
