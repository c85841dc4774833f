"""The set-up of a workspace by the API and the command line, by the rules of its page (SPEC J4, S4, T2, T3)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from rest_framework.test import APIClient

from loops import jobs
from loops.management import setups as verb
from loops.models import AuditEvent, Setup, Workspace
from tests import factories as make
from tests.unit.tools.harness import reachable

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("J4", "S4", "T2", "T3")]
MAKE = "mkdir .venv && echo installed | tee .venv/it"

NOTHING = {"variables": {}, "hosts": [], "secrets": []}


class Shop:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.project = make.project("Shop")
        self.people = {
            "boss": make.superuser("boss"),
            "admin": make.user("adam", admin=self.project),
            "operator": make.user("olga", operator=self.project),
            "viewer": make.user("vera", viewer=self.project),
            "outsider": make.user("otto", operator=make.project("Elsewhere")),
        }
        self.row = Workspace.objects.create(project=self.project, name="shop", path=str(folder))

    def client(self, who: str) -> APIClient:
        client = APIClient()
        client.force_authenticate(self.people[who])
        return client

    @property
    def address(self) -> str:
        return f"/api/v1/workspaces/{self.row.pk}/setup/"

    def type(self, who: str, *words: str) -> tuple[str, str]:
        out, err = StringIO(), StringIO()
        name = self.people[who].username
        call_command(
            "agentops", "--as", name, "setup", "shop", "--project", self.project.slug, *words, stdout=out, stderr=err
        )
        return out.getvalue(), err.getvalue()


@pytest.fixture
def shop(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Jobs are done at once, by another thread."""
    settings.AGENTOPS_WORKSPACES = str(reachable(tmp_path) / "runs")
    settings.WORKSPACE_ROOTS = [str(tmp_path)]

    def now(job: str, after: float = 0, **given: str) -> None:
        if job == "loops.setup":
            with ThreadPoolExecutor(1) as pool:
                pool.submit(by_a_worker, given["setup"]).result()

    monkeypatch.setattr("loops.storage.dispatch.dispatch", now)
    return Shop(tmp_path / "shop")


def by_a_worker(setup_id: str) -> bool:
    try:
        return jobs.set_up(setup_id)
    finally:
        connections.close_all()


def test_by_the_api_from_the_command_to_the_log(shop: Shop) -> None:
    admin = shop.client("admin")
    empty = {"command": "", "tests": "", "latest": None, "fetch": None} | NOTHING
    assert admin.get(shop.address).json() == empty
    answer = admin.patch(shop.address, {"command": MAKE, "tests": "make test"}, format="json")
    assert (answer.status_code, answer.json()["command"]) == (200, MAKE)
    answer = shop.client("operator").post(shop.address, {"action": "run"}, format="json")
    assert answer.status_code == 202
    latest = admin.get(shop.address).json()["latest"]
    assert (latest["state"], latest["log"], latest["files"]) == ("ready", "installed\n", 1)
    answer = shop.client("boss").patch(shop.address, {"hosts": ["PyPI.org"]}, format="json")
    assert (answer.json()["command"], answer.json()["hosts"]) == (MAKE, ["pypi.org"])


def test_variables_and_names_of_secrets_by_the_api(shop: Shop) -> None:
    sent = {"variables": {"TZ": "UTC", "CI": "1"}}
    assert shop.client("admin").patch(shop.address, sent, format="json").json()["variables"] == sent["variables"]
    assert shop.client("admin").patch(shop.address, {"tests": "make"}, format="json").json()["variables"], "they stay"
    answer = shop.client("boss").patch(shop.address, {"secrets": ["SHOP_TOKEN"]}, format="json")
    assert (answer.json()["secrets"], answer.json()["tests"]) == (["SHOP_TOKEN"], "make")
    assert shop.client("admin").patch(shop.address, {"variables": {}}, format="json").json()["secrets"] == []


@pytest.mark.parametrize(
    ("who", "reads", "changes", "runs"),
    [("admin", 200, 200, 202), ("operator", 200, 403, 202), ("viewer", 404, 404, 404), ("outsider", 404, 404, 404)],
)
def test_who_may_by_the_api(shop: Shop, who: str, reads: int, changes: int, runs: int) -> None:
    client = shop.client(who)
    Workspace.objects.update(setup_command=MAKE)
    assert client.get(shop.address).status_code == reads
    assert client.patch(shop.address, {"tests": "true"}, format="json").status_code == changes
    assert client.patch(shop.address, {"variables": {"CI": "1"}}, format="json").status_code == changes
    assert client.patch(shop.address, {"secrets": ["SHOP_TOKEN"]}, format="json").status_code == {200: 409}.get(
        changes, changes
    )
    assert client.post(shop.address, {"action": "run"}, format="json").status_code == runs
    assert Setup.objects.count() == (runs == 202)


