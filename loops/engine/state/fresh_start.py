"""What is news to a run lets it try anything again: a person's word, an extension, a fork."""

from __future__ import annotations

from loops.engine.encoding.replace import evolve
from loops.engine.state.failure import Recovery
from loops.engine.state.loop_escalation import NO_CIRCLE
from loops.engine.state.recovery import RecoveryState
from loops.engine.state.run import RunState


def without_circle(state: RunState) -> RunState:
    """Whatever went in circles before may be tried again."""
    return evolve(state, loop_found="", recent=(), circle=NO_CIRCLE)


def after_message(memory: RecoveryState) -> RecoveryState:
    """A person spoke: anything may be tried again. What needs a person's decision still needs it."""
    if memory == RecoveryState():
        return memory
    keeps = memory.next in (Recovery.ESCALATE, Recovery.FAIL_GRACEFULLY)
    fresh = RecoveryState(
        backtracks=memory.backtracks,
        given_up=memory.given_up,
        best_progress=memory.best_progress,
        confirmed_at=memory.confirmed_at,
    )
    if not keeps:
        return fresh
    kept = {"attempts": memory.attempts, "next": memory.next, "why": memory.why, "rule": memory.rule}
    return evolve(fresh, person_can_help=memory.person_can_help, **kept)


def tried_anew(state: RunState) -> RunState:
    """A person knows what failed and lets it go on: whatever failed or went in circles may be tried again."""
    return evolve(without_circle(state), failures_in_row=0, recovering=after_message(state.recovering))


def confirmed(state: RunState) -> RunState:
    """A person granted more of something: that it may go on was part of it (SPEC D4)."""
    return evolve(state, recovering=evolve(state.recovering, confirmed_at=state.step))
