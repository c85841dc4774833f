"""One selection: what is marked is what is decided, by every key, at every size, however the list moves."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import pytest
from playwright.sync_api import expect

from gates.models import Decision, Gate
from gates.policy.kinds import Kind
from gates.policy.verdicts import ALLOWED
from gates.web.labels import KEYS, key_of
from loops.engine.values import Verdict
from loops.models import Run
from tests import decisions
from tests import factories as make
from tests.integration.gates.builders import World, make_run, open_gate, tool_view
from tests.web.browsing import approved_by_key, approved_together, settled, slow, wait_for_answer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("X6", "Q7")]

VIEWS: dict[Kind, dict[str, Any]] = {
    Kind.QUESTION: {"question": "Which currency?", "choices": ["EUR", "USD"]},
    Kind.FINAL_REVIEW: {"result": "Done.", "criteria": []},
    Kind.LIMIT_REACHED: {"limit": "max_steps", "used": 20, "bound": 20, "suggested": 40},
    Kind.NO_PRICE: {"limit": "max_cost_usd", "label": "US dollars", "used": 0.2, "bound": 2.0},
    Kind.LOOP_DETECTED: {"method": "identical_calls", "steps": []},
    Kind.IN_DOUBT: tool_view(attempt=1),
    Kind.ROLLBACK_CHOICE: {"choices": ["roll_back", "keep", "continue"], "files": [], "others": [{"what": "a mail"}]},
    Kind.LOW_CONFIDENCE: {"score": 0.2, "threshold": 0.5, "features": {"errors": 0.5}, "weights": {"errors": 0.5}},
    Kind.PERMISSION_BLOCKED: tool_view(alternatives=[], specialist="Nobody"),
    Kind.ESCALATION: {"failure": "The disk is full.", "tried": [], "files_changed": []},
    Kind.CHECKS_NOT_RUN: {"failure": "Node is not installed.", "rule": "missing_program"},
    Kind.LONG_TASK: {
        "steps": 20,
        "steps_since": 20,
        "progress": 0.5,
        "spent_usd": 0.1,
        "tokens": 9,
        "asks_again_after": 9,
    },
}
WALK = [(kind, verdict) for kind, verdicts in ALLOWED.items() for verdict in verdicts]
SIZES = [(1440, 900), (1536, 864), (390, 844)]


def a_gate(world: World, kind: Kind = Kind.TOOL_APPROVAL, **more: Any) -> Gate:
    return open_gate(world, kind, **{"view": VIEWS.get(kind, tool_view()), **more})


def marked(desk: Any) -> str:
    """The gate that the list marks for eyes and for screen readers alike."""
    rows = desk.locator("#queue a[aria-current=true]")
    expect(rows).to_have_count(1)
    assert rows.evaluate("row => getComputedStyle(row.parentElement).backgroundColor") != "rgba(0, 0, 0, 0)"
    return str(rows.get_attribute("id")).removeprefix("row-")


def with_script(desk: Any, guard: str, instead: str) -> None:
    """Let the page have its script with ``instead`` in place of ``guard``."""

    def unguarded(route: Any) -> None:
        script = route.fetch().text()
        assert guard in script
        route.fulfill(body=script.replace(guard, instead), content_type="text/javascript")

    desk.route("**/js/review*.js", unguarded)


def give(desk: Any, gate: Gate, verdict: Verdict) -> None:
    """The verdict by keys alone: its own, what it asks for, and Ctrl Enter."""
    desk.keyboard.press(key_of(verdict))
    if verdict == Verdict.APPROVE_WITH_EDITS:
        expect(desk.locator("[data-pane-of=edit]")).to_be_visible()
        if gate.kind == Kind.IRREVERSIBLE_ACTION:
            desk.locator("[data-pane-of=edit] input[name=confirm]").fill("write_file")
        desk.locator("[data-pane-of=edit] textarea").first.press("Control+Enter")
    elif verdict in (Verdict.REJECT, Verdict.RESPOND):
        desk.keyboard.type("because")
        desk.keyboard.press("Control+Enter")
    elif gate.kind == Kind.IRREVERSIBLE_ACTION:
        desk.keyboard.type("write_file")
        desk.keyboard.press("Control+Enter")
    elif verdict == Verdict.ROLL_BACK:
        expect(desk.locator("[data-verdict=roll_back] [data-sure]")).to_be_visible()
        assert not Decision.objects.filter(gate=gate).exists()
        desk.keyboard.press("y")


def test_every_verdict_of_every_kind_has_a_key_that_gives_it(desk: Any) -> None:
    for kind, verdict in WALK:
        gate = a_gate(desk.world, kind, title=f"{kind} {verdict}")
        desk.goto(f"{desk.site}/review/{gate.pk}/")
        settled(desk)
        give(desk, gate, verdict)
        if verdict == Verdict.APPROVE_WITH_EDITS:  # judged by tools that this room does not have: it was asked for
            expect(desk.locator(f"#gate-{gate.pk} [role=alert]").first).to_be_visible()
            continue
        desk.locator(f"#gate-{gate.pk}").wait_for(state="detached")
        assert Decision.objects.get(gate=gate).verdict == verdict, kind


def test_a_decision_opened_by_its_address_is_in_view_in_the_list(desk: Any) -> None:
    last = [a_gate(desk.world) for _ in range(25)][-1]
    desk.goto(f"{desk.site}/review/{last.pk}/")
    settled(desk)
    assert marked(desk) == str(last.pk)
    expect(desk.locator(f"#row-{last.pk}")).to_be_in_viewport(ratio=1)
    expect(desk.locator(f"#gate-{last.pk} .gate-head")).to_be_in_viewport(ratio=1)


def test_keys_are_told_apart_and_listed(desk: Any) -> None:
    given = [verdict for one in KEYS for verdict in one.verdicts]
    assert sorted(given) == sorted(set(Verdict) - {Verdict.EXPIRE})
    for verdicts in ALLOWED.values():
        assert max(Counter(map(key_of, verdicts)).values()) == 1
    desk.goto(f"{desk.site}/review/")
    desk.keyboard.press("?")
    listed = desk.locator("#keys kbd").all_inner_texts()
    assert {one.key for one in KEYS} <= set(listed)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_as_many_presses_as_screens_approve_at_every_size(desk: Any, size: tuple[int, int]) -> None:
    """What is decided on is on the screen first, all of it; then one more press decides."""
    desk.set_viewport_size({"width": size[0], "height": size[1]})
    for where, lines in itertools.product(("review", "run"), (1, 25, 150)):
        run = make_run(desk.world.project, desk.world.author)
        for number in range(1, 9):
            make.step(run, number)
        gate = a_gate(desk.world, view=tool_view(command="echo ok\n" * lines), step=8, run=run)
        Run.objects.filter(pk=run.pk).update(status="waiting", **make.waiting("gate", "tool_approval"))
        desk.goto(f"{desk.site}/review/{gate.pk}/" if where == "review" else f"{desk.site}/runs/{run.pk}/")
        desk.locator(f"#gate-{gate.pk}").wait_for()
        screens = math.ceil(desk.evaluate(HEIGHT) / (size[1] * 0.4))
        presses = approved_by_key(desk, gate, presses=screens + 3)
        assert 1 <= presses <= screens + 2, (where, lines)
        assert lines < 150 or presses >= math.floor(desk_height(lines) / size[1]), (where, lines)


HEIGHT = "() => document.querySelector('[data-bound]').offsetTop - document.querySelector('[data-gate]').offsetTop"
LONG = "\n".join(f"+line {number} of it" for number in range(150))


def desk_height(lines: int) -> int:
    """At least so many pixels."""
    return lines * 16


@pytest.mark.spec("Q5")
@pytest.mark.parametrize("way", ["key", "End and the key", "button", "End and the button"])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=str)
def test_what_was_not_on_the_screen_is_not_approved(desk: Any, size: tuple[int, int], way: str) -> None:
    """Of 150 lines the first are in sight, or the last: neither is all of it."""
    desk.set_viewport_size({"width": size[0], "height": size[1]})
    gate = a_gate(desk.world, view=tool_view(diff=f"--- a\n+++ a\n@@ -0,0 +1,150 @@\n{LONG}\n"))
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    desk.locator(f"#gate-{gate.pk}").wait_for()
    settled(desk)
    desk.wait_for_timeout(600)  # so soon a key is not taken
    if way.startswith("End"):
        desk.keyboard.press("End")
        desk.wait_for_timeout(300)
    if way.endswith("key"):
        desk.keyboard.press("a")
    else:
        desk.locator("[data-verdicts] [data-approve]").first.click()
    desk.wait_for_timeout(600)
    settled(desk)
    assert not Decision.objects.filter(gate=gate).exists()
    assert approved_by_key(desk, gate, presses=30)


@pytest.mark.spec("Q5")
def test_without_the_guard_one_press_at_the_end_would_approve_it(desk: Any) -> None:
    """The control of the test above."""
    with_script(desk, "return !end || readTo(gate) >=", "return !end || true || readTo(gate) >=")
    gate = a_gate(desk.world, view=tool_view(diff=f"--- a\n+++ a\n@@ -0,0 +1,150 @@\n{LONG}\n"))
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    settled(desk)
    desk.wait_for_timeout(600)  # so soon a press is not taken
    desk.keyboard.press("End")
    button = desk.locator("[data-verdicts] [data-approve]").first
    expect(button).to_be_enabled()
    desk.wait_for_function("() => scrollY + innerHeight >= document.documentElement.scrollHeight - 1")
    button.click()
    desk.locator(f"#gate-{gate.pk}").wait_for(state="detached")
    assert Decision.objects.get().verdict == "approve"


@pytest.mark.spec("Q5")
def test_presses_in_a_row_lead_one_screen_on_and_no_further(desk: Any) -> None:
    gate = a_gate(desk.world, view=tool_view(diff=f"--- a\n+++ a\n@@ -0,0 +1,150 @@\n{LONG}\n"))
    desk.goto(f"{desk.site}/review/{gate.pk}/")
    settled(desk)
    desk.wait_for_timeout(600)  # so soon a key is not taken
    moved = desk.evaluate("""() => {
        const before = window.scrollY;
        for (let press = 0; press < 60; press += 1) window.dispatchEvent(new KeyboardEvent("keydown", {key: "a"}));
        for (let press = 0; press < 60; press += 1) document.querySelector("form.approve [data-approve]").click();
        return (window.scrollY - before) / window.innerHeight;
    }""")
    assert 0 < moved <= 1
    settled(desk)
    assert not Decision.objects.exists()
    assert approved_by_key(desk, gate, presses=30) > 2


def test_a_browser_without_scripts_rejects_and_approves(desk: Any) -> None:
    first, second = (a_gate(desk.world, title=f"Thing {number}", risk="high") for number in range(2))
    plain = desk.context.browser.new_context(java_script_enabled=False, storage_state=desk.context.storage_state())
    page = plain.new_page()
    page.goto(f"{desk.site}/review/{first.pk}/")
    page.locator(f"#reason-{first.pk}").fill("Not on a Friday.")
    page.locator("[data-verdict=reject] button").click()
    expect(page.locator("h2", has_text="Thing 1")).to_be_visible()
    page.locator("form.approve [data-approve]").click()
    assert [decision.reason for decision in Decision.objects.all()] == ["Not on a Friday."]
    page.locator("form.approve [data-sure] [name=sure]").click()
    expect(page.locator("#messages")).to_contain_text("Approved: Thing 1")
    assert Decision.objects.get(gate=second).verdict == "approve"
    plain.close()


@pytest.mark.spec("Q5")
def test_a_card_whose_head_never_was_on_the_screen_is_shown_from_there(desk: Any) -> None:
    """On the page of a run, below its steps, and the reader went straight to the end."""
    run = make_run(desk.world.project, desk.world.author)
    for number in range(1, 31):
        make.step(run, number)
    gate = a_gate(desk.world, view=tool_view(diff=f"--- a\n+++ a\n@@ -0,0 +1,150 @@\n{LONG}\n"), step=30, run=run)
    Run.objects.filter(pk=run.pk).update(status="waiting", **make.waiting("gate", "tool_approval"))
    desk.goto(f"{desk.site}/runs/{run.pk}/#step-1")
    card = desk.locator(f"#gate-{gate.pk}")
    card.wait_for()
    settled(desk)
    desk.keyboard.press("End")
    desk.wait_for_timeout(600)
    card.locator("[data-verdicts] [data-approve]").first.click()
    expect(card.locator(".gate-head")).to_be_in_viewport()
    assert not Decision.objects.filter(gate=gate).exists()


def test_moving_marks_opens_and_decides_the_same(desk: Any) -> None:
    gates = [a_gate(desk.world, title=f"Thing {number}") for number in range(4)]
    desk.goto(f"{desk.site}/review/")
    settled(desk)
    for key, at in (("j", 1), ("j", 2), ("k", 1), ("j", 2)):
        desk.keyboard.press(key)
        desk.locator(f"#gate-{gates[at].pk}").wait_for()
        settled(desk)
        assert marked(desk) == str(gates[at].pk)
    assert approved_by_key(desk, gates[2], presses=3)


def test_a_key_right_after_a_move_is_not_for_the_card_that_goes(desk: Any) -> None:
    for number in range(2):
        a_gate(desk.world, title=f"Thing {number}")
    first, second = Gate.objects.ranked()  # a machine's clock may be set back between two of them
    desk.goto(f"{desk.site}/review/")
    settled(desk)
    with slow(desk, f"**/review/{second.pk}/*") as answers:
        desk.keyboard.press("j")
        wait_for_answer(desk, answers)
        assert marked(desk) == str(second.pk)
        for key in "aaa":
            desk.keyboard.press(key)
        assert not Decision.objects.exists()
        answers[0]()
        desk.locator(f"#gate-{second.pk}").wait_for()
    assert approved_by_key(desk, second, presses=3)
    assert Gate.objects.get(pk=first.pk).is_open


def test_a_row_that_is_pressed_while_the_list_changes_is_opened(desk: Any) -> None:
    first, second = (a_gate(desk.world, title=f"Thing {number}") for number in range(2))
    desk.goto(f"{desk.site}/review/{first.pk}/")
    settled(desk)
    desk.locator(f"#row-{second.pk}").hover()
    desk.mouse.down()
    third = a_gate(desk.world, title="Thing 2")
    with desk.expect_response(lambda answer: "/review/list/" in answer.url):
        desk.evaluate("document.body.dispatchEvent(new Event('queue-changed'))")
    settled(desk)
    desk.mouse.up()
    desk.locator(f"#gate-{second.pk}").wait_for()
    desk.locator(f"#row-{third.pk}").wait_for()  # what came meanwhile


def wrong_by_focus(desk: Any, gates: list[Gate]) -> Gate:
    """The focus is on one row, the card of another is open."""
    desk.locator(f"#row-{gates[2].pk}").focus()
    return gates[2]


def moved_and_reordered(desk: Any, gates: list[Gate]) -> Gate:
    """What is urgent comes in above while the second is marked."""
    desk.keyboard.press("j")
    desk.locator(f"#gate-{gates[1].pk}").wait_for()
    settled(desk)
    new = a_gate(desk.world, title="Urgent", risk="critical")
    desk.evaluate("document.body.dispatchEvent(new Event('queue-changed'))")
    desk.locator(f"#queue [data-row='{new.pk}']").wait_for()
    return gates[1]


def moved_and_back(desk: Any, gates: list[Gate]) -> Gate:
    desk.keyboard.press("j")
    desk.locator(f"#gate-{gates[1].pk}").wait_for()
    settled(desk)
    desk.go_back()
    desk.locator(f"#gate-{gates[0].pk}").wait_for()
    return gates[0]


def claimed(desk: Any, gates: list[Gate]) -> Gate:
    """A fragment is swapped in."""
    desk.keyboard.press("j")
    desk.locator(f"#gate-{gates[1].pk}").wait_for()
    settled(desk)
    desk.get_by_role("button", name="Claim", exact=True).click()
    desk.get_by_role("button", name="Release", exact=True).wait_for()
    return gates[1]


def lost_to_another(desk: Any, gates: list[Gate]) -> Gate:
    """The marked one is decided by somebody else; the next move marks what is there now."""
    first = gates[0]
    decisions.decide(actor=desk.world.second, gate_id=first.pk, verdict="reject", digest=first.digest, reason="no")
    desk.evaluate("document.body.dispatchEvent(new Event('queue-changed'))")
    desk.locator(f"#queue [data-row='{first.pk}']").wait_for(state="detached")
    desk.keyboard.press("j")
    desk.locator(f"#gate-{gates[1].pk}").wait_for()
    return gates[1]


@pytest.mark.parametrize("story", [wrong_by_focus, moved_and_reordered, moved_and_back, claimed, lost_to_another])
def test_what_is_marked_is_what_is_decided(desk: Any, story: Any) -> None:
    gates = [a_gate(desk.world, title=f"Thing {number}") for number in range(3)]
    desk.goto(f"{desk.site}/review/")
    settled(desk)
    wanted = story(desk, gates)
    settled(desk)
    assert approved_by_key(desk, wanted, presses=4)


def test_without_the_guard_the_wrong_one_would_be_decided(desk: Any) -> None:
    """The control of the test above: the card that is open takes the key, whatever is marked."""
    with_script(
        desk, "if (elsewhere && (elsewhere.dataset.row !== selected() || !card())) return openRow(elsewhere);", ""
    )
    gates = [a_gate(desk.world, title=f"Thing {number}") for number in range(3)]
    desk.goto(f"{desk.site}/review/")
    settled(desk)
    focused = wrong_by_focus(desk, gates)
    with pytest.raises(AssertionError):
        approved_by_key(desk, focused, presses=3)
    assert Decision.objects.get().gate_id == gates[0].pk


def test_a_second_press_meant_for_one_does_not_decide_the_next(desk: Any) -> None:
    first, second = (a_gate(desk.world, title=f"Thing {number}") for number in range(2))
    desk.goto(f"{desk.site}/review/")
    settled(desk)
    desk.evaluate("""id => new MutationObserver((_, watch) => {
        if (!document.getElementById(`gate-${id}`)) return;
        watch.disconnect();
        const came = performance.now();
        const late = () => performance.now() - came > 450;
        const press = () => late() || window.dispatchEvent(new KeyboardEvent("keydown", {key: "a"}));
        for (const wait of [0, 50, 150]) setTimeout(press, wait);
    }).observe(document.body, {childList: true, subtree: true})""", str(second.pk))  # fmt: skip
    desk.keyboard.press("a")
    desk.locator(f"#gate-{second.pk}").wait_for()
    desk.wait_for_timeout(600)
    assert [decision.gate_id for decision in Decision.objects.all()] == [first.pk]


PRESSES_AT_ONCE = """id => new MutationObserver((_, watch) => {
    if (!document.getElementById(`gate-${id}`)?.querySelector("[data-verdicts]")) return;
    watch.disconnect();
    document.body.dataset.pressed = "yes";
    const came = performance.now();
    const late = () => performance.now() - came > 450;
    const press = () => late() || window.dispatchEvent(new KeyboardEvent("keydown", {key: "a"}));
    for (const wait of [0, 50, 150]) setTimeout(press, wait);
}).observe(document, {childList: true, subtree: true})"""


def presses_at_once_on_the_page_of_its_run(desk: Any) -> Gate:
    gate = a_gate(desk.world, risk="medium")
    make.step(desk.world.run, 3)
    Run.objects.filter(pk=gate.run_id).update(status="waiting", **make.waiting("gate", "tool_approval"))
    desk.add_init_script(f"({PRESSES_AT_ONCE})('{gate.pk}')")
    desk.goto(f"{desk.site}/runs/{gate.run_id}/")
    desk.locator("body[data-pressed]").wait_for(state="attached")
    desk.wait_for_timeout(600)
    settled(desk)
    return gate


def test_a_card_that_has_just_come_to_the_page_of_a_run_takes_no_key(desk: Any) -> None:
    gate = presses_at_once_on_the_page_of_its_run(desk)
    assert not Decision.objects.exists()
    assert approved_by_key(desk, gate, presses=3)


def test_without_the_guard_a_card_that_has_just_come_would_be_decided(desk: Any) -> None:
    """The control of the test above."""
    with_script(desk, "begun ? performance.now() : -SEEN", "-SEEN")
    gate = presses_at_once_on_the_page_of_its_run(desk)
    desk.locator(f"#gate-{gate.pk}", has_text="Already approved").or_(
        desk.get_by_text("Approved").first
    ).first.wait_for()
    assert Decision.objects.get().verdict == "approve"


def test_several_that_are_selected_are_decided_together(desk: Any) -> None:
    for number in range(3):
        a_gate(desk.world, title=f"Thing {number}", risk="low")
    desk.goto(f"{desk.site}/review/")
    settled(desk)
    for key in ("x", "j", "x"):
        desk.keyboard.press(key)
        settled(desk)
    desk.keyboard.press("a")
    expect(desk.locator("h1")).to_contain_text("Approve 2 together?")
    assert not Decision.objects.exists()


@pytest.mark.spec("Q5")
@pytest.mark.parametrize("risk", ["low", "high"])
def test_what_is_decided_together_was_on_the_screen_and_is_confirmed_where_one_alone_would_be(
    desk: Any, risk: str
) -> None:
    lines = "".join(f"echo {number}\n" for number in range(60))
    gates = [a_gate(desk.world, view=tool_view(command=lines), risk=risk) for _ in range(3)]
    desk.goto(f"{desk.site}/review/")
    settled(desk)
    for gate in gates:
        desk.locator(f"[data-row='{gate.pk}'] input[type=checkbox]").check()
    desk.locator("[data-bulk] [value=approve]").click()
    desk.locator("[data-together]").wait_for()
    desk.keyboard.press("End")
    assert approved_together(desk) > 2, "they are longer than the screen"
    assert Decision.objects.count() == 3


def test_on_the_page_of_a_run_a_key_is_for_the_card_that_is_marked(desk: Any) -> None:
    first, second = (a_gate(desk.world, title=f"Thing {number}", step=number + 1) for number in range(2))
    for number in (1, 2):
        make.step(desk.world.run, number)
    desk.goto(f"{desk.site}/runs/{first.run_id}/")
    for gate in (first, second):
        desk.locator(f"#gate-{gate.pk}").wait_for()
    settled(desk)
    expect(desk.locator("[data-marked]")).to_have_count(1)
    for _ in range(2):
        desk.keyboard.press("j")
    expect(desk.locator("[data-marked]")).to_have_id(f"gate-{second.pk}")
    assert approved_by_key(desk, second, presses=3)
    expect(desk.locator("[data-marked]")).to_have_id(f"gate-{first.pk}")


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_run_that_waits_opens_at_its_decision(desk: Any, size: tuple[int, int]) -> None:
    desk.set_viewport_size({"width": size[0], "height": size[1]})
    run = make_run(desk.world.project, desk.world.author, "A long one")
    for number in range(1, 41):
        make.step(run, number)
    gate = a_gate(desk.world, run=run, step=40)
    Run.objects.filter(pk=run.pk).update(status="waiting", **make.waiting("gate", "tool_approval"))
    desk.goto(f"{desk.site}/runs/{run.pk}/")
    expect(desk.locator(f"#gate-{gate.pk} h2")).to_be_in_viewport()
    expect(desk.locator(f"#gate-{gate.pk} form.approve [data-approve]")).to_be_in_viewport(ratio=1)
    desk.goto(f"{desk.site}/runs/{run.pk}/files/")
    desk.get_by_role("link", name="Decide").click()
    expect(desk.locator(f"#gate-{gate.pk} h2")).to_be_in_viewport()
    title = desk.locator(f"#gate-{gate.pk} h2").bounding_box()
    over = desk.evaluate(
        "([x, y]) => document.elementFromPoint(x, y)?.closest('.run-head') !== null", [title["x"] + 5, title["y"] + 5]
    )
    assert not over


@pytest.mark.parametrize("size", [(390, 844), (360, 640)], ids=str)
@pytest.mark.parametrize("place", ["review", "run"])
def test_a_phone_has_the_buttons_in_view_wherever_the_card_is(desk: Any, place: str, size: tuple[int, int]) -> None:
    desk.set_viewport_size({"width": size[0], "height": size[1]})
    gate = a_gate(desk.world, view=tool_view(diff="@@ -1 +1,90 @@\n" + "+a line of it\n" * 90))
    make.step(desk.world.run, 3)
    Run.objects.filter(pk=gate.run_id).update(status="waiting", **make.waiting("gate", "tool_approval"))
    desk.goto(f"{desk.site}/review/{gate.pk}/" if place == "review" else f"{desk.site}/runs/{gate.run_id}/")
    card = desk.locator(f"#gate-{gate.pk}")
    card.wait_for()
    settled(desk)
    for share in (0, 0.5, 1):
        card.evaluate(
            """(card, share) => {
                const box = card.getBoundingClientRect();
                const top = window.scrollY + box.top + share * (box.height - innerHeight);
                window.scrollTo({ top, behavior: "instant" });
            }""",
            share,
        )
        hidden = card.locator(".verdict-buttons .btn:visible").evaluate_all(
            """buttons => buttons.filter((button) => {
                const box = button.getBoundingClientRect();
                const at = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
                return box.top < 0 || box.bottom > innerHeight || !button.contains(at);
            }).map((button) => button.textContent)"""
        )
        assert hidden == [], share
        assert card.locator(".verdicts").evaluate("bar => bar.getBoundingClientRect().height <= innerHeight * 0.45 + 1")


def test_only_who_may_decide_is_led_to_it(db: None) -> None:
    from django.test import Client

    from tests.integration.gates.builders import make_world

    world = make_world()
    gate = a_gate(world)
    Run.objects.filter(pk=gate.run_id).update(status="waiting", **make.waiting("gate", "tool_approval"))
    for person, led in ((world.reviewer, True), (world.author, False), (world.viewer, False)):
        client = Client()
        client.force_login(person)
        assert ("data-decide" in client.get(f"/runs/{gate.run_id}/").content.decode()) is led
