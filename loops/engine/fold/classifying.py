"""What a question to a model about a failure, and its answer, make of a state."""

from __future__ import annotations

from loops.engine import facts as f
from loops.engine.errors.failure import SecondOpinion
from loops.engine.evolving import evolve
from loops.engine.fold.parts import ImpossibleFact, call_of, means
from loops.engine.state import RunState

CUT_SHORT = "the question was cut short, and is not asked again"


@means(f.ClassificationRequested)
def classification_requested(state: RunState, fact: f.ClassificationRequested) -> RunState:
    """Whatever becomes of the question, the same failure is not asked about again."""
    call_of(state, fact.call_id)
    if any(known.fingerprint == fact.fingerprint for known in state.second_opinions):
        raise ImpossibleFact("this failure was asked about before")
    unheard = SecondOpinion(fact.fingerprint, fact.model, problem=CUT_SHORT)
    return evolve(state, second_opinions=(*state.second_opinions, unheard))


@means(f.ClassificationGiven)
def classification_given(state: RunState, fact: f.ClassificationGiven) -> RunState:
    asked, usage = state.second_opinions[-1:], fact.usage
    if not asked or (asked[0].fingerprint, asked[0].problem) != (fact.fingerprint, CUT_SHORT):
        raise ImpossibleFact("nobody was asked about this failure")
    heard = SecondOpinion(fact.fingerprint, fact.model, fact.kind, fact.problem)
    return evolve(
        state,
        second_opinions=(*state.second_opinions[:-1], heard),
        tokens=state.tokens + usage.total_tokens,
        cost_microusd=state.cost_microusd + (usage.cost_microusd or 0),
        cost_unknown=state.cost_unknown or usage.cost_microusd is None,
    )
