"""What was decided on the latest failure, performed before the next request (SPEC E1-E4)."""

from __future__ import annotations

from loops.engine import prompts
from loops.engine.effects import Effect, OpenGate, Record
from loops.engine.facts import BackoffStarted, Backtracked, ReflectionForced
from loops.engine.failures.backoff import delay_s
from loops.engine.failures.reflection import files_of, summary_of
from loops.engine.state.failure import Recovery
from loops.engine.state.run import RunState
from loops.engine.values import Json


def escalate(state: RunState) -> Effect | None:
    """Ask a person, if the latest failure decided so."""
    return _ask_a_person(state) if state.recovering.next == Recovery.ESCALATE else None


def give_up(state: RunState) -> Effect | None:
    """Leave the approach that failed: first of all, so that nothing that is told now is left with it (SPEC E3)."""
    return Record((_backtrack(state),)) if state.recovering.next == Recovery.BACKTRACK else None


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
    return Record((ReflectionForced(errors=errors, text=prompts.fill("reflect", errors=errors)),))


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
