"""A package of somebody else's with a tool that fails in words no rule knows."""

from __future__ import annotations

from pathlib import Path

_CODE = """
from loops.engine.values import Danger, Reversibility, ToolResult, ToolSpec
from loops.tools.registry import Tool

PARAMETERS = {
    "type": "object",
    "properties": {"say": {"type": "string"}},
    "required": ["say"],
    "additionalProperties": False,
}


async def _plonk(arguments, run):
    return ToolResult(ok=False, content="", error=arguments["say"])


def register(registry):
    declared = {"operation": "read", "reversibility": Reversibility.PURE, "danger": Danger.LOW}
    registry.add(Tool(ToolSpec(name="plonk", description="Fails.", parameters=PARAMETERS, **declared), _plonk))
"""


def package(folder: Path) -> str:
    """Write it into ``folder`` as an installed distribution looks; the entry for the module path."""
    info = folder / "acme_plonk-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "acme_plonk.py").write_text(_CODE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-plonk\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[agentops.tools]\nplonk = acme_plonk:register\n")
    return str(folder)
