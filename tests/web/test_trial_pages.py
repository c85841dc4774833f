"""What the criteria said before the first request, in the trace, and the card when they cannot run (SPEC R1, Q1)."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connections
from playwright.sync_api import Page, expect

from gates.models import Gate
from tests.integration.runs.test_trial import MEND, RED, TESTS, Played
from tests.web.browsing import faults
from tests.web.test_rollback import open_page  # noqa: F401 - a fixture

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("R1", "Q1")]
CORNERS = pytest.mark.parametrize(("scheme", "pixels"), [("light", 1280), ("dark", 390)])


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    """Whom ``open_page`` logs in is its ``boss``."""
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "test_sums.py").write_text(RED)
    return Played(get_user_model().objects.create_superuser("ana", password="x"), tmp_path / "w", monkeypatch)


def go(played: Played) -> str:
    def going() -> str:
        try:
            return played.go()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(going).result()


@CORNERS
def test_the_trace_begins_with_what_the_tests_said(
    story: Played,
    open_page: Callable[..., Page],  # noqa: F811
    scheme: str,
    pixels: int,
) -> None:
    story.begin(TESTS, calls=[MEND])
    assert go(story) == "ended"
    page = open_page(f"/runs/{story.run.pk}/", theme=scheme, width=pixels)
    note = page.locator(".note", has_text="Before the first request: 1 failed, 1 passed")
    expect(note).to_be_visible()
    note.get_by_text("Detail").click()
    expect(note.get_by_text("AssertionError: 2 != 3")).to_be_visible()
    shot(page, f"trial-run-{scheme}")
    assert faults(page) == []


@CORNERS
def test_the_card_says_that_the_work_has_not_begun(
    story: Played,
    open_page: Callable[..., Page],  # noqa: F811
    scheme: str,
    pixels: int,
) -> None:
    story.begin(TESTS, "tests-of-nobody")
    assert go(story) == "gate:checks_not_run"
    gate = Gate.objects.get(run=story.run)
    page = open_page(f"/review/{gate.pk}/", theme=scheme, width=pixels)
    expect(page.get_by_text("no model was asked and no repair was used")).to_be_visible()
    expect(page.get_by_role("heading", name="tests-of-nobody is not installed")).to_be_visible()
    expect(page.get_by_role("button", name="Fixed: run the checks again")).to_be_visible()
    shot(page, f"trial-card-{scheme}")
    assert faults(page) == []
    run = open_page(f"/runs/{story.run.pk}/", theme=scheme, width=pixels)
    expect(run.get_by_text("Before the first request: the checks cannot run here")).to_be_visible()
    shot(run, f"trial-waiting-{scheme}")


def shot(page: Any, name: str) -> None:
    if folder := os.environ.get("SHOOT_INTO"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)
