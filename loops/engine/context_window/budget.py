"""When a conversation becomes too long for a model's window, and what follows (SPEC U1)."""

from __future__ import annotations

from math import ceil

from loops.engine.effects import Effect, PruneContext, Record
from loops.engine.encoding.replace import evolve
from loops.engine.facts import ContextWarned
from loops.engine.measures.context_budget import CAUTIOUS, SENSELESS, SMALLEST_ANSWER, budget, estimate, window
from loops.engine.state.measures import WindowMeasures
from loops.engine.state.run import RunState
from loops.engine.values import Usage

WARN_AT = 0.8
PRUNE_TO = 0.6
"""Of the budget: pruned this far, the next pruning is many steps away."""
HARDER = (0.6, 0.35)
"""Of what the provider would not take: for the first overflow in a row, and for the second. A third ends the run."""


def after_answer(state: RunState, usage: Usage) -> tuple[int, WindowMeasures]:
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


def refused_for_length(state: RunState, model: str, size: int, count: int) -> RunState:
    """The provider refused a request as too long, and perhaps named the window and how long the request was.

    What was not known before says how much has to go; the first time since an answer that is no overflow of its own."""
    known = state.windowing
    is_news = size > 0 and not known.learnt and window(state) != size
    if count and known.asked_bytes and 1 <= known.asked_bytes / count <= SENSELESS:
        known = evolve(known, ratio=known.asked_bytes / count, counted=count)
        state = evolve(state, context_tokens=count, windowing=known)
    if size:
        windows = tuple((name, tokens) for name, tokens in known.windows if name != model)
        state = evolve(state, windowing=evolve(known, windows=(*windows, (model, size))))
    if not is_news:
        return overflowed(state)
    return evolve(state, windowing=evolve(state.windowing, learnt=True, too_long=estimate(state) > budget(size)))


def make_room(state: RunState) -> Effect | None:
    """Prune when the model refused the request as too long, or would."""
    known, size, now = state.windowing, window(state), estimate(state)
    if known.too_long and known.learnt and not known.overflows:
        return PruneContext(most=int(budget(size) * PRUNE_TO), enough=budget(size))
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


def what_is_too_long(state: RunState) -> str:
    """What does not fit and by how much, for people; empty where nobody knows the window."""
    size, known, now = window(state), state.windowing, estimate(state)
    if not size or not known.fixed:
        return ""
    model = known.model or state.spec.model_for("actor")
    need = f"System prompt and tools need about {known.fixed:,} tokens, the conversation {max(0, now - known.fixed):,}"
    over = now + SMALLEST_ANSWER - size
    by = f": {over:,} too many, with the smallest answer of {SMALLEST_ANSWER}" if over > 0 else ""
    return f"{need}; the window of {model} is {size:,}{by}."
