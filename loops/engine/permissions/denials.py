"""What happens when the tool access service denies a call: a ladder of three rungs (SPEC I4, decision 83). Pure.

1. The model is told what it may use instead.
2. The same kind of operation is denied again: the orchestrator is asked for an agent of the project that may do it.
3. The run is blocked and a person is asked: grant this one call, advise the agent, or leave it refused.

A person is asked once for each kind of operation. Whatever is denied after that is refused at once, and each refusal
is a failed step, so that a model that never learns meets the limit of failures like any other.
"""

from __future__ import annotations

from dataclasses import replace

from loops.engine import prompts
from loops.engine.effects import Effect, FindSpecialist, OpenGate, Record
from loops.engine.facts import PermissionDenied, ToolRefused
from loops.engine.state.measures import Denials
from loops.engine.state.run import PendingCall, RunState

GATE = "permission_blocked"
KINDS_KEPT = 16
AGAIN = 2
"""From this denial of one kind of operation on a person is asked."""


def after_denial(state: RunState, pending: PendingCall) -> Effect:
    """What follows for a call that was denied."""
    if pending.rung == "specialist":
        return _ask_a_person(pending)
    key = key_of(pending)
    times = times_of(state.denials, key) + 1
    if times >= AGAIN and pending.grantable and key not in state.denials.asked:
        return FindSpecialist(pending.call, operation=pending.operation, times=times)
    rung = "alternatives" if times < AGAIN else "settled"
    call = pending.call
    return Record(
        (
            PermissionDenied(
                call_id=call.id,
                tool=call.name,
                operation=pending.operation,
                times=times,
                rung=rung,
                alternatives=pending.alternatives,
            ),
            ToolRefused(call_id=call.id, tool=call.name, why="denied", message=told(pending, rung)),
        )
    )


def key_of(pending: PendingCall) -> str:
    """What counts as the same intent: the kind of operation, whichever tool it is tried with."""
    return pending.operation or pending.call.name


def times_of(denials: Denials, key: str) -> int:
    return dict(denials.times).get(key, 0)


def counted(denials: Denials, key: str, *, asked: bool = False, granted: bool = False) -> Denials:
    """After one more denial of ``key``; a grant begins the ladder anew, because a person changed what is right."""
    others = tuple(pair for pair in denials.times if pair[0] != key)
    if granted:
        return Denials(times=others, asked=tuple(name for name in denials.asked if name != key))
    known = (*denials.asked, key)[-KINDS_KEPT:] if asked and key not in denials.asked else denials.asked
    return replace(denials, times=(*others, (key, times_of(denials, key) + 1))[-KINDS_KEPT:], asked=known)


def told(pending: PendingCall, rung: str) -> str:
    """What the model reads: why not, and what else there is."""
    sentences = [prompts.fill("denied", why="; ".join(pending.reasons) or "policy")]
    if pending.alternatives:
        sentences.append(prompts.fill("denied_instead", tools="; ".join(pending.alternatives)))
    elif pending.grantable:
        sentences.append(prompts.fill("denied_nothing_instead"))
    sentences.append(prompts.fill("denied_again") if rung == "settled" else prompts.fill("denied_ask"))
    return " ".join(sentences)


def _ask_a_person(pending: PendingCall) -> OpenGate:
    call = pending.call
    helper = pending.specialist or "no other agent of this project may do it either"
    return OpenGate(
        kind=GATE,
        title="",
        call=call,
        reasons=(*pending.reasons, f"{pending.operation or call.name} was denied before, and the agent tried again"),
        risk=pending.risk if pending.risk in ("medium", "high", "critical") else "medium",
        recommended="respond",
        view={"alternatives": list(pending.alternatives), "specialist": helper},
    )
