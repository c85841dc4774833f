"""What a judgement of confidence makes of a run."""

from __future__ import annotations

from dataclasses import replace

from loops.engine import facts as f
from loops.engine.encoding.replace import evolve
from loops.engine.reducers import decides, means
from loops.engine.state.measures import StepSeen
from loops.engine.state.run import OpenGate, RunState
from loops.engine.values import TURN_ENDING_TOOLS

STEPS_KEPT = 5
ERROR_CHARS, REASON_CHARS, UNSURE_CHARS = 300, 500, 600
TOOLS_KEPT = 8


@means(f.StepCompleted)
def step_completed(state: RunState, fact: f.StepCompleted) -> RunState:
    """The step that ends joins the few that a judge is shown."""
    seen = StepSeen(
        step=fact.step,
        success=fact.success,
        error=fact.error[:ERROR_CHARS],
        signature=fact.error_signature,
        progress=fact.progress,
        tools=tuple(pending.call.name[:60] for pending in state.calls[:TOOLS_KEPT]),
    )
    latest = (*state.confidence.latest, seen)[-STEPS_KEPT:]
    return evolve(state, confidence=replace(state.confidence, latest=latest))


@means(f.ModelAnswered)
def model_answered(state: RunState, fact: f.ModelAnswered) -> RunState:
    """Whether it is unsure is its own word, in whatever language: of the tools that end an answer."""
    said = (call.arguments.get("unsure") for call in fact.calls if call.name in TURN_ENDING_TOOLS)
    unsure = next((word.strip()[:UNSURE_CHARS] for word in said if isinstance(word, str) and word.strip()), "")
    return evolve(state, unsure=unsure)


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


@decides("low_confidence")
def confidence_decided(state: RunState, gate: OpenGate, fact: f.GateDecided) -> RunState:
    """A person let it go on: it is judged again after as many steps as ever, not at the next doubt."""
    if not fact.continues:
        return evolve(state, confidence=replace(state.confidence, low=False), fatal="low_confidence")
    every = state.spec.confidence.every_steps
    return evolve(state, confidence=replace(state.confidence, low=False, quiet_until=state.step + every))
