"""What every fact has: the moment it was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, kw_only=True)
class Fact:
    HEAVY: ClassVar[tuple[str, ...]] = ()
    at: int = 0
