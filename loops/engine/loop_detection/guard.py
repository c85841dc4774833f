"""The inside view of circles: look for one before every request, and break it before a person is asked (SPEC F1, F3).

``detection`` has the detectors and the ladder; here they meet the state of a run.
"""

from __future__ import annotations

from dataclasses import dataclass

from loops.engine import prompts
from loops.engine.effects import Effect, OpenGate, Record
from loops.engine.encoding.fingerprints import action_mark, exact_part, outcome_mark, result_mark
from loops.engine.facts import LoopBroken, LoopDetected, Reminded
from loops.engine.loop_detection.detectors import INSIDE, detect
from loops.engine.loop_detection.finding import Finding
from loops.engine.measures.extensions import extensions_left, extensions_of
from loops.engine.state.failure import REPETITION
from loops.engine.state.loop_escalation import FRESH_STEPS, EscalationStep, next_rung, told, was_left
from loops.engine.state.run import PendingCall, RunState
from loops.engine.state.step_window import Window
from loops.engine.values import ModelRole

FALLBACK = "fallback"
NO_FALLBACK = "no other model is configured for this run"


def look_for_loops(state: RunState) -> Effect | None:
    found = look(state)
    if found is None:
        return None
    fact = LoopDetected(method=found.method, evidence=found.evidence, steps=found.steps, confidence=found.confidence)
    return Record((fact,))


def look(state: RunState) -> Finding | None:
    """The circle the run is in by its own view. One that was just broken counts again only with new steps in it."""
    if not state.recent or state.recent[-1].step <= state.circle.broken_at:
        return None
    found = detect(state.recent, state.limits.circles, INSIDE)
    if found is None or not state.circle.broken_at:
        return found
    since = sum(step > state.circle.broken_at for step in found.steps)
    return found if since >= min(FRESH_STEPS, len(found.steps)) else None


def break_or_ask(state: RunState) -> Effect | None:
    """The next rung of the ladder for a circle that was found; a person when all were tried."""
    if not state.loop_found:
        return None
    rung = next_rung(state.circle)
    if rung is None:
        return _loop_gate(state)
    circle = state.circle
    if rung is EscalationStep.ANOTHER_MODEL and not state.spec.models.get(FALLBACK):
        return Record((LoopBroken(rung=rung, method=circle.method, steps=circle.steps, skipped=NO_FALLBACK),))
    broken = LoopBroken(rung=rung, method=circle.method, steps=circle.steps, anew=True)
    return Record((broken, Reminded(reason="loop", text=told(rung, state.loop_found, state.spec.goal))))


def actor(state: RunState) -> ModelRole:
    """Who is asked: another model once the ladder got there."""
    tried = state.circle.rung > tuple(EscalationStep).index(EscalationStep.ANOTHER_MODEL)
    return ModelRole.FALLBACK if tried and state.spec.models.get(FALLBACK) else ModelRole.ACTOR


def refusal(state: RunState, pending: PendingCall) -> str:
    """Why this call is not run: it is what the run went in circles with, and nothing has changed since."""
    if not state.circle.refused or was_left(state.circle, state.step):
        return ""
    alone = exact_part(action_mark((pending.call,)))
    together = exact_part(action_mark(tuple(each.call for each in state.calls)))
    if alone not in state.circle.refused and together not in state.circle.refused:
        return ""
    steps = ", ".join(str(step) for step in state.circle.steps)
    return prompts.fill("circle_call", steps=steps)


def was_cut_off(pending: PendingCall) -> bool:
    """It was begun, and only a person could say that it did not take effect."""
    return pending.ok is False and pending.since > 0 and pending.said is None


@dataclass(frozen=True, slots=True)
class Marks:
    action: str
    outcome: str
    changed: bool
    error: str = ""
    """Signature of the error that it only repeats; empty where it met one of its own, or none."""


def marks(state: RunState) -> Marks:
    """Of the step that ends now: what it did, what came of it, and whether it changed something.

    A step whose call was cut off leaves no marks: that it took no effect is an accident, and nothing to learn from.
    """
    calls = state.calls
    if any(was_cut_off(pending) for pending in calls):
        return Marks(action="", outcome="", changed=False)
    action = action_mark(tuple(pending.call for pending in calls), state.last_text)
    outcome = outcome_mark(result_mark(pending.said) if pending.said is not None else "" for pending in calls)
    if calls and state.recent and all(_sent_back(pending) for pending in calls):
        return _nothing_learnt(state.recent, action, outcome)
    return Marks(action, outcome, changed=any(pending.changed for pending in calls))


def _nothing_learnt(recent: Window, action: str, outcome: str) -> Marks:
    """Of a step none of whose calls was run: it stands where the earlier step stood that it repeats, or the latest one,
    in whatever words it was sent back."""
    alike = (seen for seen in reversed(recent) if exact_part(seen.action) == exact_part(action))
    if known := next(alike, None):
        return Marks(action, known.outcome, changed=False, error=known.error)
    return Marks(action, outcome, changed=False, error=recent[-1].error)


def _sent_back(pending: PendingCall) -> bool:
    """By the loop itself: as a repetition, or because something else had to come first."""
    if pending.ok is not False or pending.since:
        return False
    return pending.failure is None or pending.failure.code == REPETITION


def _title(state: RunState) -> str:
    """The finding without its measures; of steps that only called one tool, which one."""
    steps = set(state.circle.steps)
    tools = {tool for seen in state.confidence.latest if seen.step in steps for tool in seen.tools}
    if state.circle.method == "semantic" and len(tools) == 1:
        return f"Looping: the last {len(steps)} steps repeat `{tools.pop()}`"
    return f"Looping: {state.loop_found.partition(': ')[0]}"


def _loop_gate(state: RunState) -> OpenGate:
    steps = state.circle.steps
    return OpenGate(
        kind="loop_detected",
        title=_title(state),
        reasons=(state.loop_found,),
        risk="medium",
        recommended="respond" if extensions_left(state) else "reject",
        view={
            "evidence": state.loop_found,
            "method": state.circle.method,
            "steps": list(steps),
            **extensions_of(state),
        },
    )
