"""What the reducers of all abilities need: the table of meanings, and the little that they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from loops.engine.encoding.replace import evolve
from loops.engine.facts import GateDecided
from loops.engine.facts.fact import Fact
from loops.engine.state.run import CallStatus, OpenGate, PendingCall, RunState

CHARS_PER_TOKEN = 3
"""A cautious estimate for text the provider has not counted yet."""

Meaning = Callable[[RunState, Any], RunState]
Handler = TypeVar("Handler", bound=Meaning)
Decided = Callable[[RunState, OpenGate, GateDecided], RunState]
HANDLERS: dict[type[Fact], tuple[Meaning, ...]] = {}
"""What each kind of fact means to the abilities, in the order in which they are asked: the one whose fact it is comes
last, so that the others still see the state as it was. They change different parts of it: their order means nothing."""
CALL, CHECK, OTHER = "a call", "a criterion's command", "anything else"
"""What a decision is about where the kind of its gate does not tell."""
DECISIONS: dict[str, Decided] = {}
"""What a decision means, by the kind of its gate or by what it is about."""


def means(*kinds: type[Fact]) -> Callable[[Handler], Handler]:
    """Decorator: this function says what facts of these kinds make of a state, as far as its ability goes."""

    def register(handler: Handler) -> Handler:
        for kind in kinds:
            both: list[Meaning] = [*HANDLERS.get(kind, ()), handler]
            both.sort(key=lambda one: _ability(one) == _ability(kind))
            HANDLERS[kind] = tuple(both)
        return handler

    return register


def decides(subject: str) -> Callable[[Decided], Decided]:
    """Decorator: this function says what a decision on gates of this kind, or about this, makes of a state."""

    def register(decided: Decided) -> Decided:
        DECISIONS[subject] = decided
        return decided

    return register


def _ability(named: Any) -> str:
    """The last word of ``loops.engine.facts.ABILITY``, or of ``loops.engine.ABILITY.reducers``."""
    return str(named.__module__).removeprefix("loops.engine.facts.").removeprefix("loops.engine.").partition(".")[0]


class ImpossibleFact(Exception):
    """This fact cannot follow this state."""


def call_of(state: RunState, call_id: str) -> PendingCall:
    """That call of the latest answer, open or done. Raises ImpossibleFact when it has none."""
    for pending in state.calls:
        if pending.call.id == call_id:
            return pending
    raise ImpossibleFact(f"no call {call_id} in the latest answer")


def with_call(state: RunState, call_id: str, **changes: Any) -> RunState:
    """``state`` with one open call changed. Raises ImpossibleFact when no such call is open."""
    if not any(pending.call.id == call_id and pending.status != CallStatus.DONE for pending in state.calls):
        raise ImpossibleFact(f"no call {call_id} is open")
    return evolve(state, calls=tuple(evolve(c, **changes) if c.call.id == call_id else c for c in state.calls))


def answer_call_id(answers: int, position: int) -> str:
    """Our own id of a call: the n-th answer's i-th call. Providers repeat theirs."""
    return f"c{answers}.{position}"
