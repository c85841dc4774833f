"""Workspaces in a browser: state a set-up, run it, see its log while it runs, and what it asked of the network."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as site_settings
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from loops.models import AuditEvent, Setup, Workspace
from loops.services.people import ensure_groups
from loops.workspaces.configured import WORKSPACES
from tests import factories as make
from tests.web.browsing import faults

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("J4", "I7", "S4")]
HOSTILE = "<script>alert(1)</script>\u202etxt"
LOG = "Collecting six\nSuccessfully installed six-1.17.0\n"
REQUESTS = [
    {"host": "pypi.org", "count": 3, "sent": 1263, "received": 21053, "why_not": ""},
    {"host": "example.com", "count": 1, "sent": 0, "received": 0, "why_not": "this host is not on the list"},
]


@pytest.fixture
def shop(house: Any, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    settings.WORKSPACE_ROOTS = (str(tmp_path),)
    monkeypatch.setattr("loops.storage.dispatch.dispatch", lambda job, after=0, **given: None)
    (tmp_path / "shop").mkdir()
    made: Workspace = Workspace.objects.create(project=house.project, name="shop", path=str(tmp_path / "shop"))
    return made


def made(workspace: Workspace, **fields: Any) -> Setup:
    row: Setup = Setup.objects.create(
        workspace=workspace, command="make", until=timezone.now() + timedelta(minutes=5), **fields
    )
    return row


def post(client: Client, workspace: Workspace, **given: str) -> Any:
    return client.post(reverse("workspace", args=[workspace.pk]), given, follow=True)


def test_an_admin_states_it_and_a_superuser_lets_it_reach_hosts(house: Any, shop: Workspace) -> None:
    chief = Client()
    chief.force_login(make.user("carla", admin=house.project))
    assert "Saved." in post(chief, shop, command="npm ci\r\n", tests="npm test").content.decode()
    answer = post(chief, shop, command="npm ci", tests="npm test", hosts="registry.npmjs.org")
    assert (answer.status_code, "for a superuser to say" in answer.content.decode()) == (422, True)
    post(house.client("admin"), shop, command="npm ci", tests="npm test", hosts="registry.npmjs.org\r\nnexus:8081")
    shop.refresh_from_db()
    assert (shop.setup_command, shop.test_command) == ("npm ci", "npm test")
    assert shop.granted_hosts == ["nexus:8081", "registry.npmjs.org"]
    said = post(chief, shop, command="npm install", tests="npm test").content.decode()
    assert "may not reach nexus:8081, registry.npmjs.org any more" in said


def test_an_admin_sets_variables_and_a_superuser_names_secrets(house: Any, shop: Workspace) -> None:
    chief = Client()
    chief.force_login(make.user("carla", admin=house.project))
    assert "Saved." in post(chief, shop, command="npm ci", variables="TZ=UTC\r\nCI=1\r\n").content.decode()
    answer = post(chief, shop, secrets="SHOP_TOKEN")
    assert (answer.status_code, "which secrets it gets, is for a superuser" in answer.content.decode()) == (422, True)
    said = post(house.client("admin"), shop, secrets="SHOP_TOKEN\r\nNPM_TOKEN").content.decode()
    assert (">CI=1\nTZ=UTC</textarea>" in said, ">NPM_TOKEN\nSHOP_TOKEN</textarea>" in said) == (True, True)
    shop.refresh_from_db()
    assert (shop.setup_command, shop.variables) == ("npm ci", {"CI": "1", "TZ": "UTC"}), "what is not sent stays"
    page = chief.get(reverse("workspace", args=[shop.pk])).content.decode()
    assert ("NPM_TOKEN, SHOP_TOKEN" in page, 'name="secrets"' in page) == (True, False)
    assert "may not get NPM_TOKEN, SHOP_TOKEN any more" in post(chief, shop, variables="CI=0").content.decode()


@pytest.mark.parametrize(
    ("variables", "why"),
    [("CI=1\nLD_PRELOAD=x.so", "LD_PRELOAD cannot be set"), ("CI=1\nno sign", "is no variable: write NAME=value")],
)
def test_refused_variables_come_back_with_every_word(
    house: Any, shop: Workspace, open_page: Any, variables: str, why: str
) -> None:
    page = open_page(reverse("workspace", args=[shop.pk]))
    page.get_by_label("Set-up command").fill("make all")
    page.get_by_label("Variables").fill(variables)
    page.get_by_label("Secrets for the set-up").fill("SHOP_TOKEN")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text(why)).to_be_visible()
    expect(page.get_by_label("Variables")).to_have_value(variables)
    expect(page.get_by_label("Set-up command")).to_have_value("make all")
    expect(page.get_by_label("Secrets for the set-up")).to_have_value("SHOP_TOKEN")
    page.get_by_label("Variables").fill("CI=1")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    expect(page.get_by_label("Variables")).to_have_value("CI=1")
    shop.refresh_from_db()
    assert (shop.variables, shop.granted_secrets) == ({"CI": "1"}, ["SHOP_TOKEN"])


def test_what_is_refused_comes_back_with_every_word(house: Any, shop: Workspace) -> None:
    answer = post(house.client("admin"), shop, command="make all", tests="make test", hosts="*.pypi.org")
    said = answer.content.decode()
    assert answer.status_code == 422
    assert "is no host: write its name, such as pypi.org" in said
    for word in ("make all", "make test", "*.pypi.org"):
        assert word in said
    assert AuditEvent.objects.filter(kind="workspace.changed").count() == 0


def test_what_became_of_its_set_up_stands_before_the_form(house: Any, shop: Workspace) -> None:
    """Whoever comes to see why it failed does not scroll for it; the log of one that is ready is folded."""
    Workspace.objects.filter(pk=shop.pk).update(setup_command="make")
    address = reverse("workspace", args=[shop.pk])
    page = house.client("operator").get(address).content.decode()
    assert page.index('id="command"') < page.index("It has not run yet")
    row = made(shop, state="failed", log=LOG, why_not="The command ended with exit code 2.", ended_at=timezone.now())
    page = house.client("operator").get(address).content.decode()
    assert page.index("ended with exit code 2") < page.index('id="command"')
    assert '<details class="output" open><summary>Log' in page
    Setup.objects.filter(pk=row.pk).update(state="ready")
    assert '<details class="output"><summary>Log' in house.client("operator").get(address).content.decode()


def test_what_its_files_suggest_is_proposed_until_something_is_stated(
    house: Any, shop: Workspace, open_page: Any
) -> None:
    (Path(shop.path) / "requirements.txt").write_text("six\n")
    (Path(shop.path) / "test_shop.py").write_text("import unittest\n")
    page = open_page(reverse("workspace", args=[shop.pk]))
    expect(page.get_by_text("Nothing is saved yet")).to_contain_text("test_shop.py")
    assert page.get_by_label("Set-up command").input_value().endswith("pip install -r requirements.txt")
    expect(page.get_by_label("Test command")).to_have_value("python3 -m unittest")
    expect(page.get_by_label("Hosts that the set-up may reach")).to_have_value("pypi.org\nfiles.pythonhosted.org")
    shop.refresh_from_db()
    assert (shop.setup_command, shop.test_command, shop.granted_hosts) == ("", "", [])
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    expect(page.get_by_text("Nothing is saved yet")).to_have_count(0)
    shop.refresh_from_db()
    assert (shop.test_command, shop.granted_hosts) == ("python3 -m unittest", ["files.pythonhosted.org", "pypi.org"])


def test_nothing_is_read_of_a_folder_that_may_not_be_used_or_for_who_may_not_change_it(
    house: Any, shop: Workspace, settings: Any
) -> None:
    (Path(shop.path) / "requirements.txt").write_text("six\n")
    address = reverse("workspace", args=[shop.pk])
    assert "requirements.txt" in house.client("admin").get(address).content.decode()
    assert "requirements.txt" not in house.client("operator").get(address).content.decode()
    settings.WORKSPACE_ROOTS = ()
    assert "requirements.txt" not in house.client("admin").get(address).content.decode()


def test_a_new_workspace_leads_to_what_comes_next(house: Any, shop: Workspace) -> None:
    """In Admin, where the only project is chosen already."""
    address = reverse("admin:loops_workspace_add")
    assert f'<option value="{house.project.pk}" selected>' not in house.client("admin").get(address).content.decode()
    ensure_groups()
    chief, browser = make.user("carla", admin=house.project), Client()
    chief.groups.add(Group.objects.get(name="admin"))
    chief.is_staff = True
    chief.save()
    browser.force_login(chief)
    assert f'<option value="{house.project.pk}" selected>' in browser.get(address).content.decode()
    given = {"project": house.project.pk, "name": "web", "path": shop.path, "copy_for_each_run": "on"}
    answer = browser.post(address, given, follow=True)
    row = Workspace.objects.get(name="web")
    assert answer.redirect_chain == [(reverse("workspace", args=[row.pk]), 302)]
    page = answer.content.decode()
    assert ("Workspace web saved." in page, f"?workspace={row.pk}" in page) == (True, True)
    answer = browser.post(address, {**given, "name": "again", "_addanother": "1"})
    assert answer["Location"] == address


@pytest.mark.parametrize("who", ["viewer", "reviewer", "operator"])
def test_others_see_it_and_change_nothing(house: Any, shop: Workspace, who: str) -> None:
    answer = post(house.client(who), shop, command="rm -rf /", tests="")
    assert (answer.status_code, "you need the role admin" in answer.content.decode()) == (422, True)
    shop.refresh_from_db()
    assert shop.setup_command == ""
    page = house.client(who).get(reverse("workspace", args=[shop.pk])).content.decode()
    assert ("readonly" in page, ">Save<" in page) == (True, False)


def test_who_may_run_and_stop_it(house: Any, shop: Workspace) -> None:
    Workspace.objects.filter(pk=shop.pk).update(setup_command="make")
    address = reverse("workspace-setup", args=[shop.pk])
    assert "you need the role" in house.client("viewer").post(address, follow=True).content.decode()
    assert Setup.objects.count() == 0
    assert "Waiting for a worker" in house.client("operator").post(address, follow=True).content.decode()
    assert "under way already" in house.client("operator").post(address, follow=True).content.decode()
    said = house.client("operator").post(address, {"stop": "1"}, follow=True).content.decode()
    assert "Stopped by olga." in said


def test_words_of_others_are_text(house: Any, shop: Workspace) -> None:
    Workspace.objects.filter(pk=shop.pk).update(name=HOSTILE, setup_command=HOSTILE, test_command=HOSTILE)
    requests = [{"host": HOSTILE, "count": 1, "sent": 0, "received": 0, "why_not": HOSTILE}]
    made(shop, state="failed", log=HOSTILE, why_not=HOSTILE, requests=requests, machine=HOSTILE)
    for address in (reverse("workspace", args=[shop.pk]), reverse("workspaces"), reverse("new-task")):
        page = house.client("admin").get(address).content.decode()
        assert "<script>alert(1)" not in page
    page = house.client("admin").get(reverse("workspace", args=[shop.pk])).content.decode()
    assert page.count("\u202e") == 2, "as it is in the two fields alone, where it can be put right"


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


def test_from_the_command_to_the_log(house: Any, shop: Workspace, open_page: Any) -> None:
    """The worker is played: what it writes is seen without a reload."""
    page = open_page("/workspaces/")
    page.get_by_role("link", name="shop").click()
    page.get_by_label("Set-up command").fill("python3 -m venv .venv && .venv/bin/pip install six")
    page.get_by_label("Test command").fill("python3 -m pytest -q")
    page.get_by_label("Hosts that the set-up may reach").fill("pypi.org\nfiles.pythonhosted.org")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    expect(page.locator("#setup")).to_contain_text("It has not run yet")
    page.get_by_role("button", name="Run it now").click()
    expect(page.locator("#setup")).to_contain_text("Waiting for a worker")
    row = Setup.objects.get()
    assert row.hosts == ["files.pythonhosted.org", "pypi.org"]
    Setup.objects.filter(pk=row.pk).update(state="running", log="Collecting six\n")
    expect(page.locator("#setup pre")).to_have_text("Collecting six\n")
    Setup.objects.filter(pk=row.pk).update(
        state="ready", log=LOG, requests=REQUESTS, files=1_204, size=9_100_000, machine="one", ended_at=timezone.now()
    )
    expect(page.locator("#setup")).to_contain_text("Ready: 1,204 files")
    expect(page.locator("#setup tbody tr")).to_have_count(2)
    expect(page.get_by_role("button", name="Run it again")).to_be_visible()


def test_a_repository_is_fetched_and_its_commit_is_seen(house: Any, shop: Workspace, open_page: Any) -> None:
    """The worker is played here too."""
    boss, at = make.superuser("ana"), "4711" * 10
    given = {"path": "", "git_url": "https://example.com/team/shop.git", "git_ref": "main"}
    row = WORKSPACES.change(actor=boss, row=shop, given=given)
    Setup.objects.filter(workspace=row).update(state="stopped", why_not="Stopped by ana.", ended_at=timezone.now())
    page = open_page("/workspaces/", who="operator")
    expect(page.locator("table")).to_contain_text("https://example.com/team/shop.git @ main")
    page.get_by_role("link", name="shop").click()
    page.get_by_role("button", name="Fetch").click()
    expect(page.locator("#fetch")).to_contain_text("Waiting for a worker")
    expect(page.locator("#fetch").get_by_role("button", name="Stop it")).to_be_visible()
    expect(page.locator("#setup")).to_contain_text("There is no set-up command")
    latest = row.latest("fetch")
    Setup.objects.filter(pk=latest.pk).update(
        state="ready", key=at, files=12, size=4_711, machine="one", log=f"Fetched {at}", ended_at=timezone.now()
    )
    expect(page.locator("#fetch")).to_contain_text(f"Commit {at}: 12 files")
    expect(page.locator("#fetch")).to_contain_text("on worker one")


def test_words_of_a_repository_are_text(house: Any, shop: Workspace) -> None:
    Workspace.objects.filter(pk=shop.pk).update(path="", git_url=f"https://x/{HOSTILE}", git_ref=HOSTILE)
    made(shop, kind="fetch", state="ready", key=HOSTILE, log=HOSTILE, machine=HOSTILE)
    for address in (reverse("workspace", args=[shop.pk]), reverse("workspaces")):
        page = house.client("admin").get(address).content.decode()
        assert ("<script>alert(1)" in page, "\u202e" in page) == (False, False)


def test_it_has_no_accessibility_faults_and_fits(shop: Workspace, open_page: Any, theme: str, width: int) -> None:
    Workspace.objects.filter(pk=shop.pk).update(setup_command=f"pip install {'x' * 300}", test_command="make test")
    made(shop, state="stopped", why_not="Stopped by olga.", ended_at=timezone.now())
    made(shop, state="failed", log=LOG * 40, requests=REQUESTS, why_not="The command ended with exit code 1.")
    page = open_page(reverse("workspace", args=[shop.pk]), theme=theme, width=width)
    page.get_by_text("Earlier set-ups").click()
    assert faults(page) == []
    address = f"https://example.com/{'team/' * 30}shop.git"
    Workspace.objects.filter(pk=shop.pk).update(path="", git_url=address, git_ref="main")
    made(shop, kind="fetch", state="ready", key="4711" * 10, log=LOG * 40, requests=REQUESTS)
    page.reload()
    assert faults(page) == []
    page.goto(reverse("workspaces"))
    expect(page.get_by_role("link", name="shop")).to_be_visible()
    assert faults(page) == []


def test_a_new_task_is_judged_by_its_tests_until_somebody_says_otherwise(
    house: Any, shop: Workspace, open_page: Any
) -> None:
    make.agent(house.project, name="Engineer")
    Workspace.objects.filter(pk=shop.pk).update(test_command="make test")
    page = open_page("/tasks/new/", who="operator")
    command = page.get_by_label("Command that proves criterion 1")
    page.get_by_label("Workspace").select_option("shop")
    expect(command).to_have_value("make test")
    expect(page.get_by_label("Criterion 1", exact=True)).to_have_value("The tests pass")
    page.get_by_label("Workspace").select_option("")
    expect(command).to_have_value("")
    command.fill("my own")
    page.get_by_label("Workspace").select_option("shop")
    expect(command).to_have_value("my own")
