"""What a denied call, and a person's answer to it, make of a run."""

from __future__ import annotations

from loops.engine import facts as f
from loops.engine.encoding.replace import evolve
from loops.engine.permissions.denials import counted
from loops.engine.reducers import call_of, decides, means, with_call
from loops.engine.state.run import CallStatus, OpenGate, RunState
from loops.engine.values import Verdict


@means(f.PermissionDenied)
def permission_denied(state: RunState, fact: f.PermissionDenied) -> RunState:
    denials = counted(state.denials, fact.operation or fact.tool, asked=fact.rung == "specialist")
    return evolve(with_call(state, fact.call_id, rung=fact.rung, specialist=fact.specialist), denials=denials)


@decides("permission_blocked")
def permission_decided(state: RunState, gate: OpenGate, fact: f.GateDecided) -> RunState:
    """Granted for this very call, or refused with whatever the person said instead."""
    if fact.verdict == Verdict.APPROVE:
        denied = call_of(state, gate.call_id)
        key = denied.operation or denied.call.name
        state = evolve(state, denials=counted(state.denials, key, granted=True))
        return with_call(state, gate.call_id, status=CallStatus.APPROVED, granted=True)
    advice = fact.payload.get("answer") if fact.verdict == Verdict.RESPOND else ""
    late = "nobody decided in time" if fact.verdict == Verdict.EXPIRE else "it was not granted"
    said = f"it was not granted; do this instead: {advice}" if advice else fact.reason or late
    return with_call(state, gate.call_id, status=CallStatus.REFUSED, rejection=said)
