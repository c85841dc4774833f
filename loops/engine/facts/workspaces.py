"""The folder of a run is not where the run is to be driven: it waits until it is (SPEC J4)."""

from __future__ import annotations

from dataclasses import dataclass

from loops.engine.facts.fact import Fact


@dataclass(frozen=True, kw_only=True)
class WorkspaceAwaited(Fact):
    """No worker is held, no time is charged, and no model is told."""

    why: str
    """For people: which folder, and which worker does not have it."""


@dataclass(frozen=True, kw_only=True)
class WorkspaceFound(Fact):
    """It is there again, or a worker that has it took the run."""
