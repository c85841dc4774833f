"""What every module of the fold needs: the table of meanings, and the little that handlers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from loops.engine.encoding.replace import evolve
from loops.engine.facts.fact import Fact
from loops.engine.state.run import PendingCall, RunState

CHARS_PER_TOKEN = 3
"""A cautious estimate for text the provider has not counted yet."""

Handler = TypeVar("Handler", bound=Callable[[RunState, Any], RunState])
HANDLERS: dict[type[Fact], Callable[[RunState, Any], RunState]] = {}
"""What each kind of fact means."""


def means(*kinds: type[Fact]) -> Callable[[Handler], Handler]:
    """Decorator: this function says what facts of these kinds make of a state."""

    def register(handler: Handler) -> Handler:
        for kind in kinds:
            HANDLERS[kind] = handler
        return handler

    return register


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
    if not any(pending.call.id == call_id and pending.status != "done" for pending in state.calls):
        raise ImpossibleFact(f"no call {call_id} is open")
    return evolve(state, calls=tuple(evolve(c, **changes) if c.call.id == call_id else c for c in state.calls))


def answer_call_id(answers: int, position: int) -> str:
    """Our own id of a call: the n-th answer's i-th call. Providers repeat theirs."""
    return f"c{answers}.{position}"
