"""The tools that come with the product, one file a family (SPEC I5)."""

from __future__ import annotations

from functools import cache

from loops.tools.builtin import commands, completion, file_moves, file_reads, file_restore, file_writes, test_runs
from loops.tools.registry import ToolRegistry

TOOLS = (
    *file_reads.TOOLS,
    *file_writes.TOOLS,
    *file_moves.TOOLS,
    *commands.TOOLS,
    *test_runs.TOOLS,
    *completion.TOOLS,
    *file_restore.TOOLS,
)


def builtin_registry() -> ToolRegistry:
    """A new registry with all of them; add MCP and other tools to it, then ``load_entry_points``."""
    return _checked().copy()


@cache
def _checked() -> ToolRegistry:
    """Every run has a registry of its own; what our tools declare is looked through once in a process."""
    return ToolRegistry(TOOLS)
