"""What stands before the next request to a model: an ordered table of small pure functions ``state -> Effect | None``.

It stands before the request of every loop, also of another package's (``decide``). The first that has something to do
is done, and the table is asked again. Each leaves a fact that makes it silent the next time, so that the request is
reached. An idea of its own gets a module of its own and a line in ``BEFORE``.
"""

from __future__ import annotations

from collections.abc import Callable

from loops.engine.confidence import score
from loops.engine.context_window import budget
from loops.engine.effects import CallModel, Effect
from loops.engine.ends import reasons as end_reasons
from loops.engine.failures import recovery
from loops.engine.limits import reached_limits
from loops.engine.loop_detection import guard
from loops.engine.measures import limits
from loops.engine.people import long_task
from loops.engine.state.run import RunState
from loops.engine.verification import trial


def next_effect(state: RunState) -> Effect | None:
    """What is to be done before the model may be asked; None when nothing is."""
    for step in BEFORE:
        if effect := step(state):
            return effect
    return None


def ask(state: RunState) -> CallModel:
    """The request that a loop makes."""
    return CallModel(role=guard.actor(state), max_tokens=limits.answer_tokens(state), attempt=state.model_attempt + 1)


BEFORE: tuple[Callable[[RunState], Effect | None], ...] = (
    reached_limits.ask_about_limit,
    trial.try_criteria,
    recovery.give_up,
    guard.break_or_ask,
    guard.look_for_loops,
    recovery.escalate,
    end_reasons.after_failure,
    budget.warn,
    budget.make_room,
    reached_limits.notice_limit,
    score.check_confidence,
    long_task.confirm_long_task,
    reached_limits.warn_of_limit,
    recovery.force_reflection,
    recovery.wait_out,
)
"""In the order in which they are asked."""
