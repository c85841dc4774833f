"""The tools that come with the product, one file a family (SPEC I5)."""

from __future__ import annotations

from loops.tools.builtin import commands, ending, moving, reading, restoring, testing, writing
from loops.tools.registry import ToolRegistry

TOOLS = (
    *reading.TOOLS,
    *writing.TOOLS,
    *moving.TOOLS,
    *commands.TOOLS,
    *testing.TOOLS,
    *ending.TOOLS,
    *restoring.TOOLS,
)


def builtin_registry() -> ToolRegistry:
    """A new registry with all of them; add MCP and other tools to it, then ``load_entry_points``."""
    return ToolRegistry(TOOLS)
