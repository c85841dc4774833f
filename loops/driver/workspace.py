"""A run needs its folder for all it does, and only the machine that has it can go on (SPEC J4).

Elsewhere the run is given back before the model is asked anything or a call is made: what fails for want of the folder
would be told to the model as its own failure. What people ask of the run is obeyed meanwhile.
"""

from __future__ import annotations

from loops.driver.session import RunSession
from loops.engine import effects as e
from loops.engine import facts as f

SHORTEST_S, LONGEST_S = 5.0, 60.0
"""Between two looks. Each of them is for whichever worker comes first."""


def awaited(session: RunSession, effect: e.Effect) -> int:
    """When to look again, in microseconds since the epoch; 0 when the folder is here, or not needed for ``effect``."""
    if isinstance(effect, e.Record) or (isinstance(effect, e.End) and not effect.gate):
        return 0
    state = session.state
    why = session.ports.folder_missing(state.spec.workspace)
    if not why:
        if state.folder_awaited:
            session.note(f.WorkspaceFound())
        return 0
    if not state.folder_awaited and not state.is_ended:
        session.note(f.WorkspaceAwaited(why=why))
    return session.now() + int(_pause_s(session) * 1e6)


def _pause_s(session: RunSession) -> float:
    """The longer it is away, the more seldom it is looked for."""
    since = session.state.folder_since or session.state.last_at
    return min(max(SHORTEST_S, (session.now() - since) / 1e6 / 2), LONGEST_S)
