"""A tool call on its way."""

from __future__ import annotations

from loops.engine import facts as f
from loops.engine.encoding.fingerprints import shortened
from loops.engine.encoding.replace import evolve
from loops.engine.reducers import CHARS_PER_TOKEN, means, with_call
from loops.engine.state.run import CallStatus, RunState
from loops.engine.values import ToolResult


@means(f.CallJudged)
def judged(state: RunState, fact: f.CallJudged) -> RunState:
    return with_call(
        state,
        fact.call_id,
        status=CallStatus.JUDGED,
        access=fact.access,
        reasons=fact.reasons,
        invalid=fact.invalid,
        gate_kind=fact.gate_kind,
        risk=fact.risk,
        operation=fact.operation,
        alternatives=fact.alternatives,
        grantable=fact.grantable,
    )


@means(f.ToolIntended)
def intended(state: RunState, fact: f.ToolIntended) -> RunState:
    state = with_call(
        state,
        fact.call_id,
        status=CallStatus.INTENDED,
        attempt=fact.attempt,
        gate=fact.gate,
        since=fact.at,
        expects=fact.expects,
        may_change=fact.compensation is not None,
    )
    if fact.compensation is not None:
        state = evolve(state, effects=state.effects + 1, rollback="")
    return evolve(state, tool_calls=state.tool_calls + (fact.attempt == 1))


@means(f.ToolVerified)
def verified(state: RunState, fact: f.ToolVerified) -> RunState:
    return with_call(state, fact.call_id)


@means(f.ToolCompleted)
def completed(state: RunState, fact: f.ToolCompleted) -> RunState:
    result, data = fact.result, fact.result.data
    state = with_call(
        state,
        fact.call_id,
        status=CallStatus.DONE,
        ok=result.ok,
        error=result.error,
        said=None if fact.tool == "converse" else _told(result),
        changed=result.ok and _changed(state, fact),
    )
    return evolve(
        state,
        context_tokens=state.context_tokens + (len(result.content) + len(result.error)) // CHARS_PER_TOKEN,
        files_changed=state.files_changed + (1 if result.ok and data.get("diff") else 0),
        awaiting_message=fact.tool == "converse" and result.ok,
    )


def _told(result: ToolResult) -> str:
    """Nothing, when a command went well and printed nothing: that it has ended is all that its only line says."""
    is_silent = result.ok and result.data.get("stdout_bytes") == 0 and result.data.get("stderr_bytes") == 0
    if is_silent and "\n" not in result.content:
        return ""
    return shortened(result.content or result.error)


def _changed(state: RunState, fact: f.ToolCompleted) -> bool:
    """What a command changes, only a diff tells: its success says nothing."""
    is_command = fact.result.exit_code is not None
    may_change = any(pending.may_change for pending in state.calls if pending.call.id == fact.call_id)
    return bool(fact.result.data.get("diff")) or (may_change and not is_command)


@means(f.ToolRefused)
def refused(state: RunState, fact: f.ToolRefused) -> RunState:
    said = shortened(fact.message)
    state = with_call(state, fact.call_id, status=CallStatus.DONE, ok=False, error=fact.message, said=said)
    return evolve(state, context_tokens=state.context_tokens + len(fact.message) // CHARS_PER_TOKEN)
