"""The pages in a real browser, over the real server: what people see, and how soon."""

import json
import re
import statistics
import time
from datetime import UTC, datetime

import pytest
import redis
from django.conf import settings
from django.test import Client
from django.urls import reverse
from playwright.sync_api import expect

from agentops.management.commands.shots import PAGES, TABS
from loops.engine.state.lifecycle import Phase
from loops.models import Run, Task
from tests import factories as make
from tests.web import story
from tests.web.browsing import Line, faults, intercept, stopped, until
from tests.web.feed import publish
from tests.web.test_pages import HOSTILE

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def site(live_site, house):
    """The address of the site, with a run that has something of everything."""
    story.tell(house.run)
    make.agent(house.project, name="Engineer")
    return live_site


@pytest.fixture
def broker(site):
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        yield client


@pytest.fixture
def open_page(browser, site, house):
    """Open a page as somebody, in a theme and a width; scripts that fail, fail the test."""
    contexts, broken = [], []

    def open_(address, who="admin", theme="light", width=1280):
        context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=theme, base_url=site)
        contexts.append(context)
        client = Client()
        client.force_login(getattr(house, who))
        name = settings.SESSION_COOKIE_NAME
        context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": site}])
        page = context.new_page()
        page.on("pageerror", lambda error: broken.append(str(error)))
        page.on("console", lambda line: broken.append(line.text) if "Content Security Policy" in line.text else None)
        page.goto(address)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert broken == []


def test_pages_have_no_accessibility_faults_and_fit(house, open_page, theme, width):
    """axe: 0 violations on every page."""
    page = open_page("/", theme=theme, width=width)
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # no look at a button on its way to being enabled
    found = {}
    for address in [*PAGES.values(), *(f"/runs/{house.run.pk}/{tab}" for tab in TABS)]:
        page.goto(address)
        page.wait_for_load_state("networkidle") if address == "/system/" else None
        if here := faults(page):
            found[address] = here
    assert found == {}


def test_faults_are_found(page):
    page.set_content("<html lang='en'><title>T</title><img src='x'><div style='width: 9000px'>wide</div>")
    missing, *wide = faults(page)[0], *faults(page)[-2:]
    assert "image-alt" in missing
    assert "too wide" in wide[0]
    assert "wide" in wide[1]


def test_nothing_of_a_runs_head_is_cut_off_on_a_phone(house, open_page):
    long = "Reconcile the ledger of the third quarter with the statements of the bank and say what differs, "
    Task.objects.filter(pk=house.run.task_id).update(title=(2 * long)[:200])
    reason = "it spends $9.10 a minute, where $2.00 are allowed, and " * 5
    Run.objects.filter(pk=house.run.pk).update(
        status="paused", paused_by="monitor", paused_reason=reason, paused_at=datetime.now(UTC)
    )
    page = open_page(reverse("run", args=[house.run.pk]), width=390)
    cut = page.eval_on_selector_all(
        "#run-head h1, #run-head dd, #run-head .state, #run-head .sub",
        "all => all.filter(one => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== 'inline'"
        " || one.scrollHeight > one.clientHeight + 2 && getComputedStyle(one).display !== 'inline')"
        ".map(one => one.textContent.slice(0, 60))",
    )
    assert cut == []


def test_the_drawing_of_the_lifecycle_shows_where_the_run_stands_on_a_phone(house, open_page):
    page = open_page(reverse("run-lifecycle", args=[house.run.pk]), width=390)
    seen = page.evaluate(
        "() => [document.querySelector('.machine .scroll'), document.querySelector('.phase[data-look=now]')]"
        ".map(one => one.getBoundingClientRect()).map(box => [box.left, box.right])"
    )
    (left, right), (first, last) = seen
    assert left <= first < last <= right
    assert page.evaluate("window.scrollY") == 0


LOADED_AFTER = "performance.getEntriesByType('navigation')[0].loadEventEnd"


@pytest.mark.spec("R1", "R2")
def test_steps_appear_live_and_no_later_than_a_page_that_loads_twice(house, open_page):
    page = open_page(reverse("run", args=[house.run.pk]), who="viewer")
    loading = [page.reload() and page.evaluate(LOADED_AFTER) for _ in range(3)]
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.evaluate("""() => {
        window.delays = {};
        new MutationObserver(() => {
            for (const card of document.querySelectorAll("li[data-step]"))
                window.delays[card.dataset.step] ??= Date.now() - Number(card.dataset.committedAt);
        }).observe(document.getElementById("steps"), {childList: true, subtree: true});
    }""")
    for number in range(7, 27):
        make.step(house.run, number)
        publish(house.run)
        time.sleep(0.05)
    expect(page.locator("#step-26")).to_be_visible()
    delays = page.evaluate("Object.entries(window.delays).filter(([n]) => n > 6).map(([, ms]) => ms)")
    numbers = page.eval_on_selector_all("li[data-step]", "items => items.map(item => Number(item.dataset.step))")
    assert numbers == sorted(set(numbers))
    assert set(range(7, 27)) <= set(numbers)
    first_quarter = statistics.quantiles(delays)[0]  # a busy machine may stand still for half of them
    assert first_quarter < 2 * max(loading), (delays, loading)