@pytest.mark.spec("I7")
@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [
        ({"hosts": ["pypi.org"]}, 409, "for a superuser to say"),
        ({"command": "x" * 4001}, 409, "at most 4,000"),
        ({"tests": "a\nb"}, 409, "one line"),
        ({"command": 7}, 400, "Not a valid string"),
        ({"hosts": "pypi.org"}, 400, "list"),
        ({"hosts": ["*.org"]}, 409, "is no host"),
        ({"other": 1}, 400, "other"),
        ({"secrets": ["SHOP_TOKEN"]}, 409, "which secrets it gets, is for a superuser to say"),
        ({"variables": {"LD_PRELOAD": "x.so"}}, 409, "LD_PRELOAD cannot be set"),
        ({"variables": {"A": "b\nc"}}, 409, "one line of printable characters"),
        ({"variables": {"A": 7}}, 400, "Not a valid string"),
        ({"variables": ["A=1"]}, 400, "dictionary"),
    ],
)
def test_what_is_refused_by_the_api(shop: Shop, sent: dict[str, Any], status: int, said: str) -> None:
    answer = shop.client("admin").patch(shop.address, sent, format="json")
    assert (answer.status_code, said in answer.content.decode()) == (status, True), answer.content
    shop.row.refresh_from_db()
    assert (shop.row.setup_command, shop.row.granted_hosts) == ("", [])


@pytest.mark.parametrize("sent", [{}, {"action": "dance"}, {"action": "run"}])
def test_what_cannot_be_run_is_said(shop: Shop, sent: dict[str, Any]) -> None:
    """The last for want of a command."""
    answer = shop.client("admin").post(shop.address, sent, format="json")
    assert answer.status_code in (400, 409), answer.content


def test_at_a_terminal(shop: Shop) -> None:
    assert shop.type("boss") == ("set-up: none\ntests: none\nhosts: none\n", "")
    out, _ = shop.type("boss", "--command", MAKE, "--tests", "make test", "--host", "pypi.org", "--host", "nexus:8081")
    assert out == f"set-up: {MAKE}\ntests: make test\nhosts: nexus:8081, pypi.org\n"
    out, err = shop.type("admin", "--command", f"{MAKE} && true")
    assert "hosts: none" in out
    assert "may not reach nexus:8081, pypi.org any more" in err
    out, _ = shop.type("operator", "--run")
    assert out.startswith("installed\nready: 1 files in ")
    assert "latest: ready: 1 files" in shop.type("operator")[0]
    assert shop.type("operator", "--stop")[0] == "No set-up is under way.\n"


def test_variables_and_names_of_secrets_at_a_terminal(shop: Shop) -> None:
    out, _ = shop.type("admin", "--variable", "TZ=UTC", "--variable", "CI=1")
    assert out == "set-up: none\ntests: none\nvariable: CI=1\nvariable: TZ=UTC\nhosts: none\n"
    with pytest.raises(CommandError, match="for a superuser to say"):
        shop.type("admin", "--secret", "SHOP_TOKEN")
    assert shop.type("boss", "--secret", "SHOP_TOKEN")[0].endswith("hosts: none\nsecrets: SHOP_TOKEN\n")
    assert "secrets" not in shop.type("boss", "--no-secrets")[0]
    for words, why in (("CI", "write NAME=value"), ("PATH=.", "PATH cannot be set")):
        with pytest.raises(CommandError, match=why):
            shop.type("admin", "--variable", words)
    with pytest.raises(CommandError, match="you need the role admin"):
        shop.type("operator", "--no-variables")
    assert shop.type("admin", "--no-variables")[0] == "set-up: none\ntests: none\nhosts: none\n"


def test_what_fails_at_a_terminal_is_said(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="exit code 3"):
        shop.type("boss", "--command", "exit 3", "--run")
    with pytest.raises(CommandError, match="you need the role admin"):
        shop.type("operator", "--tests", "true")
    with pytest.raises(CommandError, match="no workspace"):
        call_command("agentops", "setup", "nowhere", "--project", shop.project.slug)
    monkeypatch.setattr("loops.storage.dispatch.dispatch", lambda job, after=0, **given: None)
    monkeypatch.setattr(verb, "WORKER_S", 0)
    monkeypatch.setattr(verb.follow, "__defaults__", (0,))
    with pytest.raises(CommandError, match="No worker has taken it"):
        shop.type("boss", "--run")
    assert AuditEvent.objects.filter(kind="workspace.setup").count() == 2
