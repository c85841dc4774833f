"""A person pushes a result from the page of its run, and reads there what came of it (SPEC X3, UI "Manners")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from loops.models import Delivery
from loops.workspaces import commits
from tests.integration.runs.test_apply import commit as finish
from tests.integration.runs.test_push import TOKEN, VARIABLE, WORK, Served, hook
from tests.integration.services.git_server import GitServer
from tests.unit.tools.harness import reachable
from tests.web.browsing import faults
from tests.web.test_applying import _by_a_worker, _shoot
from tests.web.test_rollback import open_page  # noqa: F401 - a fixture

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("X3")]


@pytest.fixture
def story(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr("loops.storage.dispatch.dispatch", lambda *_, **__: None)
    monkeypatch.setenv(VARIABLE, TOKEN)
    with GitServer(reachable(tmp_path)).serving() as server:
        server.push({"shop.py": "first\n", "old.txt": "old\n"}, message="Begin")
        served = Served(server, tmp_path, settings, monkeypatch)
        with ThreadPoolExecutor(1) as pool:  # a browser's event loop runs in the test's own thread
            fetch = served.fetch
            monkeypatch.setattr(served, "fetch", lambda: pool.submit(_aside, fetch).result())
            yield served


def _aside(fetch: Callable[[], Any]) -> Any:
    from django.db import connections

    try:
        return fetch()
    finally:
        connections.close_all()


def carried_out() -> str:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_by_a_worker).result()


def test_a_person_pushes_a_result_and_reads_what_came_of_it(story: Served, open_page: Callable[..., Page]) -> None:  # noqa: F811
    finish(story, [*WORK, ("write_file", {"path": "Makefile", "content": "all:\n"})])
    branch = commits.branch_of(story.run)
    page = open_page(f"/runs/{story.run.pk}/")
    expect(page.get_by_text("still in the run's own copy")).to_be_visible()
    page.get_by_role("link", name="Push it as a branch").click()
    _shoot(page, "push-files")
    page.get_by_role("link", name="Push as a branch").click()
    expect(page.get_by_role("listitem").filter(has_text="old.txt")).to_contain_text("deleted")
    expect(page.get_by_role("listitem").filter(has_text="Makefile")).to_contain_text("run by builds")
    assert faults(page) == []
    _shoot(page, "push")
    page.get_by_role("button", name="Push", exact=True).click()
    expect(page.get_by_text("Waiting for a worker")).to_be_visible()
    assert story.pushed() == ""
    assert carried_out() == "applied"
    expect(page.get_by_text("Pushed to")).to_be_visible()
    expect(page.get_by_text(f"git fetch && git switch {branch}")).to_be_visible()
    expect(page.get_by_role("button", name="Push again")).to_be_visible()
    _shoot(page, "pushed")
    assert story.pushed() == Delivery.objects.get().commit
    page.goto(page.url.replace("/push/", "/"))
    expect(page.get_by_text("still in the run's own copy")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_the_server_refused_is_read_and_can_be_ordered_again(
    story: Served,
    open_page: Callable[..., Page],  # noqa: F811
    scheme: str,
) -> None:
    finish(story, WORK)
    hook(story, "echo Branches of agentops are protected; exit 1")
    page = open_page(f"/runs/{story.run.pk}/push/")
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": 390, "height": 844})
    page.reload()
    page.get_by_role("button", name="Push", exact=True).click()
    expect(page.get_by_role("button", name="Cancel this request")).to_be_visible()
    assert carried_out() == "refused"
    expect(page.get_by_text("It says: “Branches of agentops are protected”.")).to_be_visible()
    expect(page.get_by_role("button", name="Push", exact=True)).to_be_visible()
    _shoot(page, f"not-pushed-{scheme}")
    assert faults(page) == []


def test_without_the_word_of_a_superuser_the_patch_is_offered(story: Served, open_page: Callable[..., Page]) -> None:  # noqa: F811
    finish(story, WORK)
    type(story.workspace).objects.update(git_push_token_env="")
    page = open_page(f"/runs/{story.run.pk}/files/")
    expect(page.get_by_role("link", name="Push as a branch")).to_have_count(0)
    page.get_by_role("link", name="Who can allow it").click()
    expect(page.get_by_text("A superuser can allow it under Admin > Workspaces")).to_be_visible()
    expect(page.get_by_role("link", name="Download patch")).to_be_visible()
    expect(page.get_by_role("button", name="Push")).to_have_count(0)
    _shoot(page, "no-push")
    assert faults(page) == []
