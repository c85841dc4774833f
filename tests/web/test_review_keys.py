"""The Review page by keyboard, in a real browser."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from gates.models import Decision, Gate
from tests import decisions
from tests import factories as make
from tests.integration.gates.builders import open_gate, tool_view
from tests.web.browsing import approved_by_key, approved_together, faults, looked_at, settled

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("Q7")]


def wait_decided(desk: Any, gate: Gate) -> Decision:
    desk.locator(f"#gate-{gate.pk}").wait_for(state="detached")
    return Decision.objects.get(gate=gate)


def approve(desk: Any, gate: Gate) -> Decision:
    """When the card or its button was out of view the first press only shows it, and the second approves."""
    assert approved_by_key(desk, gate, presses=3)
    return wait_decided(desk, gate)


def test_moving_opening_and_approving_leads_to_the_next(desk: Any) -> None:
    first, second, third = (open_gate(desk.world, title=f"Thing {number}") for number in range(3))
    desk.goto(f"{desk.site}/review/")
    desk.locator(f"#gate-{first.pk}").wait_for()
    settled(desk)
    desk.keyboard.press("j")
    desk.keyboard.press("Enter")
    desk.locator(f"#gate-{second.pk}[data-met]").wait_for()
    assert desk.url.endswith(f"/review/{second.pk}/")
    assert approve(desk, second).verdict == "approve"
    desk.locator(f"#gate-{first.pk}").wait_for()
    expect(desk.locator("#messages")).to_contain_text("Approved: Thing 1")
    settled(desk)
    desk.keyboard.press("r")
    expect(desk.locator(f"#reason-{first.pk}")).to_be_focused()
    desk.keyboard.type("not a jar")
    assert desk.locator(f"#reason-{first.pk}").input_value() == "not a jar"
    desk.keyboard.press("Control+Enter")
    assert wait_decided(desk, first).reason == "not a jar"
    desk.locator(f"#gate-{third.pk}[data-met]").wait_for()
    approve(desk, third)
    expect(desk.locator("#queue")).to_contain_text("No pending decisions")


@pytest.mark.spec("O1")
def test_irreversible_action_asks_for_its_word_first(desk: Any) -> None:
    gate = open_gate(desk.world, "irreversible_action")
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    settled(desk)
    desk.keyboard.press("a")
    expect(desk.locator("[data-word]").first).to_be_focused()
    desk.keyboard.type("write_file")
    assert not Decision.objects.exists()
    desk.keyboard.press("Control+Enter")
    assert wait_decided(desk, gate).verdict == "approve"


@pytest.mark.spec("O1")
def test_the_word_typed_at_once_on_the_next_card_is_no_row_of_keys(desk: Any) -> None:
    """`r` is in it, which rejects, and so is `e`."""
    first, second = open_gate(desk.world, risk="medium"), open_gate(desk.world, "irreversible_action", risk="low")
    desk.goto(f"{desk.site}/review/{first.pk}/")
    settled(desk)
    desk.keyboard.press("a")
    desk.locator(f"#gate-{second.pk}").wait_for()
    settled(desk)
    desk.keyboard.press("a")
    desk.keyboard.type("write_file")
    looked_at(desk, second)
    desk.keyboard.press("Control+Enter")
    assert wait_decided(desk, second).verdict == "approve"


@pytest.mark.parametrize("risk", ["high", "critical"])
def test_high_risk_takes_a_second_and_different_key(desk: Any, risk: str) -> None:
    gate = open_gate(desk.world, risk=risk)
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    settled(desk)
    desk.keyboard.press("y")
    for _ in range(4):
        desk.keyboard.press("a")
        desk.wait_for_timeout(100)
    expect(desk.locator("form.approve [data-sure]")).to_contain_text(f"{risk.capitalize()} risk: are you sure?")
    desk.get_by_role("button", name="No", exact=True).click()
    desk.keyboard.press("y")
    desk.locator("form.approve [data-approve]").click()
    expect(desk.locator("form.approve [data-sure]")).to_be_visible()
    assert not Decision.objects.exists()
    settled(desk)
    desk.keyboard.press("y")
    assert wait_decided(desk, gate).verdict == "approve"


def test_medium_risk_takes_one(desk: Any) -> None:
    gate = open_gate(desk.world, risk="medium")
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    settled(desk)
    desk.keyboard.press("a")
    assert wait_decided(desk, gate).verdict == "approve"


def decisions_sent(desk: Any) -> list[str]:
    sent: list[str] = []
    desk.on("request", lambda request: sent.append(request.post_data) if "/decide/" in request.url else None)
    return sent


def test_an_edited_call_of_high_risk_takes_a_second_and_different_key_too(desk: Any) -> None:
    gate = open_gate(desk.world, risk="high")
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    settled(desk)
    sent, form = decisions_sent(desk), desk.locator("form[data-verdict=approve_with_edits]")
    desk.keyboard.press("e")
    expect(form).to_be_visible()
    for _ in range(3):
        form.locator("textarea").first.press("Control+Enter")
    expect(form.locator("[data-sure]")).to_contain_text("High risk: are you sure?")
    assert sent == []
    desk.keyboard.press("y")
    expect(desk.locator(f"#gate-{gate.pk} [role=alert]").first).to_be_visible()  # judged by tools that are not here
    assert len(sent) == 1
    assert "sure=1" in sent[0]


def test_an_edited_call_of_medium_risk_takes_one(desk: Any) -> None:
    gate = open_gate(desk.world, risk="medium")
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    settled(desk)
    sent = decisions_sent(desk)
    desk.keyboard.press("e")
    desk.locator("form[data-verdict=approve_with_edits] textarea").first.press("Control+Enter")
    expect(desk.locator(f"#gate-{gate.pk} [role=alert]").first).to_be_visible()
    assert len(sent) == 1


@pytest.mark.spec("Q5")
def test_what_was_not_read_to_its_end_is_not_approved_by_editing_it(desk: Any) -> None:
    """A command of 150 lines, none of them changed: that is an approval."""
    gate = open_gate(desk.world, risk="medium", view=tool_view(command="echo ok\n" * 150))
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    settled(desk)
    sent = decisions_sent(desk)
    desk.keyboard.press("e")
    form = desk.locator("form[data-verdict=approve_with_edits]")
    expect(form).to_be_visible()
    form.locator("textarea").first.press("Control+Enter")
    desk.wait_for_timeout(600)  # so soon a press is not taken
    assert sent == []
    for _ in range(30):
        if sent:
            break
        desk.keyboard.press("Control+Enter")
        desk.wait_for_timeout(600)
    assert len(sent) == 1


@pytest.mark.parametrize("where", ["review", "run"])
def test_claiming_and_releasing_keep_a_half_written_reason(desk: Any, where: str) -> None:
    gate = open_gate(desk.world)
    desk.goto(f"{desk.site}/review/{gate.pk}/" if where == "review" else f"{desk.site}/runs/{gate.run_id}/")
    reason = desk.locator(f"#reason-{gate.pk}")
    desk.locator("[data-pane=reject]").click()
    reason.fill("it would dele")
    for button in ("Claim", "Release"):
        settled(desk)
        desk.get_by_role("button", name=button, exact=True).click()
        expect(desk.get_by_role("button", name=button, exact=True)).to_have_count(0)
        expect(reason).to_be_visible()
        expect(reason).to_have_value("it would dele")
    settled(desk)
    reason.press("End")
    reason.press_sequentially("te the invoices")
    reason.press("Control+Enter")
    desk.get_by_text("it would delete the invoices").first.wait_for() if where == "run" else wait_decided(desk, gate)
    assert Decision.objects.get(gate=gate).reason == "it would delete the invoices"


@pytest.mark.spec("Q5")
def test_long_view_unlocks_when_it_was_read_to_its_end(desk: Any) -> None:
    """A jump to its end shows the end, and nothing of what lies between."""
    gate = open_gate(desk.world, view=tool_view(command=f"echo {'x' * 100}\n" * 220))
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    button = desk.locator("form.approve [data-approve]")
    assert button.is_disabled()
    desk.keyboard.press("a")
    assert button.is_disabled()
    desk.keyboard.press("End")
    button.click()  # waits until it is enabled
    settled(desk)
    assert not Decision.objects.filter(gate=gate).exists()
    assert approved_by_key(desk, gate, presses=30) > 3


def test_selecting_stays_within_one_kind_and_risk(desk: Any) -> None:
    for risk in ("high", "high", "low"):
        open_gate(desk.world, risk=risk)
    desk.goto(f"{desk.site}/review/")
    settled(desk)
    desk.keyboard.press("j")
    desk.keyboard.press("x")
    desk.keyboard.press("k")
    desk.keyboard.press("x")
    boxes = desk.locator("#queue input[name=item]")
    for number, chosen in enumerate((True, True, False)):
        expect(boxes.nth(number)).to_be_checked(checked=chosen)
    expect(boxes.nth(2)).to_be_disabled()
    desk.locator("[data-bulk] [value=approve]").click()
    expect(desk.locator("h1")).to_contain_text("Approve 2 together?")


@pytest.mark.spec("Q5")
def test_several_long_ones_unlock_when_the_end_of_each_was_on_the_screen(desk: Any) -> None:
    line = "echo one more line of a long command\n" * 240
    for number in range(3):
        view = tool_view(argv=["/bin/bash", "-c", f"{line}{number}"])
        open_gate(desk.world, title=f"Thing {number}", risk="high", view=view)
    desk.goto(f"{desk.site}/review/")
    settled(desk)
    for box in desk.locator("#queue input[name=item]").all():
        box.check()
    desk.locator("[data-bulk] [value=approve]").click()
    button = desk.get_by_role("button", name="Approve 3")
    expect(button).to_be_disabled()
    wholes = desk.locator("[data-together] article")
    for number in (2, 0, 1):  # to the end of the page first: that is not to have read what is above
        expect(button).to_be_disabled()
        wholes.nth(number).locator("[data-end]").scroll_into_view_if_needed()
        expect(wholes.nth(number)).not_to_have_attribute("data-long", "")
    assert approved_together(desk) > 3, "ends alone are no reading"
    assert Decision.objects.filter(verdict="approve").count() == 3


def test_loser_of_a_race_reads_who_and_when(desk: Any) -> None:

    gate = open_gate(desk.world)
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    decisions.decide(actor=desk.world.second, gate_id=gate.pk, verdict="reject", digest=gate.digest, reason="no")
    settled(desk)
    desk.keyboard.press("a")
    desk.get_by_text("Already rejected by Bo at").first.wait_for()
    assert Decision.objects.get().verdict == "reject"


@pytest.mark.spec("Q7", "R1")
def test_new_gate_appears_without_reload(desk: Any) -> None:
    kept = open_gate(desk.world, title="First")
    desk.goto(f"{desk.site}/review/")
    settled(desk)
    desk.keyboard.press("r")
    expect(desk.locator(f"#reason-{kept.pk}")).to_be_focused()
    desk.keyboard.type("half a reason")
    gate = open_gate(desk.world, title="Second")
    desk.evaluate("document.body.dispatchEvent(new Event('queue-changed'))")
    desk.locator(f"#queue [data-row='{gate.pk}']").wait_for()
    assert desk.locator(f"#reason-{kept.pk}").input_value() == "half a reason"


@pytest.mark.spec("Q5", "Q7")
@pytest.mark.parametrize("place", ["review", "run"])
def test_a_gate_that_somebody_else_decides_says_so_and_takes_no_key(desk: Any, place: str) -> None:
    gate = open_gate(desk.world, view=tool_view(diff="@@ -1 +1,90 @@\n" + "+a line of it\n" * 90))
    make.step(desk.world.run, 3)
    desk.goto(f"{desk.site}/review/{gate.pk}/" if place == "review" else f"{desk.site}/runs/{gate.run_id}/")
    desk.locator(f"#gate-{gate.pk}").wait_for()
    settled(desk)
    desk.keyboard.press("r")
    expect(desk.locator(f"#reason-{gate.pk}")).to_be_focused()
    desk.keyboard.type("half a reas")
    decisions.decide(actor=desk.world.second, gate_id=gate.pk, verdict="approve", digest=gate.digest)
    expect(desk.get_by_text("Already approved by bo").first).to_be_in_viewport()
    posts: list[str] = []
    desk.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    for key in ("o", "n", "a", "r", "Control+Enter"):
        desk.keyboard.press(key)
    desk.wait_for_timeout(1600)
    for key in ("a", "r", "a"):
        desk.keyboard.press(key)
    desk.wait_for_timeout(300)
    assert posts == []


@pytest.mark.spec("Q7")
def test_what_is_written_stays_while_the_gate_is_open(desk: Any) -> None:
    gate = open_gate(desk.world)
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    settled(desk)
    desk.keyboard.press("r")
    desk.locator(f"#reason-{gate.pk}").fill("half a reason")
    for digest in (gate.digest, "0" * 64):  # the second: more time was given, say
        Gate.objects.filter(pk=gate.pk).update(digest=digest)
        with desk.expect_response(lambda answer: "/state/" in answer.url):
            desk.evaluate("document.body.dispatchEvent(new Event('queue-changed'))")
        desk.locator(f"#gate-{gate.pk} input[name=digest][value='{digest}']").first.wait_for(state="attached")
        expect(desk.locator(f"#reason-{gate.pk}")).to_be_visible()
        assert desk.locator(f"#reason-{gate.pk}").input_value() == "half a reason"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_has_no_accessibility_violations(desk: Any, scheme: str) -> None:
    desk.emulate_media(color_scheme=scheme)
    gate = open_gate(desk.world, view=tool_view(diff="@@ -1 +1 @@\n-a\n+b", command="ls\u200b"), confidence=0.4)
    open_gate(desk.world, "question", view={"question": "Which?", "choices": ["a", "b"]})
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    settled(desk)
    desk.keyboard.press("e")
    expect(desk.locator("[data-pane-of=edit]")).to_be_visible()
    assert faults(desk, ".review") == []


@pytest.mark.spec("Q5")
@pytest.mark.parametrize("where", ["review", "run"])
def test_an_approval_of_high_risk_is_taken_back_by_a_key(desk: Any, where: str) -> None:
    """By the page's own waiting time: it is that of the product."""
    gate = open_gate(desk.world, risk="high")
    desk.goto(f"{desk.site}/review/{gate.pk}/" if where == "review" else f"{desk.site}/runs/{gate.run_id}/")
    settled(desk)
    assert approved_by_key(desk, gate, presses=8)
    expect(desk.get_by_role("button", name="Take back")).to_be_visible()
    settled(desk)
    desk.keyboard.press("u")
    expect(desk.locator(f"#gate-{gate.pk}")).to_contain_text("and taken back: it is asked again")
    gate.refresh_from_db()
    assert gate.status == "void"
    desk.keyboard.press("u")
    expect(desk.get_by_role("button", name="Take back")).to_have_count(0)


