"""A run waits for its folder, and goes on (SPEC J4)."""

from __future__ import annotations

from loops.engine import facts as f
from loops.engine.evolving import evolve
from loops.engine.fold.parts import means
from loops.engine.state import RunState


@means(f.WorkspaceAwaited)
def awaited(state: RunState, fact: f.WorkspaceAwaited) -> RunState:
    return evolve(state, folder_awaited=fact.why, folder_since=fact.at)


@means(f.WorkspaceFound)
def found(state: RunState, fact: f.WorkspaceFound) -> RunState:
    return evolve(state, folder_awaited="", folder_since=0)
