"""What circles, and the ways out of them, make of a state."""

from __future__ import annotations

from loops.engine import facts as f
from loops.engine.encoding.fingerprints import exact_part, result_mark
from loops.engine.encoding.replace import evolve
from loops.engine.reducers import decides, means
from loops.engine.state.fresh_start import tried_anew
from loops.engine.state.loop_escalation import FRESH_STEPS, NO_CIRCLE, LoopEscalation, was_left
from loops.engine.state.measures import REPORTED
from loops.engine.state.run import OpenGate, RunState
from loops.engine.state.step_window import Seen, observe

PROOFS = frozenset({"checks", "tests", REPORTED})
"""Ways of measuring progress by which a run that goes nowhere can be told: files that change say nothing of it."""


@means(f.LoopDetected)
def loop_detected(state: RunState, fact: f.LoopDetected) -> RunState:
    circle = NO_CIRCLE if was_left(state.circle, state.step) else state.circle
    return evolve(
        state, loop_found=fact.evidence, circle=evolve(circle, method=fact.method, steps=fact.steps or (state.step,))
    )


@means(f.LoopBroken)
def loop_broken(state: RunState, fact: f.LoopBroken) -> RunState:
    """A rung that was skipped leaves the circle as it is, for the next one."""
    if fact.skipped:
        return evolve(state, circle=evolve(state.circle, rung=state.circle.rung + 1))
    round_about = (seen for seen in state.recent if seen.step in fact.steps and seen.action and not seen.is_round)
    refused = {exact_part(seen.action) for seen in round_about}
    circle = evolve(
        state.circle,
        rung=state.circle.rung + 1,
        broken_at=state.step,
        progress=state.progress,
        refused=tuple(sorted(refused | set(state.circle.refused))),
    )
    return evolve(_with_room(state) if fact.anew else state, loop_found="", circle=circle)


def _with_room(state: RunState) -> RunState:
    """A rung is a new approach: what failed before counts as one failure, and what was told has its steps to help."""
    room = min(1, max(0, state.limits.max_failures - FRESH_STEPS))
    memory = state.recovering
    attempts = memory.attempts if memory.next else ()
    return evolve(
        state,
        failures_in_row=min(state.failures_in_row, room),
        recovering=evolve(memory, failed_steps=0, attempts=attempts),
    )


@means(f.StallDetected)
def stall_detected(state: RunState, fact: f.StallDetected) -> RunState:
    return state


@means(f.DiagnosisMade)
def diagnosed(state: RunState, fact: f.DiagnosisMade) -> RunState:
    """The last step handed in a result, and this is what came of it: a round of repair (CH15 15.9.3)."""
    if not state.recent:
        return state
    proposed = evolve(state.recent[-1], outcome=result_mark(fact.feedback), is_round=True)
    return evolve(state, recent=(*state.recent[:-1], proposed))


def seen_of(fact: f.StepCompleted) -> Seen:
    """What loop detection keeps of a step."""
    return Seen(
        step=fact.step,
        action=fact.action,
        outcome=fact.outcome,
        error="" if fact.success else fact.error_signature,
        progress=fact.progress,
        measured=fact.progress_method in PROOFS,
        changed=fact.changed,
    )


@means(f.StepCompleted)
def step_completed(state: RunState, fact: f.StepCompleted) -> RunState:
    """One more step in the window. Progress takes a run off the ladder; what may have changed something, a
    command included, lets it try anything again."""
    circle = state.circle
    if circle.rung and fact.progress > circle.progress:
        circle = LoopEscalation(broken_at=circle.broken_at)
    elif circle.refused and (fact.changed or any(pending.ok and pending.may_change for pending in state.calls)):
        circle = evolve(circle, refused=())
    return evolve(state, recent=observe(state.recent, seen_of(fact)), circle=circle)


@decides("loop_detected")
def loop_decided(state: RunState, gate: OpenGate, fact: f.GateDecided) -> RunState:
    if not fact.continues or state.extensions >= state.limits.max_extensions:
        return evolve(state, loop_found="", fatal="loop_detected")
    return evolve(tried_anew(state), loop_found="", extensions=state.extensions + 1)
