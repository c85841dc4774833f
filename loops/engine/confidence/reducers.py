"""What a judgement of confidence makes of a run."""

from __future__ import annotations

from dataclasses import replace

from loops.engine import facts as f
from loops.engine.encoding.replace import evolve
from loops.engine.reducers import means
from loops.engine.state.measures import Confidence, StepSeen
from loops.engine.state.run import RunState

STEPS_KEPT = 5
ERROR_CHARS, REASON_CHARS = 300, 500
TOOLS_KEPT = 8


def with_step_seen(state: RunState, fact: f.StepCompleted) -> Confidence:
    """The step that ends joins the few that a judge is shown."""
    seen = StepSeen(
        step=fact.step,
        success=fact.success,
        error=fact.error[:ERROR_CHARS],
        signature=fact.error_signature,
        progress=fact.progress,
        tools=tuple(pending.call.name[:60] for pending in state.calls[:TOOLS_KEPT]),
    )
    return replace(state.confidence, latest=(*state.confidence.latest, seen)[-STEPS_KEPT:])


@means(f.ConfidenceAsked)
def confidence_asked(state: RunState, fact: f.ConfidenceAsked) -> RunState:
    return evolve(state, confidence=replace(state.confidence, asked=True))


@means(f.ConfidenceRequested)
def confidence_requested(state: RunState, fact: f.ConfidenceRequested) -> RunState:
    return state


@means(f.ConfidenceChecked)
def confidence_checked(state: RunState, fact: f.ConfidenceChecked) -> RunState:
    usage, measured = fact.usage, state.measured
    if fact.progress is not None:
        measured = replace(measured, opinion=fact.progress)
    judged = replace(
        state.confidence,
        checked_at=fact.step,
        asked=False,
        score=fact.score,
        reason=fact.reason[:REASON_CHARS],
        method=fact.method,
        low=fact.score < fact.threshold,
    )
    return evolve(
        state,
        confidence=judged,
        measured=measured,
        tokens=state.tokens + usage.total_tokens,
        cost_microusd=state.cost_microusd + (usage.cost_microusd or 0),
        cost_unknown=state.cost_unknown or usage.cost_microusd is None,
    )


def confidence_decided(state: RunState, goes_on: bool) -> RunState:
    """A person let it go on: it is judged again after as many steps as ever, not at the next doubt."""
    if not goes_on:
        return evolve(state, confidence=replace(state.confidence, low=False), fatal="low_confidence")
    every = state.spec.confidence.every_steps
    return evolve(state, confidence=replace(state.confidence, low=False, quiet_until=state.step + every))
