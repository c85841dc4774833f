"""A model that ends its turn without calling a tool (SPEC D1): told, taken at its word, or ended."""

from __future__ import annotations

from loops.engine import prompts
from loops.engine.facts import Fact, ModelStopped, Reminded, ResultProposed
from loops.engine.state.run import RunState
from loops.engine.values import StopReason

PLAIN_ANSWERS_AT_MOST = 2
"""Answers in a row without a tool call; the last of them is taken as the result, which verification has to accept."""
SILENT_ANSWERS_AT_MOST = 4
"""Such answers of which none can be taken: empty, or broken off."""


def stopped(state: RunState) -> bool:
    return state.stopped_without_calls and state.last_stop != StopReason.PAUSE_TURN and not state.fatal


def taken_at_its_word(state: RunState) -> bool:
    """Its text can be the result, and it was told before how to hand one in."""
    whole = state.last_stop not in {StopReason.MAX_TOKENS, StopReason.CUT, StopReason.CONTEXT_EXCEEDED}
    return whole and state.plain_answers + 1 >= PLAIN_ANSWERS_AT_MOST and bool(state.last_text.strip())


def no_tool_call(state: RunState) -> bool:
    """It does nothing any more, and says nothing that could be a result."""
    often = state.plain_answers + 1 >= SILENT_ANSWERS_AT_MOST
    return stopped(state) and not state.recovering.reflected and often and not taken_at_its_word(state)


def facts_of(state: RunState) -> tuple[Fact, ...]:
    """What follows the step that ends now, if its answer called nothing."""
    if not stopped(state):
        return ()
    if state.recovering.reflected:
        return (Reminded(reason="reflected", text=prompts.fill("reflected")),)
    answers = state.plain_answers + 1
    if taken_at_its_word(state):
        return (ModelStopped(answers=answers, taken=True), ResultProposed(result=state.last_text))
    if no_tool_call(state):
        return (ModelStopped(answers=answers, taken=False),)
    return (Reminded(reason="no_tool_call", text=_reminder(state)),)


def _reminder(state: RunState) -> str:
    if state.recovering.must_reflect:
        return prompts.fill("reflect", errors=state.limits.reflect_after)
    if state.last_stop == StopReason.CONTEXT_EXCEEDED:
        return prompts.fill("window_full")
    return prompts.fill("no_tool_call")
