"""Names of the execution loops that can be chosen (SPEC B1)."""

from __future__ import annotations

from loops.engine import loops


def registered() -> tuple[str, ...]:
    """Every registered loop, in a stable order."""
    names = getattr(loops, "names", None)
    return tuple(names()) if names else ("react",)
