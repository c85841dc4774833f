"""How much of a conversation fits into a model's window (SPEC U1): the rules.

Sizes are bytes of JSON, tokens are estimates: bytes divided by how many of them the provider counted as one token in
the latest request. Until it has counted any, and where its count cannot be true, a cautious three bytes make a token.
"""

from __future__ import annotations

from math import ceil

from loops.engine.effects import Effect, PruneContext, Record
from loops.engine.evolving import evolve
from loops.engine.facts import ContextWarned
from loops.engine.standing import Windowing
from loops.engine.state import RunState
from loops.engine.values import Usage

CAUTIOUS, RICHEST, SENSELESS = 3.0, 4.0, 8.0
"""Bytes a token: without a count; at most for what was not counted yet; more than this no tokenizer makes."""
LARGEST_ANSWER = 8192
WARN_AT = 0.8
PRUNE_TO = 0.6
"""Of the budget: pruned this far, the next pruning is many steps away."""
HARDER = (0.6, 0.35)
"""Of what the provider would not take: for the first overflow in a row, and for the second. A third ends the run."""
TOO_LONG = frozenset({"prompt_too_long", "context_length_exceeded", "request_too_large"})
"""Codes of a provider that refuses a request for its length."""


def window(state: RunState) -> int:
    """Tokens that the model takes, question and answer together; 0 where nobody knows."""
    known = state.spec.windows
    actor = known.get(state.spec.model_for("actor"), 0)
    asked = known.get(state.windowing.model, 0)
    return min(actor, asked) if actor and asked else actor or asked


def budget(size: int) -> int:
    """Tokens of a window of ``size`` that a request may fill: the rest is room for the answer, and a margin."""
    return size - min(LARGEST_ANSWER, size // 8) - size // 25


def answer_room(state: RunState) -> int:
    """Tokens left in the window for the next answer."""
    size = window(state)
    return size - estimate(state) if size else LARGEST_ANSWER


def rate(windowing: Windowing) -> float:
    """Bytes a token, for text that nobody has counted."""
    return min(windowing.ratio, RICHEST) or CAUTIOUS


def tokens(size: int, windowing: Windowing) -> int:
    return ceil(size / rate(windowing))


def estimate(state: RunState) -> int:
    """Tokens of the next request."""
    counted = min(state.windowing.counted, state.context_tokens)
    return counted + int((state.context_tokens - counted) * CAUTIOUS / rate(state.windowing))


def after_answer(state: RunState, usage: Usage) -> tuple[int, Windowing]:
    """(tokens of the next request, what is known of the window) after an answer. A count that cannot be true, none
    among them, is passed over."""
    known = state.windowing
    asked = usage.total_tokens - usage.output_tokens
    if known.asked_bytes and asked and 1 <= known.asked_bytes / asked <= SENSELESS:
        size, ratio = usage.total_tokens, known.asked_bytes / asked
    else:
        guessed = ceil(known.asked_bytes / CAUTIOUS) + usage.output_tokens if known.asked_bytes else 0
        size, ratio = max(usage.total_tokens, state.context_tokens, guessed), 0.0
    return size, evolve(known, ratio=ratio, counted=size if ratio else 0)


def overflowed(state: RunState) -> RunState:
    """The request was too long: it is to become shorter, or the run cannot go on."""
    known = state.windowing
    if known.overflows >= len(HARDER):
        return evolve(state, fatal="context_exceeded", windowing=evolve(known, too_long=False))
    return evolve(state, windowing=evolve(known, overflows=known.overflows + 1, too_long=True))


def make_room(state: RunState) -> Effect | None:
    """Prune when the model refused the request as too long, or would."""
    known, size, now = state.windowing, window(state), estimate(state)
    if known.too_long:
        return PruneContext(most=int(now * HARDER[min(known.overflows, len(HARDER)) - 1]), level=known.overflows)
    if not size or now <= max(budget(size), known.quiet_until):
        return None
    return PruneContext(most=int(budget(size) * PRUNE_TO), enough=budget(size))


def warn(state: RunState) -> Effect | None:
    """Tell the operator, once, that most of the window is full."""
    size, now = window(state), estimate(state)
    if not size or state.windowing.warned or now < size * WARN_AT:
        return None
    return Record((ContextWarned(used=now, window=size),))
