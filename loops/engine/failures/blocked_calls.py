"""Calls that are not run for what failed before (SPEC E2, E4).

Within one approach no call that failed is run again until something has changed: a change in the world, progress, or a
person's word (``sent_back``). What fails for something that passes is the exception: it may be tried again, after a
wait, as often as attempts are allowed.
"""

from __future__ import annotations

from loops.engine import prompts
from loops.engine.facts import ReflectionGiven
from loops.engine.failures.memory import fingerprint
from loops.engine.failures.reflection import arguments_of
from loops.engine.state.run import RunState
from loops.engine.values import TURN_ENDING_TOOLS, ToolCall

REFLECTION_CHARS = 40
"""Of text that says something; an "ok" is no reflection."""


def reflection(state: RunState) -> ReflectionGiven | None:
    """The fact that the answer holds the reflection that was asked for: enough text, with or without calls."""
    memory = state.recovering
    if not memory.must_reflect or not state.answered or len(state.last_text.strip()) < REFLECTION_CHARS:
        return None
    return ReflectionGiven(step=state.step)


def objection(state: RunState, call: ToolCall) -> tuple[str, str]:
    """(why, message) for a call that is not run because of what failed before; two empty strings for any other."""
    if call.name in TURN_ENDING_TOOLS:
        return "", ""
    if state.recovering.must_reflect:
        return "reflect_first", prompts.fill("reflect_first", errors=state.limits.reflect_after)
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
    again = f" {prompts.fill('identical_call_again', number=known.sent_back + 1)}" if known.sent_back else ""
    return prompts.fill(
        "identical_call",
        times=f"{known.times} time{'' if known.times == 1 else 's'}",
        again=again,
        tool=call.name,
        arguments=arguments_of(call),
        outcome=known.outcome,
    )
