"""What a project's commands may use, as pages show it beside the limits of runs (SPEC I7, X5)."""

from __future__ import annotations

from collections.abc import Iterator

from loops.engine.state.command_limits import COMMAND_LIMITS, CommandLimits
from loops.web.formatting import duration

_MIB_OF_A_GIB = 1_024


def lines(given: CommandLimits) -> Iterator[tuple[str, str]]:
    """(label, amount) of each, in words."""
    for name, row in COMMAND_LIMITS.items():
        amount = getattr(given, name)
        if row.measure == "seconds":
            yield row.label, duration(amount)
        elif row.measure == "MiB" and amount >= _MIB_OF_A_GIB:
            yield row.label, f"{amount / _MIB_OF_A_GIB:,.4g} GiB"
        else:
            yield row.label, f"{amount:,} {row.measure}".strip()
