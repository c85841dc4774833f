"""A run that waits for its folder, its turn or a model says so at every door, and its meter stands still (SPEC A2)."""

from __future__ import annotations

import io
import json
import re
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.conf import settings
from django.core.management import call_command
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from loops.models import Run
from loops.storage.status import NEWER
from loops.storage.turns import waiting_at
from loops.web import open_gates
from loops.web.limits_bar import working_seconds
from tests import factories as make
from tests.web.conftest import House
from tests.web.feed import publish

ELSEWHERE = "/srv/repo is not on worker two"
LATER = "model sonnet: next try at 12:30:00 UTC"
WAITS = {
    "folder": (f"its workspace: {ELSEWHERE}", "Waiting for its workspace", f"Waiting for its workspace: {ELSEWHERE}"),
    "turn": (waiting_at("own", 3), "Queued for a model", "Queued for model own (3 ahead)"),
    "model": (LATER, "Waiting for a model", f"Waiting for {LATER}"),
    "newer_worker": (NEWER.words, "Waiting for a newer worker", "Waiting for a worker of a newer version"),
}
TICKS = re.compile(r"<span data-since")


@pytest.fixture(params=WAITS)
def stands(request: pytest.FixtureRequest, house: House) -> tuple[House, str, str]:
    """A run that waits, the word for it, and the sentence."""
    words, *shown = WAITS[request.param]
    stands_for(house.run, request.param, words)
    return house, *shown


def stands_for(run: Run, kind: str, words: str) -> None:
    needs = make.waiting(kind, "own" if kind == "turn" else "", words)
    Run.objects.filter(pk=run.pk).update(status="waiting_for_resource", **needs)


def page(house: House, name: str, *args: Any) -> str:
    return house.client("operator").get(reverse(name, args=args)).content.decode()


@pytest.mark.spec("A2")
def test_pages_say_for_what(stands: tuple[House, str, str]) -> None:
    house, word, sentence = stands
    shown = page(house, "run", house.run.pk)
    assert word in shown
    assert shown.count(f">{sentence}") == 2, "in its head, and in place of its first step"
    assert "A worker takes the run within seconds" not in shown
    for listing in ("runs", "overview"):
        shown = page(house, listing)
        assert word in shown
        assert "Thinking" not in shown
        assert open_gates.waits(Run.objects.get()) in shown


@pytest.mark.spec("A2", "Q1")
@pytest.mark.parametrize(("status", "needs", "said"), [
    ("waiting", make.waiting("gate", "tool_approval"), "waits for an approval of a tool call"),
    ("waiting", make.waiting("gate", "irreversible_action"), "waits for an approval of an irreversible action"),
    ("failed", make.waiting("gate", "rollback_choice"), "waits for a choice to roll back or keep its changes"),
    ("paused", make.waiting("gate", "question"), "waits for an answer to its question"),
    ("waiting", make.waiting("message", words="message"), "waits for a message"),
    ("waiting", make.waiting("gate", "kind_of_a_package"), "waits for Kind of a package"),
    ("waiting_for_resource", make.waiting("turn", "own", waiting_at("own", 0)), "queued for model own (next)"),
    ("executing_tool", make.waiting("", words="read_file"), "Read file"),
    ("thinking", make.waiting("", words="reflecting on what went wrong"), "Reflecting on what went wrong"),
])  # fmt: skip
def test_a_line_of_a_list_says_what_a_run_waits_for_or_does(
    house: House, status: str, needs: dict[str, str], said: str
) -> None:
    Run.objects.filter(pk=house.run.pk).update(status=status, **needs)
    assert open_gates.waits(Run.objects.get()) == said
    shown = page(house, "runs")
    assert f" · {said}" in shown
    assert "waits on" not in shown


@pytest.mark.spec("Q1", "R1")
def test_wherever_a_run_is_listed_it_says_what_it_asks(house: House, django_assert_num_queries: Any) -> None:
    Run.objects.filter(pk=house.run.pk).update(status="waiting", **make.waiting("gate", "tool_approval"))
    for title in ("Run `make deploy`", "A later one"):
        make.gate(house.run, title=title, call_id=title)
    said = "waits for an approval of a tool call: Run `make deploy`"
    for listing in ("runs", "overview"):
        assert f" · {said}" in page(house, listing)
    out = io.StringIO()
    call_command("agentops", "--as", "olga", "runs", stdout=out)
    assert f"({said})" in out.getvalue()
    assert open_gates.question_of(house.run) == "Run `make deploy`"
    with django_assert_num_queries(1):
        assert [open_gates.waits(run) for run in open_gates.with_questions(Run.objects.all())] == [said]


