"""What a run was not allowed to do."""

from __future__ import annotations

from dataclasses import dataclass

from loops.engine.facts.fact import Fact
from loops.engine.values import Json as Json  # the hints of a mapping name it, and are read here


@dataclass(frozen=True, kw_only=True)
class PermissionDenied(Fact):
    """The tool access service denied a call, and what is done about it (SPEC I4).

    ``rung``: "alternatives" (the model is told what it may use), "specialist" (somebody who may was looked for, and a
    person is asked next) or "settled" (a person has been asked about this operation, or could not grant it).
    """

    call_id: str
    tool: str
    operation: str
    times: int
    rung: str
    alternatives: tuple[str, ...] = ()
    specialist: str = ""
    """Name and type of an agent of the project that may do it; empty when there is none."""
    looked_at: int = 0
    """How many other agents were considered."""
