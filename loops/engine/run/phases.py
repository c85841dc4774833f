"""From one phase to the next."""

from __future__ import annotations

from loops.engine.facts import PhaseEntered
from loops.engine.state.lifecycle import Event, Phase, transition


def entered(phase: Phase, event: Event) -> PhaseEntered:
    """The fact of leaving ``phase`` by ``event``. Raises UndefinedTransition."""
    return PhaseEntered(phase=transition(phase, event), event=event, came_from=phase)
