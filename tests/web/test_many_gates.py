"""A full queue: what each row is about can be read in it, and all of it is decided by keys alone, or with a thumb."""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any

import pytest
from playwright.sync_api import expect

from gates.models import Decision, Gate
from gates.policy.kinds import Kind
from gates.policy.verdicts import ALLOWED
from loops.engine.values import Verdict
from tests.integration.gates.builders import make_run
from tests.web.browsing import settled
from tests.web.test_review_selection import a_gate, give

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("Q7", "X6")]
DEEDS: dict[Kind, str] = {
    Kind.TOOL_APPROVAL: "Run python3 -m unittest discover -s tests -p 'test_invoices_*.py' --verbose --failfast",
    Kind.IRREVERSIBLE_ACTION: "Send mail to accounts@example.org",
    Kind.QUESTION: "Which currency do invoices without one have?",
    Kind.FINAL_REVIEW: "Accept the result? 3 files changed",
    Kind.LIMIT_REACHED: "Steps: 20 of 20 used",
    Kind.NO_PRICE: "No price known: at least 0.2 of 2 US dollars",
    Kind.LOOP_DETECTED: "The same call three times: read_file src/rounding.py",
    Kind.IN_DOUBT: "Was it done? Write src/a/rather/deep/path/of/a/monorepo/packages/billing/rounding.py",
    Kind.ROLLBACK_CHOICE: "Roll back or keep 3 changed files",
    Kind.LOW_CONFIDENCE: "Low confidence: 0.20",
    Kind.PERMISSION_BLOCKED: "Write ../other/notes.md",
    Kind.ESCALATION: "The disk is full",
    Kind.CHECKS_NOT_RUN: "The checks cannot run here: Node is not installed",
    Kind.LONG_TASK: "Continue? 20 steps since the last confirmation, 40 in all",
}


ROWS = """() => Object.fromEntries([...document.querySelectorAll("[data-row]")].map(row => [row.dataset.row, [
    row.innerText,
    [...row.querySelectorAll("*")].filter(one => one.scrollWidth > one.clientWidth + 1
        || one.getBoundingClientRect().right > window.innerWidth).map(one => one.outerHTML),
]]))"""
"""At once: the list is drawn anew when the queue has news."""


def gates_of(desk: Any, count: int) -> list[Gate]:
    """So many, each of a task of its own, of every kind that there is."""
    found = []
    for number, kind in enumerate(islice(cycle(Kind), count)):
        title = f"Invoices, part {number}: fix the rounding of totals"
        run = make_run(desk.world.project, desk.world.author, title=title)
        risk = "high" if number % 5 == 0 else "medium"
        found.append(a_gate(desk.world, kind, title=DEEDS.get(kind, str(kind)), run=run, risk=risk))
    return found


def rows_say_all(desk: Any, gates: list[Gate]) -> None:
    """Each its deed, project and task, none of it cut off."""
    rows = desk.evaluate(ROWS)
    for gate in gates:
        said, cut_off = rows[str(gate.pk)]
        for words in (gate.title, gate.project.name, gate.run.task.title):
            assert words in said
        assert cut_off == []


def decided(gate: Gate) -> bool:
    return Decision.objects.filter(gate=gate).exists()


def test_twenty_two_gates_are_decided_by_keys_alone(desk: Any) -> None:
    gates = {str(gate.pk): gate for gate in gates_of(desk, 22)}
    desk.goto(f"{desk.site}/review/")
    settled(desk)
    rows_say_all(desk, list(gates.values()))
    while gates:
        settled(desk)
        shown = desk.locator("article[data-gate]")
        gate = gates.pop(str(shown.get_attribute("data-gate")))
        desk.wait_for_timeout(600)  # so soon a key is not taken
        give(desk, gate, ALLOWED[Kind(gate.kind)][0])
        if desk.locator(f"#gate-{gate.pk} [data-sure]:visible").count():
            desk.keyboard.press("y")
        desk.locator(f"#gate-{gate.pk}").wait_for(state="detached")
        assert decided(gate)
    expect(desk.locator("#queue")).to_contain_text("No pending decisions")


def test_twelve_gates_are_decided_on_a_phone(desk: Any) -> None:
    desk.set_viewport_size({"width": 390, "height": 844})
    gates = gates_of(desk, 12)
    desk.goto(f"{desk.site}/review/")
    settled(desk)
    rows_say_all(desk, gates)
    for gate in gates:
        desk.goto(f"{desk.site}/review/")
        desk.locator(f"#row-{gate.pk}").click()
        card = desk.locator(f"#gate-{gate.pk}")
        card.locator(".gate-head").wait_for()
        settled(desk)
        by_thumb(desk, card, gate)
        card.wait_for(state="detached")
        assert decided(gate)


def by_thumb(desk: Any, card: Any, gate: Gate) -> None:
    """The first verdict that its kind has, by pressing what is in view."""
    verdict = ALLOWED[Kind(gate.kind)][0]
    form = card.locator(f"form[data-verdict={verdict}]")
    if gate.kind == Kind.IRREVERSIBLE_ACTION:
        form.locator("[data-word]").fill("write_file")
    if verdict == Verdict.RESPOND:
        form.locator("textarea").first.fill("because")
    button = form.locator("button[type=submit]").first
    expect(button).to_be_in_viewport(ratio=1)
    assert button.bounding_box()["height"] >= 40
    sure = form.locator("[data-sure] [name=sure]")
    for _ in range(20):
        desk.wait_for_timeout(600)  # so soon a press is not taken
        if not card.count() or card.locator("form.htmx-request").count():
            return
        (sure if sure.count() and sure.is_visible() else button).click()
