"""Where a fork begins to go its own way (``loops.engine.forks.prefix``)."""

from __future__ import annotations

from dataclasses import fields, replace

from loops.engine import facts as f
from loops.engine.encoding.replace import evolve
from loops.engine.forks.prefix import BEGUN
from loops.engine.reducers import CHARS_PER_TOKEN, ImpossibleFact, means
from loops.engine.state.clearance import Clearance
from loops.engine.state.fresh_start import without_circle
from loops.engine.state.run import CallStatus, PendingCall, RunState

FRESH = {each.name: each.default for each in fields(RunState) if "fresh_in_fork" in each.metadata}


@means(f.Forked)
def forked(state: RunState, fact: f.Forked) -> RunState:
    """The state in which the fork goes on: the conversation so far, fresh bounds, and nothing permitted."""
    if not state.reusing:
        raise ImpossibleFact("this run is no fork, or has begun already")
    own = fact.run_id == state.reusing  # the other run may have been a fork itself: its ``Forked`` is history here
    if any(pending.status in BEGUN for pending in state.calls):
        raise ImpossibleFact("a call of the other run is still open")
    told = bool(fact.message)
    open_step = state.step_is_open
    return evolve(
        _with_fresh_bounds(state),
        reusing="" if own else state.reusing,
        reused_steps=state.step - open_step,
        reused_answers=state.model_calls,
        started_at=fact.at,
        step_base=state.step - open_step,
        requested=open_step,
        calls=tuple(p if p.status == CallStatus.DONE else PendingCall(call=p.call) for p in state.calls),
        awaiting_message=state.awaiting_message and not told,
        result=None if told else state.result,
        tried=None if state.tried else state.tried,
        context_tokens=state.context_tokens + len(fact.message) // CHARS_PER_TOKEN,
    )


def _with_fresh_bounds(state: RunState) -> RunState:
    """Nothing is used up yet, nothing was warned of, and no failure counts."""
    return evolve(
        without_circle(state),
        **FRESH,
        limits=state.spec.limits,
        confidence=replace(state.confidence, asked=False, low=False, quiet_until=0),
        clearance=Clearance(trusted=state.clearance.trusted),
        windowing=evolve(state.windowing, overflows=0, too_long=False, summaries=0),
    )
