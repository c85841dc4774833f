"""When a call in doubt may be begun again (reliability#lease): never while whoever began it may still be at it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gates.policy.kinds import Kind
from gates.policy.verdicts import again_from

OPENED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.spec("J2", "J3")
@pytest.mark.parametrize(("after_s", "waits"), [(0, True), (89, True), (90, False), (1000, False)])
def test_it_waits_until_its_owner_can_do_nothing_any_more(after_s: int, waits: bool) -> None:
    since = again_from(Kind.IN_DOUBT, {"again_after_s": 90}, OPENED, OPENED + timedelta(seconds=after_s))
    assert since == (OPENED + timedelta(seconds=90) if waits else None)


@pytest.mark.spec("J2")
@pytest.mark.parametrize(
    ("kind", "view"),
    [(Kind.IN_DOUBT, {}), (Kind.IN_DOUBT, {"again_after_s": 0}), (Kind.QUESTION, {"again_after_s": 9})],
)
def test_nothing_else_waits(kind: Kind, view: dict[str, Any]) -> None:
    assert again_from(kind, view, OPENED, OPENED) is None
