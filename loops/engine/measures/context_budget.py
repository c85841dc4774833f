"""How much of a conversation fits into a model's window (SPEC U1): the rules.

Sizes are bytes of JSON, tokens are estimates: bytes divided by how many of them the provider counted as one token in
the latest request. Until it has counted any, and where its count cannot be true, a cautious three bytes make a token.
"""

from __future__ import annotations

from math import ceil

from loops.engine.state.measures import WindowMeasures
from loops.engine.state.run import RunState

CAUTIOUS, RICHEST, SENSELESS = 3.0, 4.0, 8.0
"""Bytes a token: without a count; at most for what was not counted yet; more than this no tokenizer makes."""
LARGEST_ANSWER = 8192
SMALL = 16_384
"""Tokens of a window below which system prompt and tools are told in their short form. Windows that are only assumed
are larger."""
SMALLEST_ANSWER = 256
"""Tokens: with less than this left a request is not worth sending."""


def window(state: RunState) -> int:
    """Tokens that the model takes, question and answer together; 0 where nobody knows."""
    known = {**state.spec.windows, **dict(state.windowing.windows)}
    actor = known.get(state.spec.model_for("actor"), 0)
    asked = known.get(state.windowing.model, 0)
    return min(actor, asked) if actor and asked else actor or asked


def is_small(size: int) -> bool:
    """Is there too little room for the long form of what every request says? 0 is a window that nobody knows."""
    return 0 < size < SMALL


def budget(size: int) -> int:
    """Tokens of a window of ``size`` that a request may fill: the rest is room for the answer, and a margin."""
    return size - min(LARGEST_ANSWER, size // 8) - size // 25


def answer_room(state: RunState) -> int:
    """Tokens left in the window for the next answer."""
    size = window(state)
    return size - estimate(state) if size else LARGEST_ANSWER


def rate(windowing: WindowMeasures) -> float:
    """Bytes a token, for text that nobody has counted."""
    return min(windowing.ratio, RICHEST) or CAUTIOUS


def tokens(size: int, windowing: WindowMeasures) -> int:
    return ceil(size / rate(windowing))


def estimate(state: RunState) -> int:
    """Tokens of the next request."""
    counted = min(state.windowing.counted, state.context_tokens)
    return counted + int((state.context_tokens - counted) * CAUTIOUS / rate(state.windowing))
