"""`agentops.toml` on the page of its workspace and in New task: seen whole, accepted as it was seen (SPEC X2, I7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as site_settings
from django.urls import reverse
from playwright.sync_api import expect

from loops.models import Run, Workspace
from loops.services import repository_files as service
from loops.workspaces.repository_file import parse
from tests import factories as make
from tests.web.browsing import faults

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("X2", "I7", "S4")]
FILE = """\
[setup]
command = "npm ci"
hosts = ["registry.npmjs.org"]

[tests]
command = "npm test"

[files]
protected = ["LICENSE"]

[[criteria]]
text = "No fault of style"
command = "npm run lint"
"""
HOSTILE = "[tests]\ncommand = '<script>alert(1)</script>\u202etxt'\n"


@pytest.fixture
def shop(house: Any, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    settings.WORKSPACE_ROOTS = (str(tmp_path),)
    monkeypatch.setattr("loops.storage.dispatch.dispatch", lambda job, after=0, **given: None)
    (tmp_path / "shop").mkdir()
    made: Workspace = Workspace.objects.create(project=house.project, name="shop", path=str(tmp_path / "shop"))
    return made


def write(workspace: Workspace, text: str) -> str:
    """The hash of it."""
    Path(workspace.path, "agentops.toml").write_text(text)
    return parse(text.encode()).sha256


def page_of(house: Any, workspace: Workspace, who: str = "admin") -> str:
    text: str = house.client(who).get(reverse("workspace", args=[workspace.pk])).content.decode()
    return text


def decide(house: Any, workspace: Workspace, who: str = "admin", **given: str) -> str:
    address = reverse("workspace-toml", args=[workspace.pk])
    text: str = house.client(who).post(address, given, follow=True).content.decode()
    return text


def test_a_workspace_without_one_does_not_speak_of_it(house: Any, shop: Workspace) -> None:
    assert "agentops.toml" not in page_of(house, shop)


def test_it_is_accepted_as_it_was_seen(house: Any, shop: Workspace) -> None:
    seen = write(shop, FILE)
    assert f'name="sha256" value="{seen}"' in page_of(house, shop)
    write(shop, FILE + "# and more\n")
    assert "not what you looked at any more" in decide(house, shop, sha256=seen)
    shop.refresh_from_db()
    assert (shop.toml_by, shop.setup_command) == (None, "")
    said = decide(house, shop, sha256=write(shop, FILE))
    assert "is used: " in said
    shop.refresh_from_db()
    assert (shop.setup_command, shop.protected) == ("npm ci", ["LICENSE"])


@pytest.mark.parametrize("who", ["viewer", "reviewer", "operator"])
def test_others_see_it_and_decide_nothing(house: Any, shop: Workspace, who: str) -> None:
    sha256 = write(shop, FILE)
    page = page_of(house, shop, who)
    assert ("npm run lint" in page, 'name="sha256"' in page) == (True, False)
    assert "you need the role admin" in decide(house, shop, who, sha256=sha256)
    assert "you need the role admin" in decide(house, shop, who, sha256=sha256, decline="1")
    shop.refresh_from_db()
    assert (shop.toml_by, shop.toml_declined) == (None, "")


def test_an_admin_is_offered_no_hosts_and_gets_none_by_asking(house: Any, shop: Workspace) -> None:
    chief, sha256 = make.user("carla", admin=house.project), write(shop, FILE)
    client = type(house.client("admin"))()
    client.force_login(chief)
    assert 'name="allow"' not in client.get(reverse("workspace", args=[shop.pk])).content.decode()
    answer = client.post(reverse("workspace-toml", args=[shop.pk]), {"sha256": sha256, "allow": "1"}, follow=True)
    assert "you need to be a superuser" in answer.content.decode()
    shop.refresh_from_db()
    assert (shop.toml_by, shop.granted_hosts) == (None, [])


def test_words_of_a_repository_are_text(house: Any, shop: Workspace) -> None:
    sha256 = write(shop, HOSTILE)
    for _ in range(2):
        page = page_of(house, shop).partition('id="how-title"')[0]
        assert ("<script>alert(1)" in page, "\u202e" in page, "alert(1)" in page) == (False, False, True)
        decide(house, shop, sha256=sha256)
    page = house.client("operator").get(reverse("new-task")).content.decode()
    assert ("<script>alert(1)" in page, "\u202e" in page, "alert(1)" in page) == (False, False, True)


def test_a_malformed_one_is_named_with_its_line(house: Any, shop: Workspace) -> None:
    Path(shop.path, "agentops.toml").write_text("[setup]\ncomand = 'make'\n")
    page = page_of(house, shop)
    assert "Line 2: &#x27;setup.comand&#x27; is not a key that it may have" in page
    assert 'name="sha256"' not in page


@pytest.fixture
def open_page(browser: Any, live_site: str, house: Any) -> Any:
    contexts, broken = [], list[str]()

    def open_(address: str, who: str = "admin", theme: str = "light", width: int = 1280) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 844}, color_scheme=theme, base_url=live_site, reduced_motion="reduce"
        )
        contexts.append(context)
        name = site_settings.SESSION_COOKIE_NAME
        context.add_cookies([{"name": name, "value": house.client(who).cookies[name].value, "url": live_site}])
        page = context.new_page()
        page.on("pageerror", lambda error: broken.append(str(error)))
        page.goto(address)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert broken == []


def test_from_the_question_to_the_next_one(shop: Workspace, open_page: Any) -> None:
    write(shop, FILE)
    page = open_page(reverse("workspace", args=[shop.pk]))
    panel = page.locator("#toml")
    expect(panel).to_contain_text("Nobody accepted agentops.toml yet")
    expect(panel.locator("table.grid")).to_contain_text("No fault of style :: npm run lint")
    page.get_by_label("Let its set-up reach registry.npmjs.org").check()
    panel.get_by_role("button", name="Accept").click()
    expect(panel).to_contain_text("agentops.toml is used")
    expect(page.get_by_label("Set-up command")).to_have_value("npm ci")
    expect(page.get_by_label("Hosts that the set-up may reach")).to_have_value("registry.npmjs.org")
    write(shop, FILE.replace("npm ci", "npm install"))
    page.reload()
    expect(panel).to_contain_text("agentops.toml changed since")
    expect(panel.locator(".diff-box")).to_contain_text('command = "npm install"')
    panel.get_by_role("button", name="Keep the accepted version").click()
    expect(panel).to_contain_text("was declined as it is now")
    expect(page.get_by_label("Set-up command")).to_have_value("npm ci")
    panel.get_by_role("button", name="Stop using it").click()
    expect(panel).to_contain_text("Nobody accepted agentops.toml yet")


def test_a_new_task_begins_with_its_criteria_and_says_what_is_not_used(
    house: Any, shop: Workspace, open_page: Any
) -> None:
    make.agent(house.project, name="Engineer")
    service.accept(actor=make.superuser("ana"), workspace=shop, sha256=write(shop, FILE))
    write(shop, FILE + "# and more\n")
    page = open_page("/tasks/new/", who="operator")
    page.get_by_label("Workspace").select_option("shop")
    commands = page.locator("#criteria input[name=command]")
    expect(commands.nth(0)).to_have_value("npm test")
    expect(commands.nth(1)).to_have_value("npm run lint")
    expect(page.locator("#preview")).to_contain_text("agentops.toml changed since ana accepted it")
    page.get_by_role("button", name="Add a criterion").click()
    page.locator("#criteria input[name=criterion]").last.fill("Mine")
    page.get_by_label("Workspace").select_option("")
    expect(page.locator("#criteria input[name=criterion]").first).to_have_value("Mine")
    page.get_by_label("Workspace").select_option("shop")
    expect(commands.nth(0)).to_have_value("")
    page.get_by_label("Goal").fill("Mend it")
    page.get_by_role("button", name="Start the run").click()
    expect(page.get_by_text("agentops.toml changed since ana accepted it")).to_be_visible()
    assert Run.objects.latest("pk").task.criteria == [{"text": "Mine", "command": ""}]


def test_it_has_no_accessibility_faults_and_fits(shop: Workspace, open_page: Any, theme: str, width: int) -> None:
    write(shop, FILE + f"# {'x' * 300}\n[[criteria]]\ntext = '{'y' * 300}'\n")
    page = open_page(reverse("workspace", args=[shop.pk]), theme=theme, width=width)
    assert faults(page) == []
    service.accept(actor=make.superuser("ana"), workspace=shop, sha256=write(shop, FILE))
    write(shop, FILE.replace("npm ci", "npm install"))
    page.reload()
    assert faults(page) == []
