"""Long runs: every step can be pointed at, and what was missed is a gap that says so and loads (SPEC R2, R3)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import transaction
from django.urls import reverse
from playwright.sync_api import expect

from loops.models import Run, Step
from loops.web.live import messages
from tests import factories as make
from tests.web.browsing import let_all_come, slow, wait_for_answer
from tests.web.feed import publish

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("R2", "R3")]


def grow(run: Run, first: int, last: int) -> None:
    """Steps that need no journal of their own: a page of a thousand reads rows."""
    now, seq = datetime.now(UTC), run.head_seq + 1
    Step.objects.bulk_create(
        Step(
            execution=run,
            step_number=number,
            timestamp=now,
            success=True,
            said=f"Word {number}",
            first_seq=seq,
            last_seq=seq,
        )
        for number in range(first, last + 1)
    )
    Run.objects.filter(pk=run.pk).update(total_steps=last)


def numbers(page: Any) -> list[int]:
    """Every step that is shown or stands in a gap, in order; what came before the first is none."""
    found: list[int] = []
    for step, first, last in page.eval_on_selector_all(
        "#steps > li", "all => all.map(li => [li.dataset.step ?? '', li.dataset.first ?? '', li.dataset.last ?? ''])"
    ):
        found += [int(step)] if step else range(int(first), int(last) + 1)
    return [number for number in found if number]


@pytest.mark.parametrize("number", [1, 3, 500, 949, 951, 1000])
def test_every_step_of_a_thousand_can_be_pointed_at(desk: Any, number: int) -> None:
    run = desk.world.run
    grow(run, 1, 1000)
    desk.goto(f"{desk.site}{reverse('run', args=[run.pk])}#step-{number}")
    card = desk.locator(f"#step-{number}")
    expect(card.locator("summary").first).to_be_in_viewport()
    expect(card.get_by_text(f"Word {number}").last).to_be_visible()
    assert card.evaluate("card => card.matches(':target')")
    box = card.bounding_box()
    x, y = box["x"] + 40, box["y"] + 12
    assert not desk.evaluate("([x, y]) => Boolean(document.elementFromPoint(x, y)?.closest('.run-head'))", [x, y])
    shown = numbers(desk)
    assert shown == sorted(set(shown))
    assert set(range(number, 1001)) <= set(shown)


def test_a_link_on_the_page_brings_its_step_and_gaps_close(desk: Any) -> None:
    run = desk.world.run
    grow(run, 1, 200)
    desk.goto(f"{desk.site}{reverse('run', args=[run.pk])}")
    expect(desk.locator("#step-90")).to_have_count(0)
    desk.evaluate("location.hash = '#step-90'")
    expect(desk.locator("#step-90 summary").first).to_be_in_viewport()
    for _ in range(10):
        gaps = desk.locator("li[data-gap]")
        left = gaps.count()
        if not left:
            break
        said = gaps.first.text_content()
        assert re.search(r"\d+ steps? not shown", said), said
        before, shown = numbers(desk), desk.locator("li[data-step]").count()
        gaps.first.locator("button").click()
        desk.wait_for_function("(n) => document.querySelectorAll('li[data-step]').length > n", arg=shown)
        assert set(numbers(desk)) >= set(before)
    assert numbers(desk) == list(range(1, 201))
    desk.evaluate("location.hash = '#step-777'")
    expect(desk.locator("#toasts")).to_contain_text("This run has no step 777.")


ASKS = {"press": "button => button.click()", "address": "() => { location.hash = '#step-30'; }"}


def missed(desk: Any) -> Run:
    """A page with five steps and one in progress, that hears next of the ninety-ninth."""
    run: Run = desk.world.run
    for number in range(1, 6):
        make.step(run, number)
    make.step(run, 6, success=None)
    desk.goto(f"{desk.site}{reverse('run', args=[run.pk])}")
    expect(desk.locator("#live")).to_have_attribute("data-state", "live")
    Step.objects.filter(execution=run, step_number=6).update(success=True)
    with transaction.atomic():  # a page that dials meanwhile hears of all of it or of nothing
        for number in range(6, 100):
            if number > 6:
                make.step(run, number)
            else:
                make.fact(run, make.f.StepCompleted(step=6, success=True), step=6)
    publish(run)
    expect(desk.locator("li[data-gap]")).to_contain_text("44 steps not shown: 6 to 49")
    return run


def test_a_long_stretch_that_was_missed_is_a_gap_that_loads(desk: Any) -> None:
    missed(desk)
    gap = desk.locator("li[data-gap]")
    expect(desk.locator("#step-6")).to_have_count(0)  # it was drawn as in progress, which is over
    assert numbers(desk) == list(range(1, 100))
    gap.locator("button").click()
    expect(desk.locator("#step-6")).to_have_attribute("data-look", "good")
    expect(gap).to_have_count(0)
    assert numbers(desk) == list(range(1, 100))


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_what_a_gap_was_asked_for_comes_although_the_same_stretch_is_missed_again(desk: Any, ask: str) -> None:
    """The answer on its way is older than the news, and the gap that it was for is gone."""
    run = missed(desk)
    with slow(desk, "**/steps/?first=*") as answers:
        desk.locator("li[data-gap] button").evaluate(ask)
        wait_for_answer(desk, answers)
        with transaction.atomic():
            for number in range(6, 100):
                make.fact(run, make.f.MessageReceived(text=f"Hurry {number}.", by="ana"), step=number)
        publish(run)
        expect(desk.locator("[data-run-socket]")).to_have_attribute("data-seq", str(run.head_seq))
        let_all_come(desk, answers)
    expect(desk.locator("li[data-gap]")).to_have_count(0)
    expect(desk.locator("#step-30")).to_contain_text("Hurry 30.")
    expect(desk.locator("#toasts")).to_be_empty()
    assert numbers(desk) == list(range(1, 100))


def test_news_may_be_longer_than_a_message(desk: Any) -> None:
    run, heard = desk.world.run, []
    desk.on("websocket", lambda socket: socket.on("framereceived", lambda frame: heard.append(len(frame))))
    desk.goto(f"{desk.site}{reverse('run', args=[run.pk])}")
    expect(desk.locator("#live")).to_have_attribute("data-state", "live")
    for number in range(1, 31):
        make.step(run, number, reasoning="I think about it once more. " * 100)
    publish(run)
    expect(desk.locator("#step-30")).to_be_visible()
    assert sum(heard) > messages.LONGEST >= max(heard)


@pytest.mark.parametrize(
    ("query", "status"),
    [("", 404), ("?first=a&last=3", 404), ("?first=9&last=3", 404), ("?first=1&last=99999999999", 404),
     ("?first=700&last=800", 200), ("?first=0&last=3&at=x", 200), ("?first=0&last=3&at=50", 200)],
)  # fmt: skip
def test_odd_questions_for_steps(house: Any, query: str, status: int) -> None:
    make.step(house.run, 1)
    response = house.client("viewer").get(reverse("run-steps", args=[house.run.pk]) + query)
    assert response.status_code == status
