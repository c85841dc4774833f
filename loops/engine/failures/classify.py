"""Which class a failure belongs to (SPEC E1): the first rule that matches decides."""

from __future__ import annotations

from collections.abc import Sequence

from loops.engine.failures.rule import Rule, seen
from loops.engine.failures.rules import RULES, UNKNOWN
from loops.engine.state.failure import Classified, Failure


def classify(failure: Failure, rules: Sequence[Rule] = RULES) -> Classified:
    """Pure, never raises, and bounded: at most ``LOOKED_AT`` characters are looked at, however long the text is."""
    looked_at = seen(failure)
    return _said(next((rule for rule in rules if rule.matches(looked_at)), UNKNOWN))


def _said(rule: Rule) -> Classified:
    return Classified(
        kind=rule.kind,
        rule=rule.name,
        reason=rule.why,
        certain=rule.certain,
        person_can_help=rule.person_can_help,
    )
