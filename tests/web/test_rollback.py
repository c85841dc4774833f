"""Rolling a run back as people do it: the card of the gate, the page that asks first, the API (SPEC O3, UI)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as site_settings
from django.test import Client
from playwright.sync_api import Page, expect

from gates.models import Decision, Gate
from loops.models import MailboxItem
from loops.services.rollback import preview
from tests import factories as make
from tests.integration.rollback.world import Story, look
from tests.web.browsing import faults, settled

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("O3")]


@pytest.fixture
def story(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Story:
    """A run that was stopped after eight changes."""
    made = Story(tmp_path, settings, monkeypatch)
    made.begin()
    made.stop()
    return made


def client_of(person: Any) -> Client:
    client = Client()
    client.force_login(person)
    return client


def orders(story: Story) -> int:
    return MailboxItem.objects.filter(run=story.run, kind="rollback").count()


def test_the_page_shows_what_would_be_undone_and_changes_nothing(story: Story) -> None:
    before = look(story.folder)
    page = client_of(story.boss).get(f"/runs/{story.run.pk}/rollback/").content.decode()
    for path in ("a.txt", "by_command", "d.txt", "moved/c.txt"):
        assert path in page
    assert "newer a" in page
    assert "somebody else has changed since" in page
    assert orders(story) == 0
    assert look(story.folder) == before


def test_only_what_was_shown_is_ordered(story: Story) -> None:
    client, address = client_of(story.boss), f"/runs/{story.run.pk}/rollback/"
    stale = client.post(address, {"digest": "0" * 64}, follow=True).content.decode()
    assert "Look at it again" in stale
    assert orders(story) == 0
    client.post(address, {"digest": preview(story.run).digest})
    assert orders(story) == 1


@pytest.mark.spec("S4")
@pytest.mark.parametrize(
    ("role", "status"), [("operator", 200), ("admin", 200), ("viewer", 404), ("reviewer", 404), ("", 404)]
)
def test_only_who_may_operate_the_run_sees_the_page_or_orders(story: Story, role: str, status: int) -> None:
    person = make.user(**({role: story.project} if role else {"operator": make.project("Elsewhere")}))
    client, address = client_of(person), f"/runs/{story.run.pk}/rollback/"
    assert client.get(address).status_code == status
    trace = client.get(f"/runs/{story.run.pk}/").content.decode()
    assert (f"/runs/{story.run.pk}/gates/{story.gate().pk}/" in trace) is (role in ("operator", "reviewer", "admin"))
    assert (address in trace) is (status == 200)
    client.post(address, {"digest": preview(story.run).digest})
    assert orders(story) == (status == 200)
    assert Client().get(address).status_code == 302


@pytest.mark.spec("T2")
def test_the_api_shows_and_orders_the_same(story: Story) -> None:
    client, address = client_of(story.boss), f"/api/v1/runs/{story.run.pk}/rollback/"
    shown = client.get(address)
    assert shown.status_code == 200
    assert {one["path"] for one in shown.json()["view"]["files"]} >= {"a.txt", "by_command"}
    stale = client.post(address, {"digest": "1" * 64}, content_type="application/json")
    assert stale.status_code == 409
    accepted = client.post(address, {"digest": shown.json()["digest"]}, content_type="application/json")
    assert accepted.status_code == 202
    assert accepted.json()["kind"] == "rollback"
    story.drive()
    assert look(story.folder) == story.was
    report = client.get(f"/api/v1/runs/{story.run.pk}/result/").json()["report"]
    assert report["rollback"]["outcome"] == "undone"
    assert client.get(address).status_code == 409
    viewer = client_of(make.user(viewer=story.project))
    assert viewer.post(address, {"digest": shown.json()["digest"]}, content_type="application/json").status_code == 403


@pytest.mark.spec("T2", "Q4")
def test_the_api_of_gates_takes_the_choice(story: Story) -> None:
    gate = story.gate()
    body = {"verdict": "keep", "digest": gate.digest}
    client = client_of(story.boss)
    response = client.post(f"/api/v1/gates/{gate.pk}/decide/", body, content_type="application/json")
    assert response.status_code in (200, 201), response.content
    assert Decision.objects.get(gate=gate).verdict == "keep"


def test_a_failure_is_named_on_the_page_of_the_run(story: Story) -> None:
    (story.folder / "a.txt").write_text("theirs\n")
    story.say("roll_back")
    page = client_of(story.boss).get(f"/runs/{story.run.pk}/").content.decode()
    assert 'role="alert"' in page
    assert "could not be undone" in page
    assert "somebody else" in page
    assert "Not undone" in page
    assert f"/runs/{story.run.pk}/rollback/" in page


def test_after_a_whole_rollback_there_is_nothing_left_to_press(story: Story) -> None:
    story.say("roll_back")
    page = client_of(story.boss).get(f"/runs/{story.run.pk}/").content.decode()
    assert f"/runs/{story.run.pk}/rollback/" not in page
    assert "8 undone" in page
    assert (
        "nothing that could be undone" in client_of(story.boss).get(f"/runs/{story.run.pk}/rollback/").content.decode()
    )


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture
def open_page(browser: Any, live_site: str, story: Story) -> Any:
    contexts, broken = [], []

    def open_(address: str, theme: str = "light", width: int = 1280) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=theme, base_url=live_site)
        contexts.append(context)
        name = site_settings.SESSION_COOKIE_NAME
        value = client_of(story.boss).cookies[name].value
        context.add_cookies([{"name": name, "value": value, "url": live_site}])
        page = context.new_page()
        page.on("pageerror", lambda error: broken.append(str(error)))
        page.goto(address)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert broken == []


def test_a_person_rolls_back_from_the_card_and_reads_what_came_of_it(
    story: Story, open_page: Callable[..., Page]
) -> None:
    page = open_page(f"/review/{story.gate().pk}/")
    expect(page.get_by_role("heading", name="Roll back")).to_be_visible()
    expect(page.get_by_text("by_command").first).to_be_visible()
    sure = page.get_by_text("Roll back all that is listed above?")
    while not sure.is_visible():  # what was not on the screen comes first
        page.get_by_role("button", name="Roll back").click()
        page.wait_for_timeout(600)
    assert not Decision.objects.exists()
    page.get_by_role("button", name="Yes").click()
    expect(page.get_by_text("Rollback started").first).to_be_visible()
    story.drive()
    assert look(story.folder) == story.was
    page.goto(f"/runs/{story.run.pk}/")
    expect(page.get_by_text("8 undone")).to_be_visible()
    expect(page.get_by_role("heading", name="Undone for ana")).to_be_visible()


def test_a_person_orders_it_from_the_page_of_the_run(story: Story, open_page: Callable[..., Page]) -> None:
    page = open_page(f"/runs/{story.run.pk}/")
    page.get_by_role("link", name="Roll back").click()
    expect(page.get_by_role("heading", name="Roll this run back")).to_be_visible()
    page.get_by_role("button", name="Roll back").click()
    expect(page.get_by_text("Rollback started")).to_be_visible()
    story.drive()
    assert look(story.folder) == story.was
    assert Gate.objects.get(run=story.run, kind="rollback_choice").status == "void"


def test_the_pages_are_accessible_and_fit(story: Story, open_page: Callable[..., Page], theme: str, width: int) -> None:
    (story.folder / "a.txt").write_text("theirs\n")
    run = f"/runs/{story.run.pk}/"
    page = open_page(run, theme, width)
    for name in ("run", "confirm", "gate", "after"):
        if name == "after":
            story.say("roll_back")
        page.goto({"confirm": f"{run}rollback/", "gate": f"/review/{story.gate().pk}/"}.get(name, run))
        settled(page)
        if into := os.environ.get("PICTURES"):
            page.screenshot(path=f"{into}/rollback-{name}-{theme}-{width}.png", full_page=True)
        assert faults(page) == [], name