@pytest.mark.spec("K3", "R1")
def test_a_comparison_follows_the_run_that_is_at_work(house, open_page):
    other = make.run(house.run.task)
    story.begin(other)
    page, heard = open_page("/", who="viewer"), []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: heard.append(frame)))
    page.goto(reverse("run-compare", args=[house.run.pk, other.pk]))
    until(page, lambda: heard, "the page to be told")
    expect(page.get_by_text("Thinking of 9")).to_have_count(0)
    page.evaluate("window.kept = 'not loaded again'")
    make.step(other, 9)
    publish(other)
    expect(page.get_by_text("Thinking of 9")).to_be_visible()
    make.step(other, 10)  # right after it: what comes too soon to be shown at once is shown all the same
    publish(other)
    expect(page.get_by_text("Thinking of 10")).to_be_visible()
    for run in (house.run, other):
        story.end(run, Phase.COMMIT, "criteria_met", result="done")
    publish(other)
    expect(page.locator("#comparison[hx-trigger]")).to_have_count(0)
    expect(page.get_by_text("Both results are identical.")).to_be_visible()
    assert page.evaluate("window.kept") == "not loaded again"


@pytest.mark.spec("R2")
def test_buttons_can_be_pressed_while_their_list_looks_again(house, open_page):
    page = open_page("/runs/", who="operator")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    intercept(page, "**/runs/", lambda route: None)  # asked for, and not answered
    page.evaluate("document.body.dispatchEvent(new Event('runs-changed'))")
    expect(page.locator("#runs.htmx-request")).to_be_visible()
    looks = page.locator("#runs .btn").evaluate_all(
        "all => all.map(one => [getComputedStyle(one).opacity, getComputedStyle(one).pointerEvents])"
    )
    assert {tuple(look) for look in looks} == {("1", "auto")}


@pytest.mark.spec("R2")
def test_a_page_that_was_offline_catches_up_without_a_reload(house, open_page):
    page = open_page("/", who="viewer")
    line = Line(page)
    page.goto(reverse("run", args=[house.run.pk]))
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.evaluate("document.querySelector('[data-run-socket]').dataset.mark = 'same page'")
    line.cut()
    until(page, lambda: line.refused, "the page to dial")
    make.step(house.run, 7)
    publish(house.run)
    assert page.locator("#step-7").count() == 0
    line.mend()
    expect(page.locator("#step-7")).to_be_visible()
    assert page.locator("[data-mark]").count() == 1


def test_the_badge_tells_when_the_server_is_gone(open_page):
    """At once: before the page has dialled in vain. And then that it is live again."""
    page = open_page("/", who="viewer")
    line = Line(page)
    page.goto(reverse("runs"))
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    line.cut()
    until(page, lambda: line.refused, "the page to dial")
    assert line.refused[0] == "reconnecting"
    line.mend()
    expect(page.locator("#live")).to_have_attribute("data-state", "live")


@pytest.mark.spec("R2")
def test_a_server_that_answers_late_is_given_more_time(open_page):
    """Whoever hung up on it after six seconds each time would make it begin anew, and would never be told."""
    page, dialled = open_page("/", who="viewer"), []
    stopped(page)
    page.route_web_socket("**/ws/**", lambda line: (dialled.append(line), line.on_message(lambda said: None)))
    page.goto(reverse("runs"))
    until(page, lambda: dialled, "the page to dial")
    page.clock.run_for(7_000)
    until(page, lambda: len(dialled) == 2, "the page to dial again")
    page.clock.run_for(7_000)
    expect(page.locator("#live")).to_have_attribute("data-state", "stale")
    dialled[-1].send('{"t": "pong"}')
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.clock.run_for(15_000)
    expect(page.locator("#live")).to_have_attribute("data-state", "stale")
    assert len(dialled) == 2
    page.clock.run_for(10_000)
    until(page, lambda: len(dialled) == 3, "the page to give it up")


def test_streamed_text_shows_and_gives_way_to_its_card(house, open_page, broker):
    asked = make.step(house.run, 7, success=None, reasoning="", said="", tokens_used=0).first_seq
    page = open_page(reverse("run", args=[house.run.pk]), who="viewer")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    said, offset = "I look at <b>the rules</b> first.", 0
    for piece in re.findall(r"\S+\s*", said):
        delta = {"t": "delta", "run": str(house.run.pk), "step": 7, "call": f"m{asked}", "kind": "text"}
        broker.publish("agentops:feed", json.dumps({**delta, "offset": offset, "text": piece}))
        offset += len(piece)
    expect(page.locator("#step-7 .streamed")).to_have_text(said)
    story.answer(house.run, 7, said)
    house.run.steps.filter(step_number=7).update(reasoning=said)
    publish(house.run)
    expect(page.locator("#step-7 .said")).to_contain_text("I look at <b>the rules</b> first.")
    expect(page.locator("#step-7 .streamed")).to_have_count(0)


