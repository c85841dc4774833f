"""A model as tie-breaker for failures that no rule is sure of (SPEC E1): when it is asked, and what follows.

Off unless the run names a model for it. What it said is remembered by the failure's fingerprint, so that nothing is
asked twice; what goes wrong with it leaves the verdict of the rule, and says why.
"""

from __future__ import annotations

from loops.engine.effects import ClassifyFailure
from loops.engine.failures.classify import classify
from loops.engine.failures.llm_classifier import (
    fingerprint,
    is_open,
    question,
    settle,
)
from loops.engine.measures.context_budget import CAUTIOUS
from loops.engine.measures.limits import tokens_left, usage
from loops.engine.state.failure import (
    Classified,
    Failure,
    SecondOpinion,
)
from loops.engine.state.run import RunState
from loops.engine.values import ModelRole

PROMPT_TOKENS, ANSWER_TOKENS = 1_000, 1_024
"""What the prompt takes, and what an answer may take: room for a model that thinks before it answers."""


def model(state: RunState) -> str:
    """The model that breaks ties, "" without one: the actor's stands in for other roles, not for this one."""
    return state.spec.models.get(ModelRole.CLASSIFIER.value, "")


def due(state: RunState) -> ClassifyFailure | None:
    """The first failure of the step that a model is to be asked about."""
    if not model(state):
        return None
    for pending in state.calls:
        failure = pending.failure
        if failure is None or not is_open(classify(failure)):
            continue
        if _remembered(state, failure) is None and not _why_not(state, failure):
            return ClassifyFailure(pending.call.id, failure)
    return None


def classified(state: RunState, failure: Failure) -> Classified:
    """What holds of a failure of the step, once nobody is to be asked about it any more."""
    found = classify(failure)
    if not model(state) or not is_open(found):
        return found
    return settle(found, _remembered(state, failure) or SecondOpinion(problem=_why_not(state, failure)))


def _remembered(state: RunState, failure: Failure) -> SecondOpinion | None:
    of_it = fingerprint(failure)
    return next((known for known in state.second_opinions if known.fingerprint == of_it), None)


def _why_not(state: RunState, failure: Failure) -> str:
    """Why no model is asked about a failure, in words; "" when one may be."""
    most, spent = state.limits.max_second_opinions, usage(state)
    if state.fatal:
        return "the run is ending"
    if len(state.second_opinions) >= most:
        return f"{most} failures of this run were put to a model before"
    room = len(question(failure)) / CAUTIOUS + PROMPT_TOKENS + ANSWER_TOKENS
    if tokens_left(state) < room or any(used >= bound for used, bound in (spent["max_cost_usd"], spent["max_seconds"])):
        return "too little is left of the run's budget"
    return ""
