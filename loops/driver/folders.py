"""A run needs its folder for all it does, and only the machine that has it can go on (SPEC J4).

Elsewhere the run is given back before the model is asked anything or a call is made: what fails for want of the folder
would be told to the model as its own failure. What people ask of the run is obeyed meanwhile.
"""

from __future__ import annotations

from loops.driver.desk import Desk
from loops.engine import effects as e
from loops.engine import facts as f

SHORTEST_S, LONGEST_S = 5.0, 60.0
"""Between two looks. Each of them is for whichever worker comes first."""


def awaited(desk: Desk, effect: e.Effect) -> int:
    """When to look again, in microseconds since the epoch; 0 when the folder is here, or not needed for ``effect``."""
    if isinstance(effect, e.Record | e.End):
        return 0
    state = desk.state
    why = desk.ports.folder_missing(state.spec.workspace)
    if not why:
        if state.folder_awaited:
            desk.note(f.WorkspaceFound())
        return 0
    if not state.folder_awaited and not state.is_ended:
        desk.note(f.WorkspaceAwaited(why=why))
    return desk.now() + int(_pause_s(desk) * 1e6)


def _pause_s(desk: Desk) -> float:
    """The longer it is away, the more seldom it is looked for."""
    since = desk.state.folder_since or desk.state.last_at
    return min(max(SHORTEST_S, (desk.now() - since) / 1e6 / 2), LONGEST_S)
