"""What a person writes, and where, survives whatever the page learns meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse
from playwright.sync_api import expect

from gates.models import Decision, Gate
from tests import factories as make
from tests.integration.gates.builders import open_gate
from tests.web import story
from tests.web.browsing import let_all_come, looked_at, settled, slow, wait_for_answer
from tests.web.feed import publish

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("Q7")]


def refresh(page: Any) -> None:
    """What a frame of the socket does."""
    page.evaluate("document.body.dispatchEvent(new Event('queue-changed'))")


def caret(page: Any) -> list[Any]:
    """Where one writes: id of the field, start and end of the selection."""
    return page.evaluate(
        "(({id, selectionStart, selectionEnd}) => [id, selectionStart, selectionEnd])(document.activeElement)"
    )


def decided(page: Any, gate: Gate) -> Decision:
    expect(page.locator(f"#gate-{gate.pk}")).to_have_count(0)
    return Decision.objects.get(gate=gate)


def start_rejecting(page: Any, gate: Gate) -> Any:
    """Open the gate's page and its pane; the field in which the reason is written."""
    page.goto(f"{page.site}/review/{gate.pk}/")
    settled(page)
    page.keyboard.press("r")
    field = page.locator(f"#reason-{gate.pk}")
    expect(field).to_be_focused()
    return field


@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
def test_a_refresh_of_the_queue_leaves_the_writer_alone(desk: Any, late: bool) -> None:
    gate = open_gate(desk.world, title="First")
    field = start_rejecting(desk, gate)
    with slow(desk, "**/review/list/**") as answers:
        desk.keyboard.type("not a jar")
        for _ in range(3):
            desk.keyboard.press("ArrowLeft")
        other = open_gate(desk.world, title="Second")
        refresh(desk)
        wait_for_answer(desk, answers)
        if late:
            desk.keyboard.type("big ")
        let_all_come(desk, answers)
        desk.locator(f"#queue [data-row='{other.pk}']").wait_for()
        settled(desk)
    assert field.input_value() == ("not a big jar" if late else "not a jar")
    assert caret(desk) == [f"reason-{gate.pk}", *([10, 10] if late else [6, 6])]
    desk.keyboard.type("blue ")
    desk.keyboard.press("Control+Enter")
    assert decided(desk, gate).reason == ("not a big blue jar" if late else "not a blue jar")


@pytest.mark.parametrize("part", ["review/list", "badge"])
def test_news_that_comes_while_a_part_of_the_page_is_asking_is_not_lost(desk: Any, part: str) -> None:
    open_gate(desk.world, title="First")
    desk.goto(f"{desk.site}/review/")
    settled(desk)
    with slow(desk, f"**/{part}/**") as answers:
        refresh(desk)
        wait_for_answer(desk, answers)
        other = open_gate(desk.world, title="Second")
        refresh(desk)
        row, badge = desk.locator(f"#queue [data-row='{other.pk}']"), desk.locator("#review-badge")
        seen = row.is_visible if part != "badge" else lambda: badge.inner_text().startswith("2")
        let_all_come(desk, answers, seen)


def test_a_refresh_during_a_submission_swallows_nothing(desk: Any) -> None:
    gate, following = (open_gate(desk.world, title=title) for title in ("First", "Second"))
    start_rejecting(desk, gate)
    with slow(desk, "**/decide/**") as posts, slow(desk, "**/review/list/**") as lists:
        desk.keyboard.type("no")
        desk.keyboard.press("Control+Enter")
        wait_for_answer(desk, posts)
        refresh(desk)
        wait_for_answer(desk, lists)
        let_all_come(desk, lists, lambda: not desk.locator(f"#queue [data-row='{gate.pk}']").count())
        posts[0]()
        assert decided(desk, gate).reason == "no"
    expect(desk.locator(f"#gate-{following.pk}")).to_be_visible()


def test_a_list_that_comes_after_the_decision_does_not_bring_the_gate_back(desk: Any) -> None:
    gate, following = (open_gate(desk.world, title=title) for title in ("First", "Second"))
    start_rejecting(desk, gate)
    with slow(desk, "**/review/list/**") as lists:
        desk.keyboard.type("no")
        refresh(desk)
        wait_for_answer(desk, lists)
        desk.keyboard.press("Control+Enter")
        assert decided(desk, gate).reason == "no"
        let_all_come(desk, lists)
    expect(desk.locator(f"#queue [data-row='{following.pk}']")).to_be_visible()
    expect(desk.locator(f"#queue [data-row='{gate.pk}']")).to_have_count(0)