@pytest.mark.spec("Q5")
def test_what_can_be_taken_back_is_in_view_on_a_phone_however_long_the_next_card(desk: Any) -> None:
    desk.set_viewport_size({"width": 390, "height": 844})
    gate = open_gate(desk.world, risk="high")
    open_gate(desk.world, risk="low", view=tool_view(command="echo ok\n" * 120))
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    settled(desk)
    assert approved_by_key(desk, gate, presses=8)
    desk.mouse.wheel(0, 900)
    button = desk.get_by_role("button", name="Take back")
    expect(button).to_be_in_viewport(ratio=1)
    button.click()
    expect(desk.locator("#messages")).to_contain_text("Taken back")


@pytest.mark.spec("Q5")
def test_what_can_be_taken_back_no_more_offers_it_no_more(desk: Any) -> None:
    gate = open_gate(desk.world, risk="high")
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    settled(desk)
    assert approved_by_key(desk, gate, presses=8)
    button = desk.get_by_role("button", name="Take back")
    expect(button).to_be_visible()
    Gate.objects.filter(pk=gate.pk).update(consumed_at=gate.opened_at)
    button.click()
    expect(desk.locator("#messages")).to_contain_text("It has begun: it cannot be taken back.")
    desk.reload()
    expect(desk.get_by_role("button", name="Take back")).to_have_count(0)
