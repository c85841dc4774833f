"""What a person at a terminal ordered of a worker, and waits for."""

from __future__ import annotations

import time

from loops.models import Delivery, Preflight

PAUSE_S = 0.2


def wait(ordered: Delivery | Preflight, seconds: float, *, for_its_begin: bool = False) -> None:
    """Until it is done, or has begun, or ``seconds`` are over."""
    deadline = time.monotonic() + seconds
    while ordered.is_open and time.monotonic() < deadline:
        if for_its_begin and ordered.state != "waiting":
            return
        time.sleep(PAUSE_S)
        ordered.refresh_from_db()
