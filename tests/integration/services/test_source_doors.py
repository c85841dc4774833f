"""The repository of a workspace by the API, the command line, Admin and its page: one rule (SPEC I7, S4, T2, T3)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from loops import jobs
from loops.models import AuditEvent, Setup, Workspace
from loops.services.people import ensure_groups
from tests import factories as make
from tests.integration.services.git_server import GitServer, git
from tests.unit.tools.harness import reachable

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("I7", "S4", "T2", "T3")]
OTHER = "https://example.com/other.git"


class Shop:
    def __init__(self, server: GitServer) -> None:
        self.server = server
        self.project = make.project("Shop")
        self.people = {
            "boss": make.superuser("boss"),
            "admin": make.user("adam", admin=self.project),
            "operator": make.user("olga", operator=self.project),
            "viewer": make.user("vera", viewer=self.project),
        }
        ensure_groups()
        admin = self.people["admin"]
        admin.groups.add(Group.objects.get(name="admin"))
        admin.is_staff = True
        admin.save()

    def client(self, who: str) -> APIClient:
        client = APIClient()
        client.force_authenticate(self.people[who])
        return client

    def browser(self, who: str) -> Client:
        client = Client()
        client.force_login(self.people[who])
        return client

    def type(self, who: str, *words: str) -> str:
        out = StringIO()
        name, words = self.people[who].username, (*words, "--project", self.project.slug)
        call_command("agentops", "--as", name, *words, stdout=out, stderr=StringIO())
        return out.getvalue()

    @property
    def row(self) -> Workspace:
        return Workspace.objects.get(name="shop")


@pytest.fixture
def shop(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """Jobs are done at once, by another thread."""
    settings.AGENTOPS_WORKSPACES = str(reachable(tmp_path) / "runs")

    def now(job: str, after: float = 0, **given: str) -> None:
        if job == "loops.setup":
            with ThreadPoolExecutor(1) as pool:
                pool.submit(by_a_worker, given["setup"]).result()

    monkeypatch.setattr("loops.storage.dispatch.dispatch", now)
    with GitServer(tmp_path).serving() as server:
        server.push({"shop.py": "first\n"}, message="Begin")
        yield Shop(server)


def by_a_worker(setup_id: str) -> bool:
    try:
        return jobs.set_up(setup_id)
    finally:
        connections.close_all()


def test_by_the_api_from_the_address_to_the_commit(shop: Shop) -> None:
    boss, given = shop.client("boss"), {"project": str(shop.project.pk), "name": "shop", "git_url": shop.server.url}
    answer = boss.post("/api/v1/workspaces/", {**given, "git_ref": "main"}, format="json")
    assert (answer.status_code, answer.json()["git_url"], answer.json()["refused"]) == (201, shop.server.url, "")
    address = f"/api/v1/workspaces/{shop.row.pk}/"
    fetch = shop.client("operator").get(f"{address}setup/").json()["fetch"]
    assert (fetch["state"], len(fetch["commit"]), fetch["hosts"]) == ("ready", 40, [f"127.0.0.1:{shop.server.port}"])
    at = shop.server.push({"shop.py": "second\n"})
    answer = shop.client("operator").post(f"{address}setup/", {"action": "fetch"}, format="json")
    assert (answer.status_code, answer.json()["fetch"]["commit"], answer.json()["latest"]) == (202, at, None)
    assert shop.client("viewer").post(f"{address}setup/", {"action": "fetch"}, format="json").status_code == 404
    admin = shop.client("admin")
    for change in ({"git_url": OTHER}, {"git_token_env": "SHOP_TOKEN"}, {"git_push_token_env": "SHOP_TOKEN"}):
        answer = admin.patch(address, change, format="json")
        assert (answer.status_code, "for a superuser" in answer.json()["errors"]["git_url"]) == (400, True)
    assert admin.patch(address, {"git_ref": "gone"}, format="json").status_code == 200
    assert admin.get(f"{address}setup/").json()["fetch"]["why_not"] == "It has no branch or tag gone."


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"git_url": "ext::sh -c id"}, "git_url"),
        ({"git_url": OTHER, "path": "/srv/shop"}, "git_url"),
        ({"git_url": OTHER, "git_ref": "--upload-pack=id"}, "git_ref"),
        ({"git_url": OTHER, "git_token_env": "ghp_4711"}, "git_token_env"),
        ({"git_url": OTHER, "git_push_token_env": "ghp_4711"}, "git_push_token_env"),
        ({"git_push_token_env": "SHOP_TOKEN"}, "git_push_token_env"),
        ({"git_url": OTHER, "copy_for_each_run": False}, "copy_for_each_run"),
    ],
)
def test_what_the_api_refuses(shop: Shop, sent: dict[str, Any], field: str) -> None:
    answer = shop.client("boss").post(
        "/api/v1/workspaces/", {"project": str(shop.project.pk), "name": "shop", **sent}, format="json"
    )
    assert (answer.status_code, list(answer.json()["errors"])) == (400, [field])
    assert not Workspace.objects.filter(name="shop").exists()


def test_at_a_terminal(shop: Shop) -> None:
    said = shop.type("boss", "workspace", "shop", "--git", shop.server.url, "--ref", "main")
    assert said.startswith(f"shop: {shop.server.url} at main, runs work on copies of it\nA worker fetches it")
    at = shop.server.push({"shop.py": "second\n"})
    assert f"fetched: {at}" in shop.type("operator", "workspace", "fetch", "shop")
    assert f"repository: {shop.server.url}, fetched: {at}" in shop.type("operator", "setup", "shop")
    for words in (("--git", OTHER), ("--push-token-env", "SHOP_TOKEN")):
        with pytest.raises(CommandError, match="for a superuser to say"):
            shop.type("admin", "workspace", "set", "shop", *words)
    assert "A worker fetches it" not in shop.type("boss", "workspace", "set", "shop", "--push-token-env", "SHOP_TOKEN")
    assert shop.row.may_be_pushed_to
    shop.type("admin", "workspace", "set", "shop", "--ref", "gone")
    with pytest.raises(CommandError, match="It has no branch or tag gone"):
        shop.type("admin", "workspace", "fetch", "shop")
    with pytest.raises(CommandError, match="like SHOP_TOKEN, not the token"):
        shop.type("boss", "workspace", "set", "shop", "--token-env", "ghp_4711")


def _fill(shop: Shop, who: str, **given: str) -> Any:
    row = Workspace.objects.filter(name="shop").first()
    address = reverse("admin:loops_workspace_change", args=[row.pk]) if row else reverse("admin:loops_workspace_add")
    fields = {"project": str(shop.project.pk), "name": "shop", "path": "", "copy_for_each_run": "on", **given}
    return shop.browser(who).post(address, fields)


def test_in_admin(shop: Shop) -> None:
    """Who is no superuser cannot type another address, and a forged one changes nothing."""
    assert _fill(shop, "admin", git_url=shop.server.url).status_code == 302
    assert (shop.row.git_url, Setup.objects.count()) == ("", 0)
    assert _fill(shop, "boss", git_url=shop.server.url, git_ref="main").status_code == 302
    assert (shop.row.may_be_fetched, Setup.objects.get().state) == (True, "ready")
    assert AuditEvent.objects.get(kind="workspace.source").actor == shop.people["boss"]
    assert _fill(shop, "admin", git_url=OTHER, git_token_env="SHOP_TOKEN", git_ref="other").status_code == 302
    assert _fill(shop, "admin", git_push_token_env="SHOP_TOKEN", git_ref="other").status_code == 302
    row = shop.row
    assert (row.git_url, row.git_token_env, row.git_ref) == (shop.server.url, "", "other")
    assert (row.git_push_token_env, row.may_be_fetched) == ("", True)
    answer = _fill(shop, "boss", git_url="https://ana:word@example.com/x", git_ref="..")
    assert answer.status_code == 200
    for said in ("No name, password or token in the address", "not the name of a branch"):
        assert said in answer.content.decode()
    page = shop.browser("boss").get(reverse("admin:loops_workspace_changelist")).content.decode()
    assert shop.server.url in page


def test_on_its_page(shop: Shop) -> None:
    shop.type("boss", "workspace", "shop", "--git", shop.server.url)
    at = shop.server.push({"shop.py": "second\n"})
    address = reverse("workspace-setup", args=[shop.row.pk])
    assert "you need the role" in shop.browser("viewer").post(address, {"fetch": "1"}, follow=True).content.decode()
    assert Setup.objects.count() == 1
    assert at in shop.browser("operator").post(address, {"fetch": "1"}, follow=True).content.decode()
    live = shop.browser("viewer").get(reverse("workspace-live", args=[shop.row.pk]), {"kind": "fetch"})
    assert f"Fetched {at}" in live.content.decode()
    assert "It has not run yet" not in live.content.decode()
    listed = shop.browser("viewer").get(reverse("workspaces")).content.decode()
    assert (shop.server.url in listed, "Ready" in listed) == (True, False), "its set-up is none"


@pytest.fixture
def folder(shop: Shop, settings: Any) -> Path:
    """Of a person, below a root: a repository with the branch `main`."""
    settings.WORKSPACE_ROOTS = [str(shop.server.root.parent)]
    return shop.server.folder


def test_a_commit_of_a_folder_by_the_api(shop: Shop, folder: Path) -> None:
    admin, at = shop.client("admin"), git(folder, "rev-parse", "HEAD")
    given = {"project": str(shop.project.pk), "name": "shop", "path": str(folder)}
    for ref, field in (("gone", "git_ref"), ("--upload-pack=id", "git_ref")):
        answer = admin.post("/api/v1/workspaces/", {**given, "git_ref": ref}, format="json")
        assert (answer.status_code, list(answer.json()["errors"])) == (400, [field])
    answer = admin.post("/api/v1/workspaces/", {**given, "git_ref": "main", "copy_for_each_run": False}, format="json")
    assert (answer.status_code, list(answer.json()["errors"])) == (400, ["copy_for_each_run"])
    answer = admin.post("/api/v1/workspaces/", {**given, "git_ref": "main"}, format="json")
    assert (answer.status_code, answer.json()["git_ref"], answer.json()["refused"]) == (201, "main", "")
    address = f"/api/v1/workspaces/{shop.row.pk}/"
    fetch = shop.client("operator").get(f"{address}setup/").json()["fetch"]
    assert (fetch["state"], fetch["commit"], fetch["hosts"]) == ("ready", at, [])
    assert admin.patch(address, {"git_ref": ""}, format="json").status_code == 200
    assert shop.row.is_fetched is False
    assert admin.patch(address, {"git_ref": at}, format="json").status_code == 200
    assert Setup.objects.filter(state="ready").count() == 2


def test_a_commit_of_a_folder_at_a_terminal(shop: Shop, folder: Path) -> None:
    at = git(folder, "rev-parse", "HEAD")
    said = shop.type("admin", "workspace", "shop", str(folder), "--ref", "main")
    assert said.startswith(f"shop: {folder} at main, runs work on copies of it\nA worker fetches it")
    assert f"fetched: {at}" in shop.type("operator", "workspace", "fetch", "shop")
    assert f"repository: {folder}, fetched: {at}" in shop.type("operator", "setup", "shop")
    with pytest.raises(CommandError, match="no branch, tag or commit gone"):
        shop.type("admin", "workspace", "set", "shop", "--ref", "gone")
    with pytest.raises(CommandError, match="leave that empty"):
        shop.type("admin", "workspace", "set", "shop", "--in-place")
    assert shop.type("admin", "workspace", "set", "shop", "--ref", "", "--in-place").endswith("change it in place\n")


def test_a_commit_of_a_folder_in_admin(shop: Shop, folder: Path) -> None:
    answer = _fill(shop, "admin", path=str(folder), git_ref="gone")
    assert "The repository has no branch, tag or commit gone." in answer.content.decode()
    answer = _fill(shop, "admin", path=str(shop.server.root), git_ref="main")
    assert "not the top of a git repository" in answer.content.decode()
    assert (answer.status_code, Workspace.objects.filter(name="shop").exists()) == (200, False)
    assert _fill(shop, "admin", path=str(folder), git_ref="main").status_code == 302
    assert (shop.row.git_ref, Setup.objects.get().state) == ("main", "ready")
    git(folder, "branch", "-m", "main", "trunk")
    assert _fill(shop, "admin", path=str(folder), git_ref="main", name="Shop").status_code == 302, "as it was stated"


def test_a_commit_of_a_folder_on_its_page(shop: Shop, folder: Path) -> None:
    """What is suggested comes of the commit, not of what lies in the folder."""
    shop.server.push({"pyproject.toml": "[tool.pytest.ini_options]\n", "tests/test_x.py": "def test_x(): pass\n"})
    (folder / "pyproject.toml").unlink()
    shop.type("admin", "workspace", "shop", str(folder), "--ref", "main")
    page = shop.browser("admin").get(reverse("workspace", args=[shop.row.pk])).content.decode()
    assert (f"{folder} @ main" in page, "pytest" in page) == (True, True)
    assert "what the files of the folder suggest" in page
