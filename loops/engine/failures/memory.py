"""How the outcome of every call and step changes what a run remembers of its failures (SPEC E2): called by the fold."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from loops.engine.encoding.canonical import sha256
from loops.engine.encoding.codec import to_plain
from loops.engine.encoding.replace import evolve
from loops.engine.facts import StepCompleted
from loops.engine.failures.reflection import arguments_of, quoted
from loops.engine.state.failure import REPETITION, Failure, Source, of_result
from loops.engine.state.recovery import ATTEMPTS_REMEMBERED, FAILED_REMEMBERED, Attempt, FailedCall, RecoveryState
from loops.engine.state.run import PendingCall, RunState
from loops.engine.values import ToolCall, ToolResult

TEXT_KEPT = 4_000
"""Characters of a failure's text that are kept for its classification, from both ends."""
PATHS = ("path", "source", "target")
PATH_SHOWN = 200
REFUSED_BY = {
    "malformed": (Source.SCHEMA, "malformed"),
    "invalid": (Source.SCHEMA, "invalid"),
    "denied": (Source.POLICY, "denied"),
    "rejected": (Source.POLICY, "rejected"),
    "void": (Source.POLICY, "void"),
    "identical": (Source.LOOP, REPETITION),
    "circle": (Source.LOOP, REPETITION),
    "in_doubt": (Source.LOOP, "in_doubt"),
    "interrupted": (Source.LOOP, "interrupted"),
}
"""Who a refusal comes from, and its code; what is not named here is no failure of the agent's."""
NOT_AGAIN = frozenset({"invalid", "denied", "rejected"})
"""Refusals that the same call would meet again."""
NO_ERROR = frozenset({"rejected", "in_doubt", "interrupted"})
"""Refusals that are a person's word or an accident, and no error of a tool."""


def fingerprint(call: ToolCall) -> str:
    """The same for the same tool with the same arguments, in whatever order they were written (SPEC E2)."""
    text = f"{call.name}\n{sha256(to_plain(call.arguments))}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def failure_of(tool: str, result: ToolResult) -> Failure | None:
    """What is kept of an outcome to classify it; None when it is none."""
    if result.ok:
        return None
    whole = of_result(tool, result)
    return replace(whole, text=_ends(whole.text))


def failure_of_refusal(tool: str, why: str, message: str) -> Failure | None:
    """The same of a call that was not run."""
    if why not in REFUSED_BY:
        return None
    source, code = REFUSED_BY[why]
    return Failure(source=source, text=_ends(message), tool=tool, code=code)


def after_outcome(memory: RecoveryState, pending: PendingCall, ok: bool, error: str) -> RecoveryState:
    """A call was executed: what it changed lets everything be tried again; what failed is not tried again as it is."""
    if ok:
        failed = () if pending.may_change else memory.failed
        if not memory.errors_in_row and failed is memory.failed:
            return memory
        return evolve(memory, errors_in_row=0, failed=failed)
    failed = _with_failed(memory, pending.call, error)
    return evolve(memory, errors_in_row=memory.errors_in_row + 1, failed=failed)


def after_refusal(memory: RecoveryState, pending: PendingCall, why: str, message: str) -> RecoveryState:
    """A call was not executed."""
    if why not in REFUSED_BY:
        return memory
    failed = memory.failed
    if why in NOT_AGAIN:
        failed = _with_failed(memory, pending.call, message)
    elif why == "identical":
        of_it = fingerprint(pending.call)
        failed = tuple(evolve(f, sent_back=f.sent_back + 1) if f.fingerprint == of_it else f for f in failed)
    errors = memory.errors_in_row + (why not in NO_ERROR)
    return evolve(memory, errors_in_row=errors, failed=failed)


def after_step(state: RunState, fact: StepCompleted) -> RecoveryState:
    """A step that went well ends an approach; progress lets everything be tried again."""
    memory = state.recovering
    if fact.progress > memory.best_progress:
        memory = evolve(memory, best_progress=fact.progress, failed=())
    if fact.success:
        plain = not memory.failed_steps and not memory.reflected
        return memory if plain else evolve(memory, failed_steps=0, attempts=(), reflected=False)
    if all(call.failure is None for call in state.calls):
        return evolve(memory, reflected=False)
    made = tuple(_attempt(state.step, call) for call in state.calls if call.ok or call.failure is not None)
    attempts = (*memory.attempts, *made)[-ATTEMPTS_REMEMBERED:]
    return evolve(memory, failed_steps=memory.failed_steps + 1, attempts=attempts, reflected=False)


def _with_failed(memory: RecoveryState, call: ToolCall, error: str) -> tuple[FailedCall, ...]:
    of_it, outcome = fingerprint(call), quoted(error)
    known = next((one for one in memory.failed if one.fingerprint == of_it), None)
    others = tuple(one for one in memory.failed if one is not known)
    made = FailedCall(of_it, outcome, times=known.times + 1 if known else 1)
    return (*others, made)[-FAILED_REMEMBERED:]


def _attempt(step: int, pending: PendingCall) -> Attempt:
    arguments = pending.call.arguments
    paths = (arguments.get(name) for name in PATHS) if pending.may_change and pending.ok else ()
    return Attempt(
        step=step,
        call_id=pending.call.id,
        tool=pending.call.name,
        arguments=arguments_of(pending.call),
        outcome=quoted(pending.error),
        ok=bool(pending.ok),
        files=tuple(path[:PATH_SHOWN] for path in paths if isinstance(path, str)),
    )


def _ends(text: str) -> str:
    half = TEXT_KEPT // 2
    return text if len(text) <= TEXT_KEPT else f"{text[:half]} … {text[-half:]}"
