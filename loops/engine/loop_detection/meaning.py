"""Steps that mean the same in other words, told by vectors that an embedding model made of their texts (SPEC F2).

Pure, and asked by the monitor alone, where such a model is configured. Vectors see what words mean and hardly see
figures: to them "3 tests fail" is "4 tests fail". So a result with other figures is another result, however near it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import mul

from loops.engine.loop_detection.finding import Finding
from loops.engine.state.step_window import Window, since_news
from loops.engine.state.thresholds import THRESHOLDS, Thresholds

Vector = Sequence[float]


@dataclass(frozen=True, slots=True)
class Meaning:
    """Of one step: what it did and what came of it as vectors of length 1, and the figures in its result."""

    action: Vector
    outcome: Vector
    figures: frozenset[str] = frozenset()


Meanings = Mapping[int, Meaning | None]
"""By step. None, like a missing one, is a step whose meaning is not known: it is like no other."""


def same_meaning(
    window: Window, meanings: Meanings, *, model: str, similar: float, thresholds: Thresholds = THRESHOLDS
) -> Finding | None:
    """As many steps mean what the newest means as ``semantic`` wants in a row, or ``recurring_steps`` in all.

    ``similar`` is the cosine from which on two texts mean the same.
    """
    steps = since_news(window)
    newest = meanings.get(steps[-1].step) if steps and not steps[-1].changed else None
    if newest is None:
        return None
    near = {seen.step: _nearness(meanings.get(seen.step), newest) for seen in steps}
    same = [step for step, nearness in near.items() if nearness >= similar]
    in_row = len(list(takewhile(lambda nearness: nearness >= similar, reversed(near.values()))))
    if not (0 < thresholds.similar_steps <= in_row or 0 < thresholds.recurring_steps <= len(same)):
        return None
    least = min(near[step] for step in same)
    told = f"{len(same)} steps did and learnt the same in other words"
    evidence = f"{told}: cosine {least:.2f} or more of embeddings by {model}, over steps {same[0]}-{same[-1]}"
    return Finding("same_meaning", evidence, tuple(same), 0.7)


def cosine(one: Vector, other: Vector) -> float:
    """Of two vectors of length 1; 0 when they are of different models."""
    return sum(map(mul, one, other)) if len(one) == len(other) else 0.0


def _nearness(one: Meaning | None, other: Meaning) -> float:
    """The lower of both cosines; 0 for another result by its figures."""
    if one is None or one.figures != other.figures:
        return 0.0
    return min(cosine(one.action, other.action), cosine(one.outcome, other.outcome))
