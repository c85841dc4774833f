"""A weak sandbox is said where commands are ordered, not when one is refused (SPEC I7, X1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.conf import settings
from django.urls import reverse

from loops.services import sandbox
from loops.tools.sandbox.capability import CONFINED, FILES_ONLY, FULL, SandboxLevel
from tests.web.test_pages import text_of

pytestmark = pytest.mark.spec("I7", "X1")
WHY, REMEDY = "bubblewrap is not installed.", "Install bubblewrap: `sudo apt-get install bubblewrap`."


@pytest.fixture(autouse=True)
def nothing_told() -> Iterator[None]:
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.delete(sandbox.KEY)
        yield
        client.delete(sandbox.KEY)


@pytest.mark.parametrize("page", ["overview", "new-task"])
@pytest.mark.parametrize(
    ("level", "title"), [(CONFINED, "Every command asks a person."), (FILES_ONLY, "Commands are refused.")]
)
def test_a_weak_sandbox_is_said_before_anything_is_ordered(house: Any, page: str, level: int, title: str) -> None:
    sandbox.tell(SandboxLevel(level, "weak", (), WHY, REMEDY))
    said = text_of(house.client("operator").get(reverse(page)))
    assert title in said
    assert WHY in said
    assert "<code>sudo apt-get install bubblewrap</code>" in said


@pytest.mark.parametrize("page", ["overview", "new-task"])
def test_it_is_gone_as_soon_as_a_worker_tells_of_the_full_one(house: Any, page: str) -> None:
    client = house.client("operator")
    assert "sandbox-notice" not in text_of(client.get(reverse(page))), "nobody has told anything yet"
    sandbox.tell(SandboxLevel(CONFINED, "landlock", (), WHY, REMEDY))
    assert "sandbox-notice" in text_of(client.get(reverse(page)))
    sandbox.tell(SandboxLevel(FULL, "bubblewrap"))
    assert "sandbox-notice" not in text_of(client.get(reverse(page)))


def test_a_broker_that_is_away_does_not_take_the_page_with_it(house: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    away = redis.Redis.from_url("redis://127.0.0.1:1/0", socket_connect_timeout=0.2)
    monkeypatch.setattr(sandbox, "_client", lambda: away)
    assert house.client("operator").get(reverse("overview")).status_code == 200
