"""An agent that runs into a wall, as people see it: real worker, real tools, real browser (decision 83)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loops.models import Fact, Run, ToolCallRecord
from tests.e2e.conftest import House, ended, gate_of

pytestmark = pytest.mark.django_db(transaction=True)
Enter = Callable[[str, Any], Any]


def asked(house: House, page: Any, run: Run, kind: str) -> Any:
    """The card of the gate that the run waits at, on its page of the queue."""
    gate = gate_of(run)
    assert gate.kind == kind
    page.goto(f"{house.url}/review/{gate.pk}/")
    return page.locator("article[data-gate]")


def advise(card: Any, text: str) -> None:
    card.locator("form[data-verdict=respond] textarea").fill(text)
    card.locator("form[data-verdict=respond] button[type=submit]").click()


def kinds(run: Run) -> list[str]:
    return list(Fact.objects.filter(run=run).order_by("seq").values_list("kind", flat=True))


@pytest.mark.spec("E2", "E3")
def test_an_approach_that_fails_is_given_up_for_one_that_works(house: House, enter: Enter) -> None:
    page = enter(house.url, house.boss)
    run = house.submit("steps_back", final_review="never")
    page.goto(f"{house.url}/runs/{run.pk}/")
    page.locator("#run-end .end-card").wait_for()
    assert ended(run).status == "completed"
    assert "Backtracked" in page.locator("main").inner_text()
    assert kinds(run).count("Backtracked") >= 1
    failed = [call.arguments for call in ToolCallRecord.objects.filter(run=run, ok=False, state="COMPLETE")]
    assert len(failed) == len({str(arguments) for arguments in failed}) > 1  # no failing call was made twice


@pytest.mark.spec("F1", "F3", "Q1")
def test_a_loop_is_broken_rung_by_rung_and_then_put_before_a_person(house: House, enter: Enter) -> None:
    page = enter(house.url, house.boss)
    run = house.submit("goes_in_circles", final_review="never")
    card = asked(house, page, run, "loop_detected")
    rungs = kinds(run)
    assert rungs.index("LoopDetected") < rungs.index("LoopBroken") < rungs.index("GateOpened")
    assert "Loop detected" in card.inner_text()
    advise(card, "There is no settings file. Say so.")
    assert ended(run).status == "completed"


@pytest.mark.spec("G2", "Q1")
def test_a_low_confidence_is_put_before_a_person_whose_advice_helps(house: House, enter: Enter) -> None:
    page = enter(house.url, house.boss)
    run = house.submit("loses_confidence", final_review="never", workspace=house.invoices)
    card = asked(house, page, run, "low_confidence")
    assert "Confidence low, uncalibrated" in card.inner_text()
    advise(card, "Rounding at the end is right. Write that down.")
    assert ended(run).status == "completed"
    assert ToolCallRecord.objects.filter(run=run, tool="write_file", ok=True).exists()


@pytest.mark.spec("I4", "Q1")
def test_a_denied_call_never_runs_and_the_agent_adapts(house: House, enter: Enter) -> None:
    page = enter(house.url, house.boss)
    run = house.submit("not_allowed", final_review="never", workspace=house.invoices)
    card = asked(house, page, run, "permission_blocked")
    advise(card, "Move it aside instead.")
    assert ended(run).status == "completed"
    deleted = ToolCallRecord.objects.filter(run=run, tool="delete_file")
    assert deleted.count() == 2
    assert not deleted.filter(state="COMPLETE").exists()
    assert ToolCallRecord.objects.get(run=run, tool="move_file").ok
