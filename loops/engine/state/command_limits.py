"""THE table of what a command may use, set by the policy of a project and, where it differs, by a workspace: a field of
``CommandLimits`` with its row. What the form, the API, the command line and the sandbox know of one is derived from it
(SPEC I7, S1, ADR 0069).

Nothing here is counted by the engine; the rows of a run are those of ``limits``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from loops.engine.state.limits import Limit

_ROW = "limit"


def _row(default: int, row: Limit) -> Any:
    return field(default=default, metadata={_ROW: row})


@dataclass(frozen=True, slots=True)
class CommandLimits:
    """Times in seconds, sizes in MiB. The highest amounts are what one machine for several projects can bear."""

    criterion_seconds: int = _row(
        120,
        Limit(
            "Time of a criterion's command",
            1,
            7_200,
            measure="seconds",
            help="Of each acceptance criterion, at the final check, before the first request and in Try the commands. "
            "What takes longer is stopped, and does not prove it.",
        ),
    )
    """Two hours: a worker is kept for as long, and a run cannot be paused to any effect meanwhile."""
    command_seconds: int = _row(
        120,
        Limit(
            "Time of a command",
            1,
            1_800,
            measure="seconds",
            help="Of a command of an agent that asks for no time of its own; it may ask for up to 1,800 seconds.",
        ),
    )
    """No more than an agent may ask for: what runs longer belongs into a criterion or a set-up."""
    command_memory_mib: int = _row(
        2_048,
        Limit(
            "Memory of a command",
            128,
            65_536,
            measure="MiB",
            help="All its processes together; one process may address twice as much. What takes more is ended.",
        ),
    )
    """Less does not start an interpreter with its libraries; more is no part of a machine that others use too."""
    command_processes: int = _row(
        128,
        Limit(
            "Processes of a command",
            16,
            4_096,
            help="Processes and threads at a time. What starts more is ended.",
        ),
    )
    """Counting some thousands takes a quarter of a second, and a machine has 32,768 for everybody."""
    workspace_mib: int = _row(
        1_024,
        Limit(
            "Disk of a workspace",
            16,
            102_400,
            measure="MiB",
            help="All its files, those of its set-up too. What writes more is ended or refused; half of it is the most "
            "for one file of a command.",
        ),
    )
    """Each run has a copy of it."""
    workspace_files: int = _row(
        100_000,
        Limit(
            "Files of a workspace",
            100,
            2_000_000,
            help="Folders count as well. What makes more is ended or refused.",
        ),
    )
    """They are counted while a command runs: two million take some ten seconds each time."""
    command_output_mib: int = _row(
        10,
        Limit(
            "Output of a command",
            1,
            100,
            measure="MiB",
            help="Kept whole; of a long one the model reads the beginning and the end. What prints more is ended.",
        ),
    )
    """It is held in the worker's memory until the command ends."""

    def with_those_of(self, workspace: Mapping[str, int | None]) -> CommandLimits:
        """What holds in a workspace that states these: THE rule, for whoever asks. What it does not state stays."""
        return replace(self, **{name: amount for name, amount in workspace.items() if amount is not None})


DEFAULTS = CommandLimits()
COMMAND_LIMITS: Mapping[str, Limit] = MappingProxyType({one.name: one.metadata[_ROW] for one in fields(CommandLimits)})
"""By the name of the field."""
