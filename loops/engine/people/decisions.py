"""What a person's decision makes of a run (SPEC Q4): each ability says it of its own kinds of gates."""

from __future__ import annotations

from dataclasses import replace

from loops.engine import facts as f
from loops.engine.encoding.replace import evolve
from loops.engine.reducers import (
    CALL,
    CHARS_PER_TOKEN,
    CHECK,
    DECISIONS,
    OTHER,
    ImpossibleFact,
    call_of,
    decides,
    means,
    with_call,
)
from loops.engine.state.lifecycle import Phase
from loops.engine.state.run import CallStatus, OpenGate, RunState
from loops.engine.values import Verdict

GATE_CHARS = 160
"""Of our own words around a person's decision."""


@means(f.GateDecided)
def decided(state: RunState, fact: f.GateDecided) -> RunState:
    """The state after a decision on the gate that is open."""
    gate = state.gate
    if gate is None or gate.id != fact.gate:
        raise ImpossibleFact(f"gate {fact.gate} is not the one that is open")
    said = len(str(fact.payload.get("answer") or "")) + len(fact.reason) + GATE_CHARS
    closed = evolve(state, gate=None, context_tokens=state.context_tokens + said // CHARS_PER_TOKEN)
    return DECISIONS[_subject(state, gate)](closed, gate, fact)


def _subject(state: RunState, gate: OpenGate) -> str:
    """What is decided: the kind of the gate, where it alone tells."""
    if gate.kind == "escalation" and state.phase is Phase.VERIFY:
        return "checks_not_run"  # as such gates were called before they had a kind of their own
    if gate.kind in DECISIONS:
        return gate.kind
    return CALL if gate.call_id else CHECK if state.clearance.asked else OTHER


@decides("question")
def question_decided(state: RunState, gate: OpenGate, fact: f.GateDecided) -> RunState:
    return with_call(
        state, gate.call_id, status=CallStatus.DONE, ok=fact.continues, error="" if fact.continues else fact.reason
    )


@decides(OTHER)
def other_decided(state: RunState, gate: OpenGate, fact: f.GateDecided) -> RunState:
    return state if fact.continues else evolve(state, fatal="escalated")


@decides("in_doubt")
def doubt_decided(state: RunState, gate: OpenGate, fact: f.GateDecided) -> RunState:
    if fact.payload.get("outcome") == "done":
        return with_call(state, gate.call_id, status=CallStatus.DONE, ok=True)
    if fact.verdict == Verdict.APPROVE:  # it was not done: the same call again, under the same key
        return with_call(state, gate.call_id, status=CallStatus.AGAIN)
    known = (
        "it did not take effect" if fact.payload.get("outcome") == "not_done" else "whether it took effect is unknown"
    )
    return with_call(state, gate.call_id, status=CallStatus.DONE, ok=False, error=fact.reason or known)


@decides(CALL)
def approval_decided(state: RunState, gate: OpenGate, fact: f.GateDecided) -> RunState:
    if not fact.continues:
        reason = fact.reason or ("nobody decided in time" if fact.verdict == Verdict.EXPIRE else "rejected")
        return with_call(state, gate.call_id, status=CallStatus.REFUSED, rejection=reason)
    edited = fact.payload.get("arguments")
    if fact.verdict == Verdict.APPROVE_WITH_EDITS and isinstance(edited, dict):
        call = call_of(state, gate.call_id).call
        return with_call(state, gate.call_id, status=CallStatus.APPROVED, call=replace(call, arguments=edited))
    return with_call(state, gate.call_id, status=CallStatus.APPROVED)
