"""What commands may use, as pages show it beside the limits of runs (SPEC I7, X5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from loops.engine.state.command_limits import COMMAND_LIMITS
from loops.engine.state.limits import Limit
from loops.models import Policy, Workspace
from loops.web.formatting import duration

_MIB_OF_A_GIB = 1_024


def lines(policy: Policy, workspace: Workspace | None) -> Iterator[tuple[str, str, bool]]:
    """(label, amount, is it the workspace that says so?) of each, in words."""
    given, own = policy.commands_in(workspace), workspace.own_limits if workspace is not None else {}
    for name, row in COMMAND_LIMITS.items():
        yield row.label, in_words(row, getattr(given, name)), name in own


def fields(
    policy: Policy, workspace: Workspace, typed: Mapping[str, str | None]
) -> Iterator[tuple[str, Limit, int | str | None, str]]:
    """(name, row, what was typed or else the workspace states, what the project gives) of each, for a form."""
    for name, row in COMMAND_LIMITS.items():
        yield name, row, typed.get(name, getattr(workspace, name)), in_words(row, getattr(policy, name))


def in_words(row: Limit, amount: int) -> str:
    """With its unit."""
    if row.measure == "seconds":
        return duration(amount)
    if row.measure == "MiB" and amount >= _MIB_OF_A_GIB:
        return f"{amount / _MIB_OF_A_GIB:,.4g} GiB"
    return f"{amount:,} {row.measure}".strip()
