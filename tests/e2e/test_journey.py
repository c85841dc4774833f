"""What people do, in real browsers against a real site and a real worker."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from gates.models import Decision
from loops.models import Fact, Task, ToolCallRecord
from tests import decisions
from tests.e2e.conftest import House, ended, gate_of
from tests.e2e.proxy import line
from tests.stack import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
Enter = Callable[[str, Any], Any]


@pytest.mark.spec("J6", "D2")
def test_a_task_with_a_fault_comes_back_with_every_word(house: House, enter: Enter) -> None:
    page = enter(house.url, house.boss)
    page.goto(f"{house.url}/tasks/new/")
    page.select_option("#agent", label="Writes a file, scripted")
    page.fill("#goal", "   ")
    page.fill("#constraints_text", "Touch nothing else.")
    page.fill("input[name=criterion] >> nth=0", "There is a file")
    page.fill("input[name=command] >> nth=0", "test -s hello.txt")
    page.locator("summary", has_text="Custom limits").click()
    page.select_option("[name=final_review]", "never")  # a command without a report proves nothing by itself
    page.fill("#max_steps", "0")
    page.get_by_role("button", name="Start the run").click()
    fault = page.locator("#fault-goal")
    fault.wait_for()
    assert "Say what is to be done" in fault.inner_text()
    assert "fault-goal" in (page.get_attribute("#goal", "aria-describedby") or "")
    assert page.get_attribute("#goal", "aria-invalid") == "true"
    assert "Steps must be a whole number from 1 to 10,000" in page.locator("main [role=alert]").first.inner_text()
    assert page.input_value("#constraints_text") == "Touch nothing else."
    assert page.input_value("input[name=command] >> nth=0") == "test -s hello.txt"
    assert page.input_value("#max_steps") == "0"
    assert page.locator("#max_steps").is_visible()
    assert page.locator("#agent option:checked").inner_text().startswith("Writes a file")
    assert not Task.objects.exists()
    page.fill("#goal", "Write hello.txt")
    page.fill("#max_steps", "5")
    page.get_by_role("button", name="Start the run").click()
    card = page.locator("article[data-gate]")
    card.wait_for()
    assert "Acceptance criterion that it checks" in card.inner_text()
    sure = card.locator("form.approve [data-sure] [type=submit]")  # commands are of high risk
    while not sure.is_visible():  # what was not on the screen comes first
        card.locator("form.approve [data-approve]").click()
        page.wait_for_timeout(200)
    sure.click()
    page.locator("#run-end .end-card").wait_for()
    assert page.locator("#run-head .state").inner_text().strip() == "Completed"
    assert Task.objects.get().limits == {"max_steps": 5}


@pytest.mark.spec("Q1", "Q7", "R1")
def test_a_question_is_answered_where_it_is_asked(house: House, enter: Enter) -> None:
    page = enter(house.url, house.boss)
    run = house.submit("asks_a_question", final_review="never")
    page.goto(f"{house.url}/runs/{run.pk}/")
    page.evaluate("window.marker = 'same page'")
    card = page.locator("article[data-gate]")
    card.wait_for()
    assert "Which greeting should the page have" in card.inner_text()
    card.get_by_label("Answer").fill("formal, please")
    card.locator("form[data-verdict=respond] button[type=submit]").click()
    page.locator("#run-end .end-card").wait_for()
    assert "greeting.txt says: Good day." in page.locator("#run-end").inner_text()
    assert page.evaluate("window.marker") == "same page"
    assert Decision.objects.get().payload == {"answer": "formal, please"}
    assert page.locator("article[data-gate] form").count() == 0
    assert ended(run).status == "completed"


def test_a_choice_fills_in_the_answer_on_the_page_of_the_run(house: House, enter: Enter) -> None:
    page = enter(house.url, house.boss)
    run = house.submit("asks_a_question", final_review="never")
    page.goto(f"{house.url}/runs/{run.pk}/")
    card = page.locator("article[data-gate]")
    card.get_by_role("button", name="formal", exact=True).click()
    expect(card.get_by_label("Answer")).to_have_value("formal")
    card.locator("form[data-verdict=respond] button[type=submit]").click()
    assert ended(run).status == "completed"


@pytest.mark.spec("K1", "K2")
def test_stop_and_resume_from_the_page_of_the_run(house: House, enter: Enter) -> None:
    page = enter(house.url, house.boss)
    run = house.submit("slow_thinker", workspace=house.invoices)
    page.goto(f"{house.url}/runs/{run.pk}/")
    page.locator(".streamed[data-kind=thinking]").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.locator("#run-end .end-card").wait_for()
    assert page.locator("#run-head .state").inner_text().strip() == "Stopped"
    assert "A person stopped the run" in page.locator("#run-end").inner_text()
    asked = Fact.objects.filter(run=run, kind="ModelRequested").count()
    page.get_by_role("button", name="Resume").click()
    page.wait_for_selector("#run-head .state:has-text('Thinking')")
    page.locator(".streamed[data-kind=thinking]").wait_for()
    assert Fact.objects.filter(run=run, kind="ModelRequested").count() > asked
    assert page.locator("#run-end .end-card").count() == 0
    page.fill("#say-text", "/stop")
    page.keyboard.press("Enter")
    page.locator("#run-end .end-card").wait_for()
    kinds = list(Fact.objects.filter(run=run).order_by("seq").values_list("kind", flat=True))
    assert kinds.count("StopRequested") == 2
    assert kinds.count("RunResumed") == 1
    numbers = page.locator("#steps > li").evaluate_all("items => items.map(item => item.id)")
    assert len(numbers) == len(set(numbers))


@pytest.mark.spec("Q5", "Q6")
def test_of_two_who_decide_one_gate_the_loser_reads_who_and_when(house: House, enter: Enter) -> None:
    run = house.submit("needs_final_review", final_review="always")
    gate = gate_of(run)
    ana, bo = (enter(house.url, house.person(name, "reviewer")) for name in ("Ana", "Bo"))
    bo.route_web_socket("**/ws/**", lambda line: None)  # nothing tells him
    for page in (ana, bo):
        page.goto(f"{house.url}/review/{gate.pk}/")
        page.keyboard.press("End")  # a result is accepted by who saw its files
        expect(page.locator(f"#gate-{gate.pk} form.approve button")).to_be_enabled()
    ana.locator(f"#gate-{gate.pk} form.approve button").click()
    wait_until(lambda: Decision.objects.filter(gate=gate).exists(), "a decision")
    bo.locator(f"#gate-{gate.pk} form.approve button").click()
    said = bo.locator(f"#gate-{gate.pk} [role=alert], #messages [role=alert], .toast[data-look=error]").first
    said.wait_for()
    assert re.search(r"Already approved by Ana at \d\d:\d\d UTC", said.inner_text())
    assert bo.locator(f"#gate-{gate.pk} form.approve").count() == 0
    assert Decision.objects.get().decided_by.first_name == "Ana"
    assert ended(run).status == "completed"
    assert Fact.objects.filter(run=run, kind="GateDecided").count() == 1


@pytest.mark.spec("R2", "R3")
def test_after_the_line_was_cut_the_trace_is_complete_and_nothing_is_double(house: House, enter: Enter) -> None:
    run = house.submit("never_stops", workspace=house.invoices, limits={"max_steps": 4})
    with line(house.url) as wire:
        page = enter(wire.url, house.boss)
        page.goto(f"{wire.url}/runs/{run.pk}/")
        page.wait_for_selector("#live[data-state=live]")
        page.evaluate("window.marker = 'same page'")
        held = gate_of(run)  # its limit holds the agent until it is extended, which nobody does before the cut
        page.locator(f"#gate-{held.pk}").wait_for()
        wire.cut()
        page.wait_for_selector("#live[data-state=reconnecting]")
        assert page.locator("#live").inner_text().strip() == "Reconnecting"
        shown = trace(page)
        extend = {"verdict": "extend", "payload": {held.view["limit"]: 8}}
        decisions.decide(actor=house.boss, gate_id=held.pk, digest=held.digest, **extend)
        gate = gate_of(run)
        assert page.locator("#live").get_attribute("data-state") == "reconnecting"
        assert trace(page) == shown
        assert page.locator("#step-4").count() == 1
        assert page.locator("#step-5").count() == 0
        wire.mend()
        page.wait_for_selector("#live[data-state=live]")
        page.locator("#step-8").wait_for()
        page.locator(f"#gate-{gate.pk}").wait_for()
        decisions.decide(actor=house.boss, gate_id=gate.pk, verdict="reject", digest=gate.digest, reason="enough")
        page.locator("#run-end .end-card").wait_for()
        assert page.evaluate("window.marker") == "same page"
        live = trace(page)
        page.reload()
        page.locator("#run-end .end-card").wait_for()
        page.locator("[data-fold=open]").click()
        assert live == trace(page)
    steps = [one for one in live if one[0] != "step-0"]
    assert [number for number, _ in steps] == [f"step-{number}" for number in range(1, 9)]
    assert sum(calls for _, calls in steps) == ToolCallRecord.objects.filter(run=run).count() == 8
    assert ended(run).end_reason == "max_steps"


def trace(page: Any) -> list[tuple[str, int]]:
    """(id, number of calls) of every card in order."""
    items = page.locator("#steps > li").evaluate_all(
        "items => items.map(item => [item.id, item.querySelectorAll('.call').length])"
    )
    return [(name, calls) for name, calls in items]