def test_a_refresh_leaves_the_place_in_the_list(desk: Any) -> None:
    first, second, third = (open_gate(desk.world, title=f"Thing {number}") for number in range(3))
    desk.goto(f"{desk.site}/review/")
    settled(desk)
    desk.keyboard.press("j")
    link = desk.locator(f"#queue [data-row='{second.pk}'] a")
    expect(link).to_be_focused()
    fourth = open_gate(desk.world, title="Thing 3")
    refresh(desk)
    desk.locator(f"#queue [data-row='{fourth.pk}']").wait_for()
    expect(link).to_be_focused()
    desk.keyboard.press("j")
    expect(desk.locator(f"#queue [data-row='{third.pk}'] a")).to_be_focused()
    assert first.is_open


def test_what_changes_while_a_card_is_on_its_way_is_asked_for_afterwards(desk: Any) -> None:
    _, second = (open_gate(desk.world, title=f"Thing {number}") for number in range(2))
    desk.goto(f"{desk.site}/review/")
    settled(desk)
    with slow(desk, f"**/review/{second.pk}/**") as cards:
        desk.keyboard.press("j")
        wait_for_answer(desk, cards)
        third = open_gate(desk.world, title="Thing 2")
        refresh(desk)
        desk.wait_for_timeout(300)  # longer than a list waits for more before it asks
        cards[0]()
        desk.locator(f"#queue [data-row='{third.pk}']").wait_for()
    expect(desk.locator(f"#gate-{second.pk}")).to_be_visible()
    expect(desk.locator(f"#queue [data-row='{second.pk}'] a")).to_be_focused()


@pytest.mark.parametrize("swapped", ["queue", "review"])
def test_a_key_at_the_very_moment_of_a_swap_moves_on_in_place(desk: Any, swapped: str) -> None:
    _, second, third = (open_gate(desk.world, title=f"Thing {number}") for number in range(3))
    desk.goto(f"{desk.site}/review/")
    settled(desk)
    desk.evaluate("window.sameDocument = true")
    press = (
        "document.addEventListener('htmx:afterSwap', function pressed(event) {"
        f"if (event.target.id !== '{swapped}') return;"
        "document.removeEventListener('htmx:afterSwap', pressed);"
        "setTimeout(() => document.activeElement.dispatchEvent("
        "new KeyboardEvent('keydown', {key: 'j', code: 'KeyJ', bubbles: true, cancelable: true})));})"
    )
    if swapped == "review":
        desk.evaluate(press)  # before the swap that it waits for is asked for
    desk.keyboard.press("j")
    if swapped == "queue":
        expect(desk.locator(f"#gate-{second.pk}")).to_be_visible()
        settled(desk)
        desk.evaluate(press)
        refresh(desk)
    expect(desk.locator(f"#gate-{third.pk}")).to_be_visible()
    expect(desk.locator(f"#queue [data-row='{third.pk}'] a")).to_be_focused()
    assert desk.evaluate("window.sameDocument") is True, "the page was left for another"
    assert desk.locator("#review").get_attribute("data-selected") == str(third.pk)


@pytest.mark.parametrize(("key", "lands_on"), [("j", 2), ("k", 0)])
def test_where_the_marked_one_was_decided_by_somebody_else_the_next_is_its_neighbour(
    desk: Any, key: str, lands_on: int
) -> None:
    gates = [open_gate(desk.world, title=f"Thing {number}") for number in range(4)]
    desk.goto(f"{desk.site}/review/")
    settled(desk)
    desk.keyboard.press("j")
    expect(desk.locator(f"#gate-{gates[1].pk}")).to_be_visible()
    settled(desk)
    Gate.objects.filter(pk=gates[1].pk).update(status="withdrawn")
    refresh(desk)
    expect(desk.locator(f"#queue [data-row='{gates[1].pk}']")).to_have_count(0)
    desk.keyboard.press(key)
    expect(desk.locator(f"#queue [data-row='{gates[lands_on].pk}'] a")).to_be_focused()


def test_a_submission_needs_no_focus_in_the_field(desk: Any) -> None:
    """Who copied a word from the card into the reason and clicked beside the field has still written it."""
    gate = open_gate(desk.world)
    start_rejecting(desk, gate)
    desk.keyboard.type("no")
    desk.locator(f"#title-{gate.pk}").click()
    desk.keyboard.press("Control+Enter")
    assert decided(desk, gate).reason == "no"


