"""Manners of every page in a real browser: what the tab says, room for fingers, copying, and a line that is lost."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from playwright.sync_api import expect

from agentops.management.commands.shots import PAGES, TABS
from gates.models import Gate
from tests import factories as make
from tests.integration.gates.builders import open_gate, tool_view
from tests.web.browsing import Line, looked_at, settled

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("R4")]
PHONE = {"width": 390, "height": 844}
PRESSED = ".btn, select, summary, .tabs-line a, .nav a, label.pick, textarea, input"
SMALL = """(pressed) => [...document.querySelectorAll(pressed)]
    .filter((part) => !["checkbox", "radio", "hidden"].includes(part.type))
    .map((part) => [part, part.getBoundingClientRect()])
    .filter(([, box]) => box.width > 1 && box.height > 1 && box.height < 44)
    .map(([part, box]) => `${part.tagName}.${part.className} ${part.textContent.trim()} ${box.height}`)"""
CUT = "[...document.querySelectorAll('#detail pre')].some((box) => box.scrollHeight > box.clientHeight + 1)"


@pytest.mark.spec("Q7", "R1")
def test_the_tab_says_how_many_decisions_wait(desk: Any) -> None:
    gates = [open_gate(desk.world, title=f"Thing {number}") for number in range(2)]
    named = f"{gates[0].run.project} · {gates[0].run.task.title}"
    desk.goto(f"{desk.site}/review/")
    expect(desk).to_have_title(f"(2) Thing 0 · {named} · Review · AgentOps")
    assert desk.locator("#favicon").get_attribute("href").startswith("data:image/svg+xml,")
    settled(desk)
    for left, gate in enumerate(gates):
        looked_at(desk, gate)
        desk.locator(f"#gate-{gate.pk} form.approve [data-approve]").click()
        expect(desk.locator("#review-badge")).to_have_text(re.compile("^0" if left else "^1"))
        expect(desk).to_have_title("Review · AgentOps" if left else f"(1) Thing 1 · {named} · Review · AgentOps")
    expect(desk.locator("#favicon")).to_have_attribute("href", re.compile("favicon.*svg$"))


@pytest.mark.spec("Q7")
def test_a_phone_shows_the_queue_or_one_decision(desk: Any) -> None:
    gate = open_gate(desk.world, title="Overwrite the notes")
    desk.set_viewport_size(PHONE)
    desk.goto(f"{desk.site}/review/")
    expect(desk.locator("#queue")).to_be_visible()
    expect(desk.locator(f"#gate-{gate.pk}")).to_be_hidden()
    settled(desk)
    desk.get_by_role("link", name="Overwrite the notes").click()
    expect(desk.locator(f"#gate-{gate.pk}")).to_be_visible()
    expect(desk.locator("#queue")).to_be_hidden()
    desk.locator(".back").click()
    expect(desk.locator("#queue")).to_be_visible()


@pytest.mark.spec("Q5")
def test_arguments_are_never_cut_before_their_end(desk: Any) -> None:
    gate = open_gate(desk.world, view=tool_view(arguments={"path": "a", "content": "harmless\n" * 200 + "rm -rf ~"}))
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    expect(desk.locator("#detail")).to_contain_text("rm -rf ~")
    assert desk.evaluate(CUT) is False


def test_what_is_shown_can_be_copied(desk: Any) -> None:
    gate = open_gate(desk.world, view=tool_view(command="make   release"))
    desk.context.grant_permissions(["clipboard-read", "clipboard-write"])
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    desk.get_by_role("button", name="Copy command").click()
    expect(desk.locator("#toasts")).to_contain_text("Copied")
    assert desk.evaluate("navigator.clipboard.readText()") == "make   release"


def test_a_line_that_stays_away_is_said_in_a_sentence(desk: Any) -> None:
    line = Line(desk)
    desk.goto(f"{desk.site}/runs/")
    expect(desk.locator("#live")).to_have_attribute("data-state", "live")
    expect(desk.locator("#lost")).to_be_hidden()
    line.cut()
    expect(desk.locator("#lost")).to_be_visible()
    line.mend()
    expect(desk.locator("#lost")).to_be_hidden()


@pytest.fixture
def phone(live_site: str, page: Any, house: Any) -> Any:
    client = Client()
    client.force_login(house.admin)
    cookie = {"name": "agentops_session", "value": client.cookies["agentops_session"].value, "url": live_site}
    page.context.add_cookies([cookie])
    page.set_viewport_size(PHONE)
    page.site = live_site
    return page


def test_everything_to_press_on_a_phone_has_room_for_a_finger(house: Any, phone: Any) -> None:
    """44 px, on every page; links within sentences are what the rule leaves out."""
    gate = make.gate(
        house.run, kind="question", call_id="q", title="Which?", step_number=1, tool="", view={"question": "?"}
    )
    make.step(house.run, 1)
    of_the_run = [f"/runs/{house.run.pk}/{tab}" for tab in (*TABS, "fork/")]
    addresses = [*PAGES.values(), *of_the_run, reverse("gate", args=[gate.pk])]
    small = {}
    for address in addresses:
        phone.goto(phone.site + address)
        if found := phone.evaluate(SMALL, PRESSED):
            small[address] = found
    assert small == {}


@pytest.mark.spec("R3")
def test_no_list_of_runs_is_wider_than_a_phone(house: Any, phone: Any) -> None:
    house.run.waiting_on = "Model with-a-name-that-has-no-end: next try at 08:56:33 UTC"
    house.run.save(update_fields=["waiting_on"])
    make.run(make.task(house.project, title="W" * 200, created_by=house.operator))
    phone.goto(phone.site + reverse("runs"))
    expect(phone.locator("#runs")).to_contain_text("Model with-a-name")
    wide = "[...document.querySelectorAll('#runs .scroll')].some((box) => box.scrollWidth > box.clientWidth)"
    assert phone.evaluate(wide) is False


def test_a_task_is_sent_by_its_key(house: Any, phone: Any) -> None:
    make.agent(house.project, name="Engineer")
    phone.goto(phone.site + reverse("new-task"))
    phone.select_option("#project", label=house.project.name)
    phone.fill("#goal", "Write the report.")
    phone.keyboard.press("Control+Enter")
    phone.wait_for_url("**/runs/*/")
    expect(phone.locator("h1")).to_have_text("Write the report.")


@pytest.mark.spec("A2")
def test_no_clock_ticks_on_a_run_that_is_over(house: Any, phone: Any) -> None:
    make.step(house.run, 1, success=None, reasoning="")
    phone.goto(phone.site + reverse("run", args=[house.run.pk]))
    expect(phone.locator("#step-1 [data-since]")).to_have_count(1)
    house.run.status, house.run.completed_at = "failed", house.run.started_at
    house.run.save(update_fields=["status", "completed_at"])
    phone.reload()
    expect(phone.locator("#step-1")).to_contain_text("Not finished")
    expect(phone.locator("#step-1 [data-since]")).to_have_count(0)


@pytest.mark.spec("F1", "Q3")
def test_the_card_of_a_loop_names_its_steps_and_calls(desk: Any) -> None:
    run = desk.world.run
    calls = [{"tool": "read_file", "arguments": {"path": "config/none.toml"}}]
    for number in (1, 2):
        make.step(run, number, action={"calls": calls}, error="No such file")
    view = {"method": "repeated_result", "evidence": "the same error ended 2 steps in a row", "steps": [1, 2]}
    gate: Gate = open_gate(desk.world, "loop_detected", view=view)
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    card = desk.locator(f"#gate-{gate.pk} .gate-action")
    expect(card).to_contain_text("The same result again and again: the same error ended 2 steps in a row.")
    expect(card.get_by_role("link", name="Step 2")).to_have_attribute("href", f"/runs/{run.pk}/#step-2")
    expect(card).to_contain_text("read_file config/none.toml")
    expect(card).not_to_contain_text("repeated_result")
