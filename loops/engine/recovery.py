"""What follows a failure: try something different, step back, reflect, ask a person, or end with a report (SPEC E1-E4).

Every failure has a class (``errors``), and its class and its number decide. Within one approach no call that failed is
run again until something has changed: a change in the world, progress, or a person's word (``sent_back``). What fails
for something that passes is the exception: it may be tried again, after a wait, as often as attempts are allowed.
"""

from __future__ import annotations

from loops.engine import classifying, texts
from loops.engine.attempts import fingerprint
from loops.engine.effects import Effect, End, OpenGate, Record
from loops.engine.errors import Failure, Recovery, Source, decide_recovery
from loops.engine.facts import BackoffStarted, Backtracked, FailureClassified, ReflectionForced, ReflectionGiven
from loops.engine.lifecycle import Event
from loops.engine.reflection import arguments_of, files_of, summary_of
from loops.engine.retry import delay_s
from loops.engine.state import PendingCall, RunState
from loops.engine.values import FailureKind, Json, ToolCall

BREAKERS = ("task_completion", "ask_question", "converse")
"""Tools that end an answer: never held up by what other calls did."""
REFLECTION_CHARS = 40
"""Of text that says something; an "ok" is no reflection."""


# --- an answer and its calls ----------------------------------------------------------------------------------------


def reflection(state: RunState) -> ReflectionGiven | None:
    """The fact that the answer holds the reflection that was asked for: enough text, with or without calls."""
    memory = state.recovering
    if not memory.must_reflect or not state.answered or len(state.last_text.strip()) < REFLECTION_CHARS:
        return None
    return ReflectionGiven(step=state.step)


def objection(state: RunState, call: ToolCall) -> tuple[str, str]:
    """(why, message) for a call that is not run because of what failed before; two empty strings for any other."""
    if call.name in BREAKERS:
        return "", ""
    if state.recovering.must_reflect:
        return "reflect_first", texts.fill("reflect_first", errors=state.limits.reflect_after)
    message = sent_back(state, call)
    return ("identical", message) if message else ("", "")


def sent_back(state: RunState, call: ToolCall) -> str:
    """What the model is told of a call that failed before and would fail again (SPEC E2); empty when it may run."""
    if not state.recovering.failed:
        return ""
    print_of_it = fingerprint(call)
    known = next((one for one in state.recovering.failed if one.fingerprint == print_of_it), None)
    if known is None or (known.transient and known.times < state.limits.max_attempts):
        return ""
    again = f" {texts.fill('identical_call_again', number=known.sent_back + 1)}" if known.sent_back else ""
    return texts.fill(
        "identical_call",
        times=f"{known.times} time{'' if known.times == 1 else 's'}",
        again=again,
        tool=call.name,
        arguments=arguments_of(call),
        outcome=known.outcome,
    )


def classified(state: RunState) -> tuple[FailureClassified, ...]:
    """A class and a decision for every call of the step that failed (SPEC E1)."""
    return tuple(_classified(state, call, call.failure) for call in state.calls if call.failure is not None)


def _classified(state: RunState, pending: PendingCall, failure: Failure) -> FailureClassified:
    found = classifying.classified(state, failure)
    memory, limits = state.recovering, state.limits
    attempt = memory.failed_steps + 1
    decision = decide_recovery(
        found.kind,
        attempts=attempt,
        attempts_at_most=limits.max_attempts,
        backtracks=memory.backtracks,
        backtracks_at_most=limits.max_backtracks,
        person_can_help=found.person_can_help,
        corrections_at_most=limits.max_attempts - 1,
    )
    if is_slip(state, failure, found.kind):
        decision = Recovery.CONTINUE
    return FailureClassified(
        step=state.step,
        call_id=pending.call.id,
        tool=pending.call.name,
        kind=found.kind,
        decision=decision,
        rule=found.rule,
        reason=found.reason,
        certain=found.certain,
        attempt=attempt,
        person_can_help=found.person_can_help,
        rule_kind=found.rule_kind,
        model=found.model,
        model_kind=found.model_kind,
        problem=found.problem,
    )


