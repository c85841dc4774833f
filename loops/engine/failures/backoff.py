"""Backoff between attempts at a model call: exponential with full jitter, and never sooner than the provider asked
(SPEC E6). Chance comes from the caller's seed, so that replaying a journal gives the same delays."""

from __future__ import annotations

import hashlib

BASE_S = 1.0
CAP_S = 60.0
LONGEST_WISH_S = 600.0


def delay_s(attempt: int, retry_after_s: float | None, seed: str) -> float:
    """Seconds to wait after failed attempt number ``attempt`` (1, 2, ...)."""
    ceiling = min(CAP_S, BASE_S * 2.0 ** min(attempt - 1, 16))
    digest = hashlib.sha256(f"{seed}:{attempt}".encode()).digest()
    jittered = ceiling * (0.5 + 0.5 * int.from_bytes(digest[:4], "big") / 2**32)
    wish = min(retry_after_s or 0.0, LONGEST_WISH_S)
    return max(jittered, wish)
