"""``apply``: fold one fact into the state, by what it means to each ability that it concerns (``reducers``).

``apply`` refuses a fact that cannot have happened (``ImpossibleFact``) and leaves the state alone.
"""

from __future__ import annotations

from collections.abc import Iterable

import loops.engine.confidence.reducers
import loops.engine.context_window.reducers
import loops.engine.failures.reducers
import loops.engine.forks.reducers
import loops.engine.limits.reducers
import loops.engine.loop_detection.reducers
import loops.engine.model_calls.reducers
import loops.engine.people.decisions
import loops.engine.people.reducers
import loops.engine.permissions.reducers
import loops.engine.progress.reducers
import loops.engine.rollback.reducers
import loops.engine.run.reducers
import loops.engine.tool_calls.reducers
import loops.engine.verification.reducers  # noqa: F401
from loops.engine import facts as f
from loops.engine.encoding.replace import evolve
from loops.engine.reducers import CHARS_PER_TOKEN, HANDLERS, ImpossibleFact, answer_call_id
from loops.engine.state.clearance import Clearance
from loops.engine.state.run import RunState

_AFTER_THE_END = (
    f.RunEnded,
    f.RunResumed,
    f.RunTakenOver,
    f.TextsChanged,
    f.MessageReceived,
    f.GateOpened,
    f.GateDecided,
    f.WorkspaceChanged,
    f.RollbackRequested,
    f.CompensationIntended,
    f.CompensationCompleted,
    f.RollbackEnded,
)


def initial(started: f.RunStarted) -> RunState:
    """The state right after RunStarted, the only fact that needs no state before it."""
    size = len(started.system) + len(started.spec.goal) + len(started.spec.constraints)
    return RunState(
        spec=started.spec,
        limits=started.spec.limits,
        seq=1,
        started_at=started.at,
        last_at=started.at,
        context_tokens=size // CHARS_PER_TOKEN + 600,
        clearance=Clearance(trusted=started.obeyed),
        reusing=started.forked_from.run_id if started.forked_from else "",
    )


def apply(state: RunState, fact: f.Fact) -> RunState:
    """The state after ``fact``. Raises ImpossibleFact (or UndefinedTransition for a phase change)."""
    handlers = HANDLERS.get(type(fact))
    if handlers is None:
        raise ImpossibleFact(f"{type(fact).__name__} has no meaning here")
    if state.is_ended and not isinstance(fact, _AFTER_THE_END):
        raise ImpossibleFact(f"{type(fact).__name__} after the end ({state.phase})")
    folded = state
    for handler in handlers:
        folded = handler(folded, fact)
    active = state.active_us
    if not state.is_resting:
        active += max(0, fact.at - state.last_at)
    return evolve(folded, seq=state.seq + 1, last_at=max(fact.at, state.last_at), active_us=active)


def replay(history: Iterable[f.Fact]) -> RunState:
    """Fold a whole history, RunStarted first."""
    facts = iter(history)
    first = next(facts, None)
    if not isinstance(first, f.RunStarted):
        raise ImpossibleFact("a history begins with RunStarted")
    state = initial(first)
    for fact in facts:
        state = apply(state, fact)
    return state


__all__ = ["CHARS_PER_TOKEN", "HANDLERS", "ImpossibleFact", "answer_call_id", "apply", "initial", "replay"]
