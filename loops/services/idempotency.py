"""Made once for each idempotency key, however many ask at the same moment (SPEC J6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.db import IntegrityError

T = TypeVar("T")


def insert_or_read(insert: Callable[[], T], read: Callable[[], T | None]) -> T:
    """What ``insert`` makes in a transaction of its own, or what somebody with the same key made faster, by ``read``.

    A violation that has nothing to do with the key is raised: ``read`` finds nothing then.
    """
    try:
        return insert()
    except IntegrityError:
        # The unique constraint waited for the other's commit, so it can be read now.
        found = read()
        if found is None:
            raise
        return found
