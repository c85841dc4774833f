"""Is the agent going in circles? The inside view: identical errors in a row (SPEC F1, D83 loop detection)."""

from __future__ import annotations

import hashlib
import re

from loops.engine.state import RunState

_NOISE = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?")


def error_signature(tool: str, error: str) -> str:
    """The same for the same error of the same tool, whatever numbers, times and addresses it carries."""
    text = _NOISE.sub("#", error.strip().lower())[:2000]
    return hashlib.sha256(f"{tool}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def identical_errors(state: RunState, in_row: int = 3) -> str:
    """Evidence text when the last ``in_row`` steps failed with one and the same error, else empty."""
    recent = state.recent_errors
    if len(recent) >= in_row and len(set(recent[-in_row:])) == 1:
        return f"the same error ended {in_row} steps in a row"
    return ""
