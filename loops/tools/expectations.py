"""What an INTENT expected of the world, for the ``verify`` of a tool (SPEC J2)."""

from __future__ import annotations

from collections.abc import Mapping

from loops.tools.registry import ToolRun
from loops.tools.sandbox.safe_paths import relative


def expected(run: ToolRun, when: str, path: str) -> str | None:
    """SHA-256 of the file "before" or "after" the call ("" for no file), None when that was not recorded."""
    states = run.context.expects.get(when)
    found = states.get(relative(path)) if isinstance(states, Mapping) else None
    return found if isinstance(found, str) else None
