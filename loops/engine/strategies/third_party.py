"""What a loop of another package is held to (SPEC B1, X5). It may choose what is done next, not what is known.

It is pure code that is asked again with the same state after each crash: what it gets wrong, it gets wrong every time.
So a fault of it ends the run with a report at once, instead of one worker after the other.
"""

from __future__ import annotations

import traceback
from dataclasses import replace
from pathlib import Path

from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine import strategies
from loops.engine.apply import apply
from loops.engine.limits import reached_limits
from loops.engine.state.lifecycle import Event, Phase
from loops.engine.state.run import CallStatus, RunState
from loops.engine.strategies import before_request
from loops.engine.values import TURN_ENDING_TOOLS, Access

REASON = "loop_failed"
_EFFECTS = (
    e.Record,
    e.CallModel,
    e.JudgeCall,
    e.RunTool,
    e.RecoverTool,
    e.OpenGate,
    e.CheckConfidence,
    e.ClassifyFailure,
    e.FindSpecialist,
    e.PruneContext,
    e.Wait,
    e.AwaitModel,
    e.End,
    e.Rest,
)
_ASKS_A_MODEL = (e.CallModel, e.CheckConfidence, e.ClassifyFailure, e.PruneContext)
_ITS_WORD = (
    f.PhaseEntered,
    f.StepCompleted,
    f.ResultProposed,
    f.Reminded,
    f.LimitWarned,
    f.LimitReached,
    f.LoopDetected,
    f.LoopBroken,
    f.ContextWarned,
    f.FailureClassified,
    f.Backtracked,
    f.ReflectionForced,
    f.ReflectionGiven,
    f.ModelStopped,
    f.BackoffStarted,
    f.PermissionDenied,
    f.ToolRefused,
)
"""Facts that a loop decides by itself. All others only the world, the access matrix, people and checks can give."""
_ITS_PHASES = frozenset({Phase.PLAN, Phase.DECOMPOSE, Phase.RETRIEVE, Phase.ACT, Phase.REPAIR})
"""Those in which it is asked; it leads into the others, and verification and the lifecycle lead out of them."""


def next_of(state: RunState, part: str) -> e.Effect:
    """What the run's loop wants in ``part`` (plan or act), or the end of the run where it cannot be asked."""
    try:
        strategy = strategies.get(state.spec.loop)
    except strategies.UnknownLoop as error:
        return broken(str(error))
    ask = strategy.plan if part == "plan" else strategy.act
    if strategies.is_ours(strategy):
        return ask(state)
    try:
        effect = ask(state)
        fault = _fault(effect, state)
    except (Exception, SystemExit) as error:  # of somebody else's code, which may not end our process either
        fault = f"{type(error).__name__}: {error} ({_place(error)})"
    if fault:
        return broken(f"the execution loop {state.spec.loop!r} failed in {part}: {fault}")
    return _within_limits(effect, state)


def _within_limits(effect: e.Effect, state: RunState) -> e.Effect:
    """Whatever asks a model costs: nothing of it comes after a limit that is reached, and no request is larger than
    those of our own loop."""
    if not isinstance(effect, _ASKS_A_MODEL):
        return effect
    if first := reached_limits.ask_about_limit(state) or reached_limits.notice_limit(state):
        return first
    if isinstance(effect, e.CallModel):
        ours = before_request.ask(state)
        return replace(effect, max_tokens=min(effect.max_tokens, ours.max_tokens), attempt=ours.attempt)
    return effect


def broken(detail: str) -> e.End:
    """The end of a run whose loop cannot lead it on."""
    return e.End(Event.ERROR, REASON, detail)


def _fault(effect: object, state: RunState) -> str:
    """Why this is nothing that a loop may ask for; "" when it is."""
    if not isinstance(effect, _EFFECTS):
        return f"it answered with {type(effect).__name__}, which is no effect for a loop"
    if isinstance(effect, e.End) and effect.event is Event.QUALITY_GATE_PASS:
        return "only verification says that the criteria are met"
    if isinstance(effect, e.CallModel) and (state.calls or state.answered):
        return "it asked the model again before the latest answer was done with"
    if isinstance(effect, e.RunTool) and not _may_run(effect, state):
        return f"it wanted to run {effect.call.name!r} without a judgement that allows it"
    return _fault_of_facts(effect.facts, state) if isinstance(effect, e.Record) else ""


def _may_run(effect: e.RunTool, state: RunState) -> bool:
    pending = next((each for each in state.calls if each.call == effect.call), None)
    if pending is None:
        return False
    allowed = pending.status == CallStatus.JUDGED and pending.access is Access.ALLOW and not pending.invalid
    return allowed or (pending.status in (CallStatus.APPROVED, CallStatus.AGAIN) and pending.gate == effect.gate)


def _fault_of_facts(facts: tuple[f.Fact, ...], state: RunState) -> str:
    if not facts:
        return "it recorded nothing, and would be asked the same for ever"
    for fact in facts:
        if not _is_its_word(fact, state):
            return f"{type(fact).__name__} is not a loop's to record"
        state = apply(state, fact)
    return ""


def _is_its_word(fact: f.Fact, state: RunState) -> bool:
    if isinstance(fact, f.ToolCompleted):  # of a tool that ends a step, and runs nothing
        return any(each.call.id == fact.call_id and each.call.name in TURN_ENDING_TOOLS for each in state.calls)
    if isinstance(fact, f.PhaseEntered) and state.phase not in _ITS_PHASES:
        return False
    return isinstance(fact, _ITS_WORD)


def _place(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"
