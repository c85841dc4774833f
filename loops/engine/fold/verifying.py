"""A claim and its checks."""

from __future__ import annotations

from loops.engine import facts as f
from loops.engine.evolving import evolve
from loops.engine.fold.circling import with_diagnosis
from loops.engine.fold.parts import CHARS_PER_TOKEN, means, with_call
from loops.engine.progress import measure
from loops.engine.state import RunState
from loops.engine.verification import judged


@means(f.ResultProposed)
def proposed(state: RunState, fact: f.ResultProposed) -> RunState:
    state = evolve(state, result=fact.result, checks=None, reviewed=False, approver="", review_rejection="")
    return with_call(state, fact.call_id, status="done", ok=True) if fact.call_id else state


@means(f.ChecksStarted)
def checks_started(state: RunState, fact: f.ChecksStarted) -> RunState:
    return evolve(state, checking=True)


@means(f.ChecksCompleted)
def checks_completed(state: RunState, fact: f.ChecksCompleted) -> RunState:
    checked = evolve(state, checking=False, checks=fact.checks)
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
