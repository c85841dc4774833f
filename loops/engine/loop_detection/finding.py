"""What a detector says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """``steps`` are the steps that show it, oldest first; ``confidence`` 0..1 is how sure this kind of sign is."""

    method: str
    evidence: str
    steps: tuple[int, ...]
    confidence: float
