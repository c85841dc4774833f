"""Who gets which page: the permission is the lookup, so what is not yours does not exist (attack 43)."""

from typing import Any

import pytest
from django.urls import reverse

from agentops.management.commands import shots
from gates.models import Decision, Gate
from loops.models import MailboxItem, Run
from tests import factories as make
from tests.web.doors import DOORS

RUN_PAGES = [
    "run",
    "run-earlier",
    "run-steps",
    "run-lifecycle",
    "run-files",
    "run-conversation",
    "run-provenance",
    "run-raw",
]
PAGES = [f"/{one}" for one, row in DOORS.items() if row.startswith("GET 302 ") and "<" not in one and "." not in one]
OK, GONE, LOGIN, NO = 200, 404, 302, 403
pytestmark = pytest.mark.spec("S4")


@pytest.mark.parametrize("name", RUN_PAGES)
@pytest.mark.parametrize(
    ("who", "status"),
    [("operator", OK), ("reviewer", OK), ("viewer", OK), ("admin", OK), ("outsider", GONE), ("anonymous", LOGIN)],
)
def test_pages_of_a_run(house, name, who, status):
    make.step(house.run, 1)
    query = {"run-earlier": "?before=5", "run-steps": "?first=1&last=5"}.get(name, "")
    assert house.client(who).get(reverse(name, args=[house.run.pk]) + query).status_code == status


@pytest.mark.parametrize("address", PAGES)
def test_log_in_comes_first_and_leads_back(house, address):
    response = house.client("anonymous").get(address)
    assert response.status_code == LOGIN
    assert response["Location"] == f"/login/?next={address}"


@pytest.mark.spec("R4")
def test_every_page_is_looked_at(house):
    """In pictures, and by the tests that go through all pages."""
    client, looked_at = house.client("admin"), set(shots.PAGES.values())
    assert [one for one in PAGES if "<html" in client.get(one).content.decode() and one not in looked_at] == []


def test_people_without_any_role_learn_nothing_of_the_system(house):
    client = house.client("anonymous")
    client.force_login(make.user("nemo"))
    assert client.get(reverse("system")).status_code == NO
    assert client.get(reverse("runs")).status_code == OK


@pytest.mark.parametrize("name", ["overview", "review", "runs"])
def test_people_in_no_project_are_told_so(house, name):
    client = house.client("anonymous")
    client.force_login(make.user("nemo"))
    told = "You are in no project yet."
    assert told in client.get(reverse(name)).content.decode()
    for who in ("operator", "reviewer", "viewer", "outsider", "admin"):
        assert told not in house.client(who).get(reverse(name)).content.decode(), who


@pytest.mark.parametrize(("who", "led"), [("operator", True), ("admin", True), ("reviewer", False), ("viewer", False)])
@pytest.mark.parametrize("name", ["runs", "find"])
def test_only_who_may_submit_is_led_to_it(house, name, who, led):
    assert (reverse("new-task") in house.client(who).get(reverse(name)).content.decode()) is led


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    ("who", "status"),
    [("operator", LOGIN), ("admin", LOGIN), ("reviewer", GONE), ("viewer", GONE), ("outsider", GONE)],
)
def test_steering_is_for_operators(house, who, status):
    client = house.client(who)
    assert client.post(reverse("run-steer", args=[house.run.pk]), {"action": "pause"}).status_code == status
    assert client.post(reverse("run-message", args=[house.run.pk]), {"text": "Hello"}).status_code == status
    assert MailboxItem.objects.count() == (2 if status == LOGIN else 0)


@pytest.mark.parametrize("name", ["run-steer", "run-message"])
def test_reading_never_steers(house, name):
    assert house.client("operator").get(reverse(name, args=[house.run.pk])).status_code == 405


def test_a_step_of_another_run_is_not_there(house):
    other = make.run(house.elsewhere)
    make.step(other, 3)
    assert house.client("operator").get(reverse("run-step", args=[house.run.pk, 3])).status_code == GONE


def test_a_gate_is_found_only_under_its_own_run(house):
    other = make.run(house.project)
    gate = make.gate(other)
    client = house.client("reviewer")
    assert client.get(reverse("run-gate", args=[house.run.pk, gate.pk])).status_code == GONE
    assert client.get(reverse("run-gate", args=[other.pk, gate.pk])).status_code == OK


def test_bulk_steering_touches_only_runs_one_may_operate(house):
    foreign = make.run(house.elsewhere)
    ids = [str(house.run.pk), str(foreign.pk), "nonsense"]
    response = house.client("operator").post(reverse("runs-bulk"), {"action": "stop", "run": ids})
    assert response.status_code == LOGIN
    assert [item.run_id for item in MailboxItem.objects.all()] == [house.run.pk]


def test_bulk_steering_never_leaves_the_site(house):
    data = {"action": "stop", "next": "//evil.example/"}
    assert house.client("operator").post(reverse("runs-bulk"), data)["Location"] == reverse("runs")


@pytest.mark.parametrize("who", ["reviewer", "operator", "viewer", "admin"])
def test_the_overview_opens_whatever_the_role(house, who):
    page = house.client(who).get(reverse("overview"))
    assert page.status_code == OK
    assert "<h1>Overview</h1>" in page.content.decode()


@pytest.mark.parametrize("rows", [Run, Gate, Decision])
def test_what_members_see_is_asked_for_by_project(db: Any, rows: Any) -> None:
    """A join with memberships doubles rows and has Postgres read them all: the bench "members" has the figures."""
    project = make.project()
    member = make.user(operator=project, reviewer=project)
    asked = str(rows.objects.visible_to(member).query).lower()
    assert "distinct" not in asked
    assert "membership" not in asked
    make.gate(make.run(project))
    assert Run.objects.visible_to(member).count() == Gate.objects.visible_to(member).count() == 1
