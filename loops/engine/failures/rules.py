"""The table that decides: safety first, then the loop and its fence, models, tools, and the network behind tools."""

from __future__ import annotations

from loops.engine.failures.rule import Rule
from loops.engine.failures.rules_of_loop import LOOP_RULES, SAFETY_RULES
from loops.engine.failures.rules_of_models import MODEL_RULES
from loops.engine.failures.rules_of_services import SERVICE_RULES
from loops.engine.failures.rules_of_tools import TOOL_RULES
from loops.engine.values import FailureKind

REPORTED_RULES = (
    Rule(
        "reported_unrecoverable",
        FailureKind.UNRECOVERABLE,
        "The part that reported it is sure that nothing can put it right.",
        known=FailureKind.UNRECOVERABLE,
    ),
    Rule(
        "reported_transient",
        FailureKind.TRANSIENT,
        "The part that reported it is sure that it passes.",
        known=FailureKind.TRANSIENT,
    ),
)
RULES: tuple[Rule, ...] = (
    *SAFETY_RULES,
    *LOOP_RULES,
    *MODEL_RULES,
    *TOOL_RULES,
    *SERVICE_RULES,
    *REPORTED_RULES,
)
UNKNOWN = Rule(
    "unknown",
    FailureKind.SYSTEMATIC,
    "Nothing known matches; taken as a failure of this approach.",
    certain=False,
)
"""What holds when no rule matches: the class that costs least when it is wrong."""
