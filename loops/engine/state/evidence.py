"""How well a criterion is proved, in one word (SPEC X4, L2, ADR 0079)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum


class Evidence(StrEnum):
    """From the weakest to the strongest, but for the first."""

    NONE = ""
    """It did not hold, or an earlier version measured it."""
    CONTRADICTED = "contradicted"
    """It holds as well where the work is broken on purpose, or left out."""
    CLAIMED = "claimed"
    """The agent says so, or a check that the run could have influenced."""
    SUPPORTED = "supported"
    """It holds in a clean checkout, by the exit code of its command, or without a sign that it could fail."""
    ACCEPTED = "accepted"
    """A person says so."""
    PROVED = "proved"
    """It holds in a clean checkout, by the report of its tests, and fails without the work."""


_ORDER = tuple(Evidence)
WEAK = frozenset({Evidence.CONTRADICTED, Evidence.CLAIMED})
"""Nothing but the word of the agent stands behind it, or less."""


def weakest(found: Iterable[Evidence]) -> Evidence:
    """Of those of one run; NONE of nothing."""
    return min(found, key=_ORDER.index, default=Evidence.NONE)


def counted(found: Iterable[Evidence]) -> dict[str, int]:
    """How many criteria have each level."""
    return dict(Counter(level.value for level in found))


def how_many(counts: Mapping[str, int], approver: str = "") -> str:
    """For people, the strongest first: "2 proved, 1 accepted by ada"."""
    by = {Evidence.ACCEPTED: f" by {approver}" if approver else ""}
    return ", ".join(f"{counts[level]} {level}{by.get(level, '')}" for level in reversed(_ORDER) if level in counts)
