"""How many steps in a row can fail before a person is asked or the run ends: the bound of ADR 0015, counted anew."""

from __future__ import annotations

from collections.abc import Iterable

from loops.engine import facts as f
from loops.engine.state.limits import Limits


def bound(limits: Limits) -> int:
    """The longest row that ``limits`` allow. Giving an approach up takes ``max_attempts`` failures and leaves one of
    them counted. The last give-up that is allowed ends the run, and none comes once ``max_failures`` is reached."""
    given_up = min(limits.max_backtracks - 1, limits.max_failures - limits.max_attempts + 1)
    return limits.max_failures + (limits.max_attempts - 1) * max(0, given_up)


def longest(facts: Iterable[f.Fact], of_a_rung: int = 0) -> int:
    """Of failed steps with nothing between them that went well, and no word of a person. Each rung that broke a circle
    takes up to ``of_a_rung`` of them (ADR 0022)."""
    most = row = 0
    for fact in facts:
        if isinstance(fact, f.StepCompleted):
            row = 0 if fact.success else row + 1
        elif isinstance(fact, f.GateDecided | f.MessageReceived | f.RunResumed):
            row = 0
        elif isinstance(fact, f.LoopBroken) and fact.anew:
            row = max(0, row - of_a_rung)
        most = max(most, row)
    return most
