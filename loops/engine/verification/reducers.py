"""A claim and its checks."""

from __future__ import annotations

from dataclasses import replace

from loops.engine import facts as f
from loops.engine.encoding.replace import evolve
from loops.engine.reducers import CHARS_PER_TOKEN, CHECK, ImpossibleFact, decides, means, with_call
from loops.engine.state.clearance import Cleared
from loops.engine.state.review import NO_REVIEW, Review
from loops.engine.state.run import CallStatus, OpenGate, RunState
from loops.engine.values import Verdict
from loops.engine.verification.checks import judged

VOIDED_AT_MOST = 3
"""Acceptances of one result that the workspace did not stay for, before the agent is to see to it."""
KEPT_CHANGING = "each time the result was accepted, files of the workspace had changed since"


@means(f.ResultProposed)
def proposed(state: RunState, fact: f.ResultProposed) -> RunState:
    state = evolve(state, result=fact.result, checks=None, remarks=(), reviewed=False, approver="")
    state = evolve(state, review_rejection="", review=NO_REVIEW)
    return with_call(state, fact.call_id, status=CallStatus.DONE, ok=True) if fact.call_id else state


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
    return evolve(state, checking=False, checks=fact.checks, remarks=fact.remarks, clearance=clearance)


@means(f.CriteriaTried)
def criteria_tried(state: RunState, fact: f.CriteriaTried) -> RunState:
    return evolve(
        state,
        checking=False,
        tried=fact.checks if any(check.obstacle for check in fact.checks) else (),
        clearance=state.clearance.moved(fact.found, fact.left),
        context_tokens=state.context_tokens + len(fact.summary) // CHARS_PER_TOKEN,
    )


@means(f.DiagnosisMade)
def diagnosed(state: RunState, fact: f.DiagnosisMade) -> RunState:
    return evolve(
        state,
        result=None,
        checks=None,
        failed_checks=judged(state),
        failed_result=state.result,
        causes=fact.causes,
        review_rejection="",
        plain_answers=0,
        context_tokens=state.context_tokens + len(fact.feedback) // CHARS_PER_TOKEN,
    )


@decides("final_review")
def review_decided(state: RunState, gate: OpenGate, fact: f.GateDecided) -> RunState:
    if not fact.continues:
        reason = fact.reason or (
            "nobody decided in time" if fact.verdict == Verdict.EXPIRE else "rejected without a reason"
        )
        return evolve(state, review_rejection=reason)
    edited = fact.payload.get("result")
    result = edited if isinstance(edited, str) else state.result
    review = replace(state.review, gate=gate.id if gate.tree else "")
    return evolve(state, reviewed=True, approver=fact.by, result=result, review=review)


@means(f.ApprovalVoided)
def acceptance_voided(state: RunState, fact: f.ApprovalVoided) -> RunState:
    """The workspace is another than was reviewed: the result is checked and reviewed once more, on what stands now."""
    if fact.call_id:
        return state
    if not state.review.gate:
        raise ImpossibleFact("a void approval of no result")
    review = Review(voided=state.review.voided + 1, why=fact.reason)
    state = evolve(state, reviewed=False, approver="", review=review)
    if review.voided >= VOIDED_AT_MOST:
        return evolve(state, review_rejection=KEPT_CHANGING)
    return evolve(state, checks=None)


@decides("checks_not_run")
def environment_decided(state: RunState, gate: OpenGate, fact: f.GateDecided) -> RunState:
    """Put right: the checks run again, and no repair was spent. An answer instead gives the work back to the agent, or
    lets it begin."""
    if fact.continues and fact.verdict == Verdict.RESPOND:
        if state.tried:
            return evolve(state, tried=())
        return evolve(state, review_rejection=str(fact.payload.get("answer") or "the checks could not run"))
    if not fact.continues or state.extensions >= state.limits.max_extensions:
        lacking = tuple(check for check in state.tried or () if check.obstacle)
        return evolve(state, fatal="checks_not_run", checks=lacking or state.checks)
    return evolve(state, checks=None, tried=None if state.tried else state.tried, extensions=state.extensions + 1)


@decides(CHECK)
def check_decided(state: RunState, gate: OpenGate, fact: f.GateDecided) -> RunState:
    """Whether a criterion's command may run. Where it may not, its criterion is not proven, and nobody failed."""
    late = "nobody decided in time" if fact.verdict == Verdict.EXPIRE else "rejected without a reason"
    refused = "" if fact.continues else fact.reason or late
    clearance = state.clearance
    said = clearance.now(Cleared(clearance.asked, clearance.stands, gate.id, refused=refused))
    return evolve(state, clearance=replace(clearance, asked="", said=said))
