"""What a person may type into the limits of a task or a fork: the ranges of the project's policy (ADR 0045)."""

from __future__ import annotations

from typing import Any

from loops.engine.limits.ceilings import Floor
from loops.engine.state.limits import FIELD_OF, LIMITS
from loops.querysets import ADMINISTER, can
from loops.services.policy_floor import floor_of


def ranges(user: Any, project_id: str) -> dict[str, str]:
    """Name of a field -> "1 to 100"."""
    floor, more = floor_of(project_id), "; more as an admin" if can(user, project_id, ADMINISTER) else ""
    return {shown: f"{_range(floor, name)}{more}" for shown, name in FIELD_OF.items()}


def _range(floor: Floor, name: str) -> str:
    most, row = floor.ceilings[name], LIMITS[name]
    if row.scale > 1:
        return f"{row.low / row.scale:g} to {most / row.scale:,g}"
    if not row.never_at_zero:
        return f"{row.low:,} to {most:,}"
    return f"1 to {most:,}" if most else f"1 to {row.high:,}, or 0 for never"
