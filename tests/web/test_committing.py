"""A person commits a result on a branch from the page of its run, and copies the text of a pull request (SPEC X3)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from loops.workspaces import commits, pull_requests
from tests.integration.rollback.world import Story
from tests.integration.runs.test_apply import commit as finish
from tests.integration.runs.test_commit import begin
from tests.integration.runs.test_patch import git
from tests.web.browsing import faults
from tests.web.test_applying import _by_a_worker, _shoot
from tests.web.test_rollback import open_page  # noqa: F401 - a fixture

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("X3")]


@pytest.fixture
def story(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Story:
    monkeypatch.setattr("loops.storage.dispatch.dispatch", lambda *_, **__: None)
    story = Story(tmp_path, settings, monkeypatch)
    begin(story.origin)
    return story


def test_a_person_commits_a_result_and_reads_what_came_of_it(story: Story, open_page: Callable[..., Page]) -> None:  # noqa: F811
    finish(story)
    branch = commits.branch_of(story.run)
    page = open_page(f"/runs/{story.run.pk}/")
    expect(page.get_by_text("still in the run's own copy")).to_be_visible()
    _shoot(page, "undelivered")
    page.get_by_role("link", name="Apply it, commit it on a branch").click()
    page.get_by_role("link", name="Commit on a branch").click()
    expect(page.get_by_role("listitem").filter(has_text="d.txt")).to_contain_text("deleted")
    assert faults(page) == []
    _shoot(page, "commit")
    page.get_by_role("button", name="Commit", exact=True).click()
    expect(page.get_by_text("Waiting for a worker")).to_be_visible()
    assert git(story.origin, "branch", "--list", branch) == ""
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(_by_a_worker).result() == "applied"
    expect(page.get_by_text("Committed to the branch")).to_be_visible()
    expect(page.get_by_text("Nothing is left to commit")).to_be_visible()
    _shoot(page, "committed")
    assert git(story.origin, "rev-list", "--count", branch) == "2\n"
    page.goto(page.url.replace("/commit/", "/"))
    expect(page.get_by_text("still in the run's own copy")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_text_of_a_pull_request_is_copied(
    story: Story,
    open_page: Callable[..., Page],  # noqa: F811
    scheme: str,
) -> None:
    finish(story)
    (story.origin / "a.txt").write_text("mine\n")
    git(story.origin, "commit", "-qam", "mine")
    page = open_page(f"/runs/{story.run.pk}/commit/")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": 390, "height": 844})
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("a.txt: the last commit has it otherwise")
    expect(page.get_by_role("button", name="Commit", exact=True)).to_have_count(0)
    page.get_by_text("Text for a pull request").click()
    page.get_by_role("button", name="Copy the text").click()
    page.wait_for_function("async () => (await navigator.clipboard.readText()).startsWith('## Goal')")
    copied, whole = page.evaluate("navigator.clipboard.readText()"), pull_requests.of(story.run).body
    assert [text.partition("http")[0] for text in (copied, whole)] == [whole.partition("http")[0]] * 2
    _shoot(page, f"pull-request-{scheme}")
    assert faults(page) == []