def is_slip(state: RunState, failure: Failure, kind: FailureKind) -> bool:
    """The first place outside that a run names, refused before anything ran: models take the workspace for the root of
    a disk. It is told where it is; who tries again is put before a person."""
    return kind is FailureKind.CRITICAL and failure.source is Source.POLICY and not state.recovering.strayed


# --- before the next request ----------------------------------------------------------------------------------------


def act(state: RunState) -> Effect | None:
    """Perform what the latest failure decided."""
    match state.recovering.next:
        case Recovery.ESCALATE:
            return _ask_a_person(state)
        case Recovery.FAIL_GRACEFULLY:
            return End(Event.ERROR, "unrecoverable")
        case Recovery.BACKTRACK:
            return Record((_backtrack(state),))
        case _:
            return None


def wait_out(state: RunState) -> Effect | None:
    """Give what passes the time to pass (SPEC E2). ``last_at`` stands for now: no time has passed since."""
    number = state.recovering.wait_for
    if not number:
        return None
    seconds = delay_s(number, None, f"{state.spec.run_id}:{state.step}")
    reason = f"{state.recovering.why} Waiting before attempt {number + 1}."
    return Record((BackoffStarted(until=state.last_at + int(seconds * 1e6), reason=reason),))


def force_reflection(state: RunState) -> Effect | None:
    """Circuit level 1 (SPEC E4)."""
    errors, most = state.recovering.errors_in_row, state.limits.reflect_after
    if not most or errors < most or state.recovering.must_reflect:
        return None
    return Record((ReflectionForced(errors=errors, text=texts.fill("reflect", errors=errors)),))


def confirm_long_task(state: RunState) -> Effect | None:
    """After so many steps without a person: shall it go on? (SPEC D4)"""
    most = state.limits.confirm_after
    since = max(state.recovering.confirmed_at, state.step_base)
    taken = state.step - since - state.step_is_open
    if not most or taken < most:
        return None
    return OpenGate(
        kind="long_task",
        title=f"Go on? {taken} steps since a person last looked, {state.step - state.step_is_open} in all",
        reasons=(f"a person confirms after {most} steps",),
        recommended="approve" if state.progress > 0 else "",
        view={
            "steps": state.step - state.step_is_open,
            "steps_since": taken,
            "asks_again_after": most,
            "progress": round(state.progress, 2),
            "spent_usd": round(state.cost_microusd / 1e6, 4),
            "tokens": state.tokens,
            "failures_in_row": state.failures_in_row,
        },
    )


def _backtrack(state: RunState) -> Backtracked:
    memory = state.recovering
    first = memory.attempts[0].step if memory.attempts else state.step
    return Backtracked(
        to_step=first - 1,
        from_step=first,
        summary=summary_of(memory.attempts, first, state.step, memory.why),
        reason=memory.why,
        number=memory.backtracks + 1,
        from_call=memory.attempts[0].call_id if memory.attempts else "",
        files=files_of(memory.attempts),
    )


def _ask_a_person(state: RunState) -> OpenGate:
    memory = state.recovering
    tried: list[Json] = [
        {"step": one.step, "tool": one.tool, "arguments": one.arguments, "outcome": one.outcome}
        for one in memory.attempts
        if not one.ok
    ]
    return OpenGate(
        kind="escalation",
        title=f"A person is needed: {memory.why}",
        reasons=(memory.why,),
        risk="medium" if memory.person_can_help else "high",
        recommended="respond" if memory.person_can_help else "reject",
        view={
            "failure": memory.why,
            "rule": memory.rule,
            "tried": tried,
            "files_changed": list(files_of(memory.attempts)),
        },
    )


# --- guards of the conditions that end a run (``conditions``) -------------------------------------------------------


def escalated(state: RunState) -> bool:
    return state.recovering.next == Recovery.ESCALATE


def unrecoverable(state: RunState) -> bool:
    return state.recovering.next == Recovery.FAIL_GRACEFULLY


def too_many_backtracks(state: RunState) -> bool:
    """Circuit level 2 (SPEC E4)."""
    return state.recovering.backtracks >= state.limits.max_backtracks


def not_confirmed(state: RunState) -> bool:
    return confirm_long_task(state) is not None
