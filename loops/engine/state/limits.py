"""THE table of limits (SPEC D1, D2): a field of ``Limits`` with its row. What people see, give or extend of a limit is
derived from it: forms, the API, the admin, gates, ceilings of policies, warnings and bounds.

Amounts are in the units of ``Limits``; people say ``shown_as``, and give a ``scale``-th of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from loops.engine.state.thresholds import THRESHOLDS, Thresholds

_ROW = "limit"


@dataclass(frozen=True, slots=True)
class Limit:
    """What is known of one limit. ``low`` and ``high`` bind whoever sets it. ``unit`` is for sentences, ``measure`` for
    amounts in forms. ``ends_as``: the reason code of a run that reached it, "" for its own name."""

    label: str
    low: int
    high: int
    unit: str = ""
    measure: str = ""
    help: str = ""
    shown_as: str = ""
    scale: int = 1
    never_at_zero: bool = False
    """0 means never, which is looser than any number."""
    extendable: bool = False
    """Reached, it asks a person for more."""
    warned: bool = True
    """Of those that are extendable: the agent is told when it is near. Where each one is told of, that is enough."""
    ends_as: str = ""
    is_switch: bool = False
    """0 or 1, and no amount that a form asks for."""

    @property
    def form_label(self) -> str:
        return f"{self.label}, {self.measure}" if self.measure else self.label

    @property
    def step(self) -> str:
        """Of a number field."""
        return "0.01" if self.scale > 1 else "1"


def _row(default: int, row: Limit) -> Any:
    return field(default=default, metadata={_ROW: row})


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run. Times in seconds, money in millionths of a US dollar. People set the fields with a row."""

    max_steps: int = _row(20, Limit("Steps", 1, 10_000, "steps", extendable=True))
    max_seconds: int = _row(
        600, Limit("Working time", 10, 30 * 24 * 3600, "seconds of work", "seconds", extendable=True)
    )
    max_failures: int = _row(
        3, Limit("Failures in a row", 1, 100, "failures in a row", help="In a row.", extendable=True, warned=False)
    )
    max_tokens: int = _row(500_000, Limit("Tokens", 1_000, 1_000_000_000, "tokens", extendable=True))
    max_cost_microusd: int = _row(
        5_000_000,
        Limit(
            "Cost",
            0,
            100_000_000_000,
            "spent",
            "US dollars",
            shown_as="max_cost_usd",
            scale=1_000_000,
            extendable=True,
        ),
    )
    allow_unknown_cost: int = _row(
        1,
        Limit(
            "Without a known price",
            0,
            1,
            help="1: a cost limit is set although a model has no known price, so it cannot cap the cost.",
            is_switch=True,
        ),
    )
    """0: a call without a known price puts the run before a person, since the bound above cannot hold what it costs."""
    max_repairs: int = _row(
        3,
        Limit(
            "Repairs",
            0,
            100,
            "repairs",
            help="Repairs of a result before a person is asked.",
            extendable=True,
            warned=False,
            ends_as="repair_budget",
        ),
    )
    max_model_attempts: int = 6
    max_extensions: int = _row(
        20,
        Limit(
            "Extensions by people",
            0,
            100,
            help="How often people may let a run go on past a limit or out of a loop, in all.",
        ),
    )
    circles: Thresholds = THRESHOLDS
    """When repetition counts as a circle."""
    calls_per_reply: int = 8
    warn_at: float = 0.8
    max_attempts: int = _row(
        3,
        Limit(
            "Failed steps before another approach",
            1,
            100,
            help="Failed steps in a row before the agent has to give up an approach.",
        ),
    )
    """SPEC E2."""
    reflect_after: int = _row(
        3,
        Limit(
            "Tool errors before a reflection",
            0,
            100,
            help="Tool errors in a row before the agent has to reflect; 0: never.",
            never_at_zero=True,
        ),
    )
    """Circuit level 1 (SPEC E4)."""
    max_backtracks: int = _row(
        5,
        Limit(
            "Approaches given up",
            1,
            1_000,
            "approaches given up",
            help="Approaches given up before a person is asked.",
            extendable=True,
            warned=False,
            ends_as="too_many_backtracks",
        ),
    )
    """Circuit level 2 (SPEC E4)."""
    confirm_after: int = _row(
        0,
        Limit(
            "Steps before a person confirms",
            0,
            10_000,
            help="Steps without a person before one is asked whether to go on; 0: never.",
            never_at_zero=True,
        ),
    )
    """SPEC D4."""
    max_second_opinions: int = 10
    """Failures that no rule is sure of and a model is asked about, in all (SPEC E1); 0 for none."""
    max_depth: int = 3
    """Of runs that were begun by runs (SPEC P1)."""


DEFAULTS = Limits()
LIMITS: Mapping[str, Limit] = MappingProxyType(
    {one.name: one.metadata[_ROW] for one in fields(Limits) if _ROW in one.metadata}
)
"""By the name of the field."""
FIELD_OF: Mapping[str, str] = MappingProxyType({row.shown_as or name: name for name, row in LIMITS.items()})
"""The field by the name that people, reason codes, gates and the API use of it."""
EXTENDABLE: Mapping[str, Limit] = MappingProxyType(
    {public: LIMITS[name] for public, name in FIELD_OF.items() if LIMITS[name].extendable}
)
"""By that name."""
