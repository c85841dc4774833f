"""What a person's decision makes of a run, gate by gate (SPEC Q4)."""

from __future__ import annotations

from dataclasses import replace

from loops.engine import facts as f
from loops.engine.confidence.reducers import confidence_decided
from loops.engine.encoding.replace import evolve
from loops.engine.failures.reducers import confirmed, escalation_decided, long_task_decided, tried_anew
from loops.engine.limits.guards import REASON_OF, extended, is_unpriced
from loops.engine.permissions.reducers import permission_decided
from loops.engine.reducers import CHARS_PER_TOKEN, ImpossibleFact, call_of, means, with_call
from loops.engine.state.clearance import Cleared
from loops.engine.state.lifecycle import Phase
from loops.engine.state.run import RunState

GATE_CHARS = 160
"""Of our own words around a person's decision."""
ROLLBACK_VERDICTS = {"roll_back": "wanted", "continue": "continued"}
CONTINUE_VERDICTS = frozenset({"approve", "respond", "extend", "approve_with_edits"})


@means(f.GateDecided)
def decided(state: RunState, fact: f.GateDecided) -> RunState:  # noqa: C901 - one case for each kind of gate
    """The state after a decision on the gate that is open."""
    gate = state.gate
    if gate is None or gate.id != fact.gate:
        raise ImpossibleFact(f"gate {fact.gate} is not the one that is open")
    said = len(str(fact.payload.get("answer") or "")) + len(fact.reason) + GATE_CHARS
    state = evolve(state, gate=None, context_tokens=state.context_tokens + said // CHARS_PER_TOKEN)
    goes_on = fact.verdict in CONTINUE_VERDICTS
    match gate.kind:
        case "limit_reached":
            return _limit_decided(state, gate.limit, fact, goes_on)
        case "loop_detected":
            return _loop_decided(state, goes_on)
        case "final_review":
            return _review_decided(state, fact, goes_on)
        case "question":
            return with_call(state, gate.call_id, status="done", ok=goes_on, error="" if goes_on else fact.reason)
        case "in_doubt":
            return _doubt_decided(state, gate.call_id, fact)
        case "escalation":
            if state.phase is Phase.VERIFY:
                return _environment_decided(state, fact, goes_on)
            return escalation_decided(state, goes_on)
        case "long_task":
            return long_task_decided(state, goes_on)
        case "low_confidence":
            return confidence_decided(state, goes_on)
        case "permission_blocked":
            return permission_decided(state, gate.call_id, fact)
        case "rollback_choice":  # whatever is not "roll_back" keeps the work, the passing of time too
            return evolve(state, rollback=ROLLBACK_VERDICTS.get(fact.verdict, "settled"))
        case _ if not gate.call_id and state.clearance.asked:
            return _check_decided(state, gate.id, fact, goes_on)
        case _ if not gate.call_id:
            return state if goes_on else evolve(state, fatal="escalated")
        case _:
            return _approval_decided(state, gate.call_id, fact, goes_on)


def _limit_decided(state: RunState, limit: str, fact: f.GateDecided, goes_on: bool) -> RunState:
    """No door takes an extension beyond ``max_extensions`` (``gates.policy.payloads``); this is the last line."""
    if not goes_on or state.extensions >= state.limits.max_extensions:
        return evolve(state, reached="", fatal=REASON_OF.get(limit, limit))
    state = confirmed(tried_anew(state) if limit == "max_failures" else state)
    return evolve(
        state,
        reached="",
        extensions=state.extensions + 1,
        limits=extended(state.limits, fact.payload, unpriced=is_unpriced(state)),
        warned=state.warned - {limit},
    )


def _loop_decided(state: RunState, goes_on: bool) -> RunState:
    if not goes_on or state.extensions >= state.limits.max_extensions:
        return evolve(state, loop_found="", fatal="loop_detected")
    return evolve(tried_anew(state), loop_found="", extensions=state.extensions + 1)


def _environment_decided(state: RunState, fact: f.GateDecided, goes_on: bool) -> RunState:
    """Put right: the checks run again, and no repair was spent. An answer instead gives the work back to the agent."""
    if goes_on and fact.verdict == "respond":
        return evolve(state, review_rejection=str(fact.payload.get("answer") or "the checks could not run"))
    if not goes_on or state.extensions >= state.limits.max_extensions:
        return evolve(state, fatal="checks_not_run")
    return evolve(state, checks=None, extensions=state.extensions + 1)


def _review_decided(state: RunState, fact: f.GateDecided, goes_on: bool) -> RunState:
    if not goes_on:
        reason = fact.reason or ("nobody decided in time" if fact.verdict == "expire" else "rejected without a reason")
        return evolve(state, review_rejection=reason)
    edited = fact.payload.get("result")
    result = edited if isinstance(edited, str) else state.result
    return evolve(state, reviewed=True, approver=fact.by, result=result)


def _doubt_decided(state: RunState, call_id: str, fact: f.GateDecided) -> RunState:
    if fact.payload.get("outcome") == "done":
        return with_call(state, call_id, status="done", ok=True)
    if fact.verdict == "approve":  # it was not done: the same call again, under the same key
        return with_call(state, call_id, status="again")
    known = (
        "it did not take effect" if fact.payload.get("outcome") == "not_done" else "whether it took effect is unknown"
    )
    return with_call(state, call_id, status="done", ok=False, error=fact.reason or known)


def _check_decided(state: RunState, gate: str, fact: f.GateDecided, goes_on: bool) -> RunState:
    """Whether a criterion's command may run. Where it may not, its criterion is not proven, and nobody failed."""
    late = "nobody decided in time" if fact.verdict == "expire" else "rejected without a reason"
    refused = "" if goes_on else fact.reason or late
    clearance = state.clearance
    said = clearance.now(Cleared(clearance.asked, clearance.stands, gate, refused=refused))
    return evolve(state, clearance=replace(clearance, asked="", said=said))


def _approval_decided(state: RunState, call_id: str, fact: f.GateDecided, goes_on: bool) -> RunState:
    if not goes_on:
        reason = fact.reason or ("nobody decided in time" if fact.verdict == "expire" else "rejected")
        return with_call(state, call_id, status="refused", rejection=reason)
    edited = fact.payload.get("arguments")
    if fact.verdict == "approve_with_edits" and isinstance(edited, dict):
        call = call_of(state, call_id).call
        return with_call(state, call_id, status="approved", call=replace(call, arguments=edited))
    return with_call(state, call_id, status="approved")
