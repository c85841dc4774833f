"""A person applies a result from the page of its run, and reads there what came of it (SPEC R4, UI "Manners")."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from playwright.sync_api import Page, expect

from loops.models import Delivery
from loops.services import delivery
from tests.integration.rollback.world import Story, look
from tests.integration.runs.test_apply import commit
from tests.web.browsing import faults
from tests.web.test_rollback import open_page  # noqa: F401 - a fixture

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("R4")]


@pytest.fixture
def story(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Story:
    monkeypatch.setattr("loops.storage.dispatch.dispatch", lambda *_, **__: None)
    return Story(tmp_path, settings, monkeypatch)


def _by_a_worker() -> str:
    try:
        return delivery.carry_out(Delivery.objects.get().pk)
    finally:
        connections.close_all()


def test_a_person_applies_a_result_and_reads_what_came_of_it(story: Story, open_page: Callable[..., Page]) -> None:  # noqa: F811
    commit(story)
    page = open_page(f"/runs/{story.run.pk}/files/")
    page.get_by_role("link", name="Apply to folder").click()
    expect(page.get_by_text("Compare the files")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="d.txt")).to_contain_text("deleted")
    assert faults(page) == []
    _shoot(page, "apply")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("Waiting for a worker")).to_be_visible()
    assert look(story.origin) == story.was
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(_by_a_worker).result() == "applied"
    expect(page.get_by_text("Applied to")).to_be_visible()
    expect(page.get_by_text("Nothing is left to apply")).to_be_visible()
    _shoot(page, "applied")
    assert look(story.origin) == look(story.folder)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_in_the_way_is_named_and_there_is_no_button(
    story: Story,
    open_page: Callable[..., Page],  # noqa: F811
    scheme: str,
) -> None:
    commit(story)
    (story.origin / "a.txt").write_text("mine\n")
    page = open_page(f"/runs/{story.run.pk}/apply/")
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": 390, "height": 844})
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("a.txt: it was changed here since the copy was taken")
    expect(page.get_by_role("button", name="Apply")).to_have_count(0)
    _shoot(page, f"conflict-{scheme}")
    assert faults(page) == []


def _shoot(page: Page, name: str) -> None:
    if folder := os.environ.get("SHOOT_INTO"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)
