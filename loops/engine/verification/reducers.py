"""A claim and its checks."""

from __future__ import annotations

from dataclasses import replace

from loops.engine import facts as f
from loops.engine.encoding.replace import evolve
from loops.engine.loop_detection.reducers import with_diagnosis
from loops.engine.progress import measure
from loops.engine.reducers import CHARS_PER_TOKEN, means, with_call
from loops.engine.state.clearance import Cleared
from loops.engine.state.run import RunState
from loops.engine.verification.checks import judged


@means(f.ResultProposed)
def proposed(state: RunState, fact: f.ResultProposed) -> RunState:
    state = evolve(state, result=fact.result, checks=None, reviewed=False, approver="", review_rejection="")
    return with_call(state, fact.call_id, status="done", ok=True) if fact.call_id else state


@means(f.ChecksStarted)
def checks_started(state: RunState, fact: f.ChecksStarted) -> RunState:
    return evolve(state, checking=True)


@means(f.CheckAsked)
def check_asked(state: RunState, fact: f.CheckAsked) -> RunState:
    again = state.clearance.again + fact.again
    return evolve(state, clearance=replace(state.clearance, asked=fact.command, stands=fact.stands, again=again))


@means(f.CommandCleared)
def check_cleared(state: RunState, fact: f.CommandCleared) -> RunState:
    cleared = Cleared(fact.command, fact.stands, fact.gate, used=True)
    return evolve(state, clearance=replace(state.clearance, said=state.clearance.now(cleared)))


@means(f.ChecksCompleted)
def checks_completed(state: RunState, fact: f.ChecksCompleted) -> RunState:
    clearance = replace(state.clearance.moved(fact.found, fact.left), asked="", again=0)
    checked = evolve(state, checking=False, checks=fact.checks, clearance=clearance)
    found = measure(checked)
    return evolve(checked, progress=found.score, progress_method=found.method)


@means(f.DiagnosisMade)
def diagnosed(state: RunState, fact: f.DiagnosisMade) -> RunState:
    return evolve(
        with_diagnosis(state, fact.feedback),
        result=None,
        checks=None,
        failed_checks=judged(state),
        failed_result=state.result,
        causes=fact.causes,
        review_rejection="",
        plain_answers=0,
        context_tokens=state.context_tokens + len(fact.feedback) // CHARS_PER_TOKEN,
    )
