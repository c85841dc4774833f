"""A person tries the commands of criteria in New task before anything is submitted (SPEC C6, UI page 5)."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from loops.models import Agent, Preflight, Workspace
from loops.services.models import ensure_script
from tests.integration.rollback.world import Story, look
from tests.integration.services.test_preflight import SUITE, TESTS, by_a_worker
from tests.web.browsing import faults
from tests.web.test_rollback import open_page  # noqa: F401 - a fixture

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("C6")]


@pytest.fixture
def story(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Story:
    monkeypatch.setattr("loops.storage.dispatch.dispatch", lambda *_, **__: None)
    story = Story(tmp_path, settings, monkeypatch)
    (story.origin / "test_sums.py").write_text(TESTS)
    Agent.objects.create(project=story.project, name="A", actor_model=ensure_script("scripted", pace=0))
    Workspace.objects.create(project=story.project, name="shop", path=str(story.origin))
    return story


@pytest.mark.parametrize(("scheme", "pixels"), [("light", 1280), ("dark", 390)])
def test_a_person_tries_the_commands_and_then_goes_on_with_the_form(
    story: Story,
    open_page: Callable[..., Page],  # noqa: F811
    scheme: str,
    pixels: int,
) -> None:
    was = look(story.origin)
    page = open_page("/tasks/new/", theme=scheme, width=pixels)
    page.get_by_label("Workspace").select_option("shop")
    page.get_by_label("Goal").fill("Mend the sums")
    page.get_by_role("button", name="Try the commands").click()
    expect(page.get_by_text("No criterion has a command")).to_be_visible()
    page.get_by_label("Command that proves criterion 1").fill(SUITE)
    page.get_by_label("Command that proves criterion 2").fill("no-such-runner -q")
    page.get_by_role("button", name="Try the commands").click()
    expect(page.get_by_text("Waiting for a worker")).to_be_visible()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(by_a_worker, str(Preflight.objects.get().pk)).result()
    expect(page.get_by_text("2 failed, 1 passed")).to_be_visible()
    expect(page.get_by_text("no-such-runner is not installed")).to_be_visible()
    expect(page.get_by_label("Goal")).to_have_value("Mend the sums")
    page.get_by_text("Output").first.click()
    expect(page.get_by_text("AssertionError: 1 != 2")).to_be_visible()
    assert faults(page) == []
    if folder := os.environ.get("SHOOT_INTO"):
        page.screenshot(path=f"{folder}/try-{scheme}.png", full_page=True)
    assert look(story.origin) == was
