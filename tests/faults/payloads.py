"""What ordinary model output holds now and then, and no storage likes (reliability#measured, 9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _deep() -> Any:
    value: Any = 1
    for _ in range(500):
        value = [value]
    return value


PAYLOADS: dict[str, Callable[[], Any]] = {
    "nul": lambda: "a\0b",
    "surrogate": lambda: "a\ud800b",
    "nan": lambda: float("nan"),
    "infinity": lambda: float("-inf"),
    "large_number": lambda: 2**60,
    "minus_zero": lambda: -0.0,
    "deep": _deep,
    "key": lambda: {"a\0\udfff": {"__class__": "x", "": None}},
    "megabytes": lambda: "x" * 2_000_000,
}
"""Deeper values do not come through any provider's parser; 50 MB are sent in full form."""
HUGE = 50_000_000


def text_of(kind: str) -> str:
    """The same poison as words of an answer."""
    payload = PAYLOADS[kind]()
    return payload if isinstance(payload, str) else f"{kind}: {str(payload)[:200]}"