@pytest.mark.spec("A2")
def test_the_api_and_the_command_line_say_the_same(stands: tuple[House, str, str]) -> None:
    house, word, sentence = stands
    told = house.client("operator").get(f"/api/v1/runs/{house.run.pk}/").json()
    assert (told["status"], told["status_text"]) == ("waiting_for_resource", word)
    needs = {name: getattr(Run.objects.get(), name) for name in ("waiting_kind", "waiting_name", "waiting_on")}
    assert needs["waiting_kind"]
    assert needs.items() <= told.items()
    out = io.StringIO()
    call_command("agentops", "--as", "olga", "runs", stdout=out)
    assert "waiting_for_resource" in out.getvalue()
    assert f"({sentence})" in out.getvalue()
    out = io.StringIO()
    call_command("agentops", "--as", "olga", "runs", "--json", stdout=out)
    told = json.loads(out.getvalue())
    assert (told["status_text"], told["status"]) == (word, "waiting_for_resource")
    assert needs.items() <= told.items()


@pytest.mark.spec("D2")
@pytest.mark.parametrize("status", Run.Status.values)
def test_only_work_ticks(house: House, status: str) -> None:
    an_hour_ago = timezone.now() - timedelta(hours=1)
    Run.objects.filter(pk=house.run.pk).update(
        status=status, active_us=90_000_000, last_activity_at=an_hour_ago, started_at=an_hour_ago
    )
    run = Run.objects.get(pk=house.run.pk)
    works = status in ("initializing", "thinking", "executing_tool")
    assert bool(TICKS.search(page(house, "run", run.pk))) is works
    assert (working_seconds(run) > 3600) is works
    if not works:
        assert working_seconds(run) == 90


def test_such_runs_are_found_among_those_that_wait(house: House) -> None:
    stands_for(house.run, "turn", waiting_at("own", 1))
    for state, found in (("waiting", True), ("live", False)):
        shown = house.client("operator").get(reverse("runs"), {"state": state}).content.decode()
        assert (f'id="run-{house.run.pk}"' in shown) is found


def told(run: Run, before: int) -> None:
    """As another run does that gives its turn back: the row says it, and no fact."""
    Run.objects.filter(pk=run.pk).update(waiting_on=waiting_at("own", before))
    with redis.Redis.from_url(settings.REDIS_URL) as broker:
        message = {"t": "row", "run": str(run.pk), "project": run.project_id}
        broker.publish("agentops:feed", json.dumps(message))


@pytest.mark.spec("R2")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["run", "runs", "overview"])
def test_a_place_in_the_line_is_live(live_site: str, house: House, page: Any, name: str) -> None:
    run = house.run
    stands_for(run, "turn", waiting_at("own", 3))
    client: Client = house.client("operator")
    session = {"name": "agentops_session", "value": client.cookies["agentops_session"].value, "url": live_site}
    page.context.add_cookies([session])
    page.goto(live_site + reverse(name, args=[run.pk] if name == "run" else []))
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    main = page.locator("main")
    expect(main).to_contain_text("model own (3 ahead)")
    told(run, 1)
    expect(main).to_contain_text("model own (1 ahead)")
    expect(main).not_to_contain_text("3 ahead")
    if name != "run":
        return
    expect(page.locator("#none-yet")).to_contain_text("1 ahead")
    with transaction.atomic():
        Run.objects.filter(pk=run.pk).update(status="thinking", **make.waiting(""))
        make.step(run, 1, success=None)
    publish(run)
    expect(page.locator("#run-head")).to_contain_text("Thinking")
    expect(page.locator("#run-head [data-since]")).to_have_count(1)
    expect(page.locator("#none-yet")).to_have_count(0)


def went_on(run: Run, step: int, **values: Any) -> None:
    with transaction.atomic():
        Run.objects.filter(pk=run.pk).update(**values)
        make.step(run, step, success=None)
    publish(run)


@pytest.mark.spec("R2", "O3")
@pytest.mark.django_db(transaction=True)
def test_what_comes_into_the_head_takes_no_press_that_was_meant_for_another(
    live_site: str, house: House, page: Any
) -> None:
    """A button or link stays the one that it is, or goes: none becomes another one while a press is on its way."""
    run = house.run
    Run.objects.filter(pk=run.pk).update(status="thinking")
    session = {"name": "agentops_session", "value": house.client("operator").cookies["agentops_session"].value}
    page.context.add_cookies([{**session, "url": live_site}])
    page.goto(live_site + reverse("run", args=[run.pk]))
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    is_marked = "element => element.marked === true"
    page.get_by_role("button", name="Pause").evaluate("element => { element.marked = true; }")
    went_on(run, 1, status="paused", paused_by="olga")
    resume = page.get_by_role("button", name="Resume")
    expect(resume).to_be_visible()
    assert not resume.evaluate(is_marked)

    went_on(run, 2, status="interrupted", paused_by="", state_snapshot={"effects": 1})
    roll_back = page.locator("#run-head").get_by_role("link", name="Roll back")
    roll_back.evaluate("element => { element.marked = true; }")
    make.gate(run, kind="rollback_choice", call_id="", tool="")
    went_on(run, 3, **make.waiting("gate", "rollback_choice"))
    expect(page.locator("#head-decide")).to_be_visible()
    assert roll_back.evaluate(is_marked)
