"""What a fork is: facts another run recorded, taken over as they stand, and a run that goes on from there (SPEC K3).

The journal of a fork begins with a RunStarted of its own that names its origin. The facts of the other run follow, the
same bytes under the same sequence numbers, up to the point of the fork. ``Forked`` ends them. Until then the state is
``reusing``: no time is charged and nothing is decided.

* A fork begins while the agent acts. Verification and review belong to the result of one run and are done afresh, so a
  point that lies behind them, or behind the end, moves back to where the agent stopped acting.
* What a person permitted is spent with the run it was permitted in: an open call is judged again, whatever was decided.
* A call that was begun and has no outcome here is never begun again by itself: the model is told, and may propose it.
* What the other run changed is not this one's to undo.
* What was spent was paid by the other run. Limits and totals count from the fork on.
"""

from __future__ import annotations

from collections.abc import Iterable

from loops.engine import facts as f
from loops.engine import prompts
from loops.engine.state.lifecycle import TERMINAL, Phase
from loops.engine.state.run import CallStatus, RunState

ACTING = frozenset({Phase.PLAN, Phase.DECOMPOSE, Phase.RETRIEVE, Phase.ACT, Phase.REPAIR})
BEGUN = frozenset({CallStatus.INTENDED, CallStatus.AGAIN})


def point(moves: Iterable[tuple[int, f.Fact]], wanted: int) -> int:
    """Sequence number of the last fact to take over, at most ``wanted``: the agent acts right after it.

    ``moves``: the PhaseEntered and RunResumed of the run with their sequence numbers, in order.
    """
    phase, resumed_in, left = Phase.PLAN, Phase.PLAN, 0
    for seq, move in moves:
        if seq > wanted:
            break
        if isinstance(move, f.PhaseEntered):
            phase, resumed_in = move.phase, move.came_from
        elif phase in TERMINAL:
            phase = resumed_in
        left = 0 if phase in ACTING else left or seq
    return left - 1 if left else wanted


def unfinished(state: RunState) -> tuple[f.ToolRefused, ...]:
    """The facts that close the calls which were begun before the point of the fork and have no outcome there."""
    message = prompts.fill("call_before_fork")
    return tuple(
        f.ToolRefused(call_id=pending.call.id, tool=pending.call.name, why="in_doubt", message=message)
        for pending in state.calls
        if pending.status in BEGUN
        or (pending.status == CallStatus.GATED and state.gate and state.gate.kind == "in_doubt")
    )
