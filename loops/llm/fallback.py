"""Which models are asked instead of one that cannot be reached, in order (SPEC E6, S3)."""

from __future__ import annotations

from collections.abc import Mapping

from loops.llm.config import ModelConfig


def chain(configs: Mapping[str, ModelConfig], name: str) -> tuple[str, ...]:
    """``name`` and its fallbacks. Each once, whatever an admin wrote; an unknown name ends the chain."""
    found: list[str] = []
    while name not in found:
        found.append(name)
        following = configs[name].fallback if name in configs else ""
        if following not in configs:
            break
        name = following
    return tuple(found)