def test_keys_pressed_while_a_decision_is_under_way_do_nothing_to_the_next_gate(desk: Any) -> None:
    gate, following = (open_gate(desk.world, title=title) for title in ("First", "Second"))
    with slow(desk, "**/decide/**") as posts:
        start_rejecting(desk, gate)
        desk.keyboard.type("no")
        desk.keyboard.press("Control+Enter")
        wait_for_answer(desk, posts)
        desk.evaluate("document.activeElement.blur()")
        desk.keyboard.type("area")
        desk.evaluate(  # and once more in the middle of the swap
            "document.addEventListener('htmx:afterSwap', () => setTimeout(() => window.dispatchEvent("
            "new KeyboardEvent('keydown', {key: 'a', code: 'KeyA', bubbles: true}))), {once: true})"
        )
        posts[0]()
        assert decided(desk, gate).reason == "no"
    expect(desk.locator(f"#gate-{following.pk}")).to_be_visible()
    settled(desk)
    refresh(desk)
    settled(desk)
    assert Decision.objects.count() == 1
    assert desk.locator("[data-pane-of]:visible").count() == 0
    looked_at(desk, following)
    desk.keyboard.press("a")
    assert decided(desk, following).verdict == "approve"


# --- the page of a run ------------------------------------------------------------------------------------------------


@pytest.fixture
def trace(live_site: str, house: Any, page: Any) -> Any:
    """The page of a run that waits for a person at step 6, seen by somebody who may do everything."""
    story.tell(house.run)
    Gate.objects.all().delete()
    open_gate(house, run=house.run, step=6, call_id="c6.0")
    client = Client()
    client.force_login(house.admin)
    page.context.add_cookies(
        [{"name": "agentops_session", "value": client.cookies["agentops_session"].value, "url": live_site}]
    )
    page.goto(live_site + reverse("run", args=[house.run.pk]))
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    return page


def news(run: Any, number: int) -> None:
    """A note in the step of the gate, and a step after it."""
    with transaction.atomic():
        make.fact(run, story.f.MessageReceived(text=f"Hurry {number}", by="ana"), step=6)
        make.step(run, number)
    publish(run)


def test_a_reason_being_written_on_the_page_of_a_run_survives_its_news(trace: Any, house: Any) -> None:
    gate = Gate.objects.get(run=house.run)
    trace.locator(f"#gate-{gate.pk}").wait_for()
    settled(trace)
    trace.locator(f"#gate-{gate.pk} [data-pane=reject]").click()
    field = trace.locator(f"#reason-{gate.pk}")
    expect(field).to_be_focused()
    trace.keyboard.type("not a jar")
    for _ in range(3):
        trace.keyboard.press("ArrowLeft")
    for number in (7, 8):
        news(house.run, number)
        trace.locator(f"#step-{number}").wait_for()
        expect(trace.locator("#step-6")).to_contain_text(f"Hurry {number}")
        refresh(trace)
    assert field.input_value() == "not a jar"
    assert caret(trace) == [f"reason-{gate.pk}", 6, 6]
    trace.keyboard.type("blue ")
    with slow(trace, "**/decide/**") as posts:
        trace.keyboard.press("Control+Enter")
        wait_for_answer(trace, posts)
        news(house.run, 9)
        trace.locator("#step-9").wait_for()
        posts[0]()
        expect(field).to_have_count(0)
    assert Decision.objects.get(gate=gate).reason == "not a blue jar"


def test_the_next_message_may_be_written_while_one_is_being_sent(trace: Any, house: Any) -> None:
    field = trace.locator("#say-text")
    with slow(trace, "**/message/**") as posts:
        field.fill("Look at the tests")
        trace.keyboard.press("Enter")
        wait_for_answer(trace, posts)
        field.fill("and at")
        news(house.run, 7)
        trace.locator("#step-7").wait_for()
        expect(field).to_be_focused()
        posts[0]()
        settled(trace)
        assert field.input_value() == "and at"
    trace.keyboard.type(" the docs")
    trace.keyboard.press("Enter")
    expect(field).to_have_value("")
    assert [item.payload["text"] for item in house.run.mailbox.order_by("pk")] == [
        "Look at the tests",
        "and at the docs",
    ]