def test_until_its_first_piece_a_model_reads(house, open_page, broker):
    """A piece of another request is none of its, and a redrawn card takes nothing back."""
    asked = make.step(house.run, 7, success=None, reasoning="", said="", tokens_used=0).first_seq
    page = open_page(reverse("run", args=[house.run.pk]), who="viewer")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    working = page.locator("#step-7 .working")
    expect(working).to_have_text("The model reads the prompt")

    def hear(call, text):
        delta = {"t": "delta", "run": str(house.run.pk), "step": 7, "call": call, "kind": "thinking", "offset": 0}
        broker.publish("agentops:feed", json.dumps({**delta, "text": text}))

    def redraw(word):
        make.fact(house.run, story.f.MessageReceived(text=word, by="ana"), step=7)
        publish(house.run)
        expect(page.locator("#step-7")).to_contain_text(word)

    hear("m1", "Of another request.")
    redraw("Hurry")
    assert working.text_content() == "The model reads the prompt"
    hear(f"m{asked}", "Hm.")
    expect(page.locator("#step-7 .streamed")).to_have_text("Hm.")
    assert working.text_content() == "The model is answering"
    redraw("Please")
    assert working.text_content() == "The model is answering"


def test_an_answer_being_typed_survives_live_updates(house, open_page):
    gate = make.gate(house.run, kind="question", call_id="q", title="Which currency?", step_number=6, tool="",
                     view={"question": "Which currency?"})  # fmt: skip
    page = open_page(reverse("run", args=[house.run.pk]), who="reviewer")
    field = page.locator(f"#answer-{gate.pk}")
    field.fill("Euro, because")
    make.step(house.run, 7)
    make.fact(house.run, story.f.MessageReceived(text="Hurry", by="ana"), step=6)
    publish(house.run)
    expect(page.locator("#step-6")).to_contain_text("Hurry")
    expect(field).to_have_value("Euro, because")
    expect(field).to_be_focused()


@pytest.mark.spec("K1")
def test_stop_from_the_message_box(house, open_page):
    page = open_page(reverse("run", args=[house.run.pk]), who="operator")
    page.fill("#say-text", "/stop")
    page.keyboard.press("Enter")
    expect(page.locator("#toasts")).to_contain_text("Stop requested")
    expect(page.locator("#say-text")).to_have_value("")
    assert [item.kind for item in house.run.mailbox.all()] == ["stop"]


def test_keys_and_palette(house, open_page):
    page = open_page("/runs/", who="operator")
    page.keyboard.press("Shift+?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.type("rounding")
    expect(page.locator("#found a")).to_have_count(1)  # only now the list is that of these words
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{house.run.pk}/")
    page.keyboard.type("gt")  # in one go: a page waits a second for the second key
    page.wait_for_url("**/tasks/new/")
    page.fill("#goal", "g o ?")
    assert page.locator("#keys").is_hidden()


def test_the_theme_is_kept(open_page):
    page = open_page("/runs/")
    page.locator(".rail-end [data-theme-switch] input[value=dark]").check()
    expect(page.locator("html")).to_have_class("dark")
    page.goto("/tools/")
    expect(page.locator("html")).to_have_class("dark")


def test_a_list_refreshes_under_ones_hands_without_losing_the_selection(house, open_page):
    page = open_page("/runs/", who="operator")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.locator("input[name=run]").first.check()
    other = make.run(make.task(house.project, title="Another one", created_by=house.operator))
    publish(other)
    expect(page.locator("#runs")).to_contain_text("Another one")
    expect(page.locator(f'input[value="{house.run.pk}"]')).to_be_checked()


def test_hostile_text_does_nothing_in_a_browser(house, open_page):
    page = open_page(reverse("run", args=[house.run.pk]), who="viewer")
    asked, dialogs = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    make.tool_call(house.run, 7, arguments={"path": HOSTILE}, output=HOSTILE, error=HOSTILE)
    make.step(house.run, 7, said=HOSTILE, reasoning=HOSTILE)
    publish(house.run)
    expect(page.locator("#step-7")).to_contain_text("alert(1)")
    page.wait_for_timeout(300)
    assert dialogs == []
    assert not [url for url in asked if "evil" in url or url.endswith("/x")]


@pytest.mark.spec("R3")
def test_earlier_steps_come_on_demand(house, open_page):
    for number in range(7, 131):
        make.step(house.run, number, said=f"Word {number}")
    page = open_page(reverse("run", args=[house.run.pk]), who="viewer")
    assert page.locator("li[data-step] details.step").count() == 50
    while page.locator("#earlier").is_visible():
        count = page.locator("details.step").count()
        page.click("#earlier")
        expect(page.locator("details.step")).not_to_have_count(count)
    assert page.locator("details.step").count() == 130
    page.locator("#step-40 summary").first.click()
    expect(page.locator("#step-40 .said")).to_have_text("Word 40")
