"""Steps of any size reach a page that is live, and it then shows what a reload shows (SPEC R1, R2)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import redis
from django.conf import settings
from django.db import transaction
from django.urls import reverse
from playwright.sync_api import expect

from loops.engine.encoding.canonical import clean_json
from loops.models import Run, Step
from loops.storage.rows import DATA_CHARS, SHOWN_CHARS
from tests import factories as make
from tests.web import browsing
from tests.web.feed import publish

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("R1", "R2")]

ALL_THAT_IS_SHOWN = """async () => {
    for (const details of document.querySelectorAll("#steps details.step")) details.open = true;
    const busy = () => document.querySelector("#steps [data-lazy], .htmx-request");
    while (busy()) await new Promise((done) => setTimeout(done, 50));
    return [...document.querySelectorAll("#run-head, #run-end, #steps > li")].map((item) => {
        const copy = item.cloneNode(true);
        for (const time of copy.querySelectorAll("time, [data-since], [name=csrfmiddlewaretoken]")) time.remove();
        for (const details of copy.querySelectorAll("details")) details.removeAttribute("open");
        for (const one of [copy, ...copy.querySelectorAll("*")])
            for (const name of ["class", "data-touched", "data-committed-at"]) one.removeAttribute(name);
        return copy.outerHTML.replace(/\\s+/g, " ");
    });
}"""


def written(lines: int) -> dict[str, Any]:
    """What a call holds that wrote a file of so many lines, as it is stored."""
    text = "".join(f"+line {number} of a long file\n" for number in range(lines))
    diff = f"--- /dev/null\n+++ b/long.txt\n@@ -0,0 +1,{lines} @@\n{text}"
    return clean_json({"diff": diff, "added": lines, "removed": 0, "path": "long.txt"}, DATA_CHARS)


def changed(run: Run, step: Step, output: str) -> None:
    """One more call in a step that is under way: facts and rows in one transaction, as the journal writes them."""
    with transaction.atomic():
        make.tool_call(run, step.step_number, tool="run_tests", output=output)
        heard = make.fact(run, make.f.MessageReceived(text=output, by="ada"), step=step.step_number)
        Step.objects.filter(pk=step.pk).update(last_seq=heard.seq)
    publish(run)


def live(desk: Any, run: Run) -> list[str]:
    """Open the page of a run and wait until it is live; addresses of its sockets, which grow."""
    dialled: list[str] = []
    desk.on("websocket", lambda ws: dialled.append(ws.url) if "/ws/runs/" in ws.url else None)
    desk.goto(f"{desk.site}{reverse('run', args=[run.pk])}")
    expect(desk.locator("#live")).to_have_attribute("data-state", "live")
    return dialled


def long_step(desk: Any) -> tuple[Run, Step, Any]:
    """Of a live page: a step under way whose body was fetched."""
    run = desk.world.run
    make.tool_call(run, 1, tool="write_file", data=written(900))
    step = make.step(run, 1, success=None)
    live(desk, run)
    body = desk.locator("#step-1 .step-body")
    expect(body.locator(".diff-box")).to_be_visible()
    return run, step, body


def assert_equals_a_reload(desk: Any) -> None:
    before = desk.evaluate(ALL_THAT_IS_SHOWN)
    desk.reload()
    expect(desk.locator("#live")).to_have_attribute("data-state", "live")
    assert_alike(before, desk.evaluate(ALL_THAT_IS_SHOWN))


def assert_alike(live: list[str], loaded: list[str]) -> None:
    """The head, and as many of the latest steps as are loaded."""
    assert live[0] == loaded[0], "the head"
    for one, other in zip(live[1:][1 - len(loaded) :], loaded[1:], strict=True):
        assert one == other


@pytest.mark.parametrize("lines", [300, 10_000])
def test_a_long_file_that_is_written_is_shown_at_once(desk: Any, lines: int) -> None:
    run = desk.world.run
    make.step(run, 1)
    dialled = live(desk, run)
    make.tool_call(run, 2, tool="write_file", arguments={"path": "long.txt"}, data=written(lines))
    make.step(run, 2)
    publish(run)
    expect(desk.locator("#step-2 .diff-box")).to_contain_text("line 0 of a long file")
    make.step(run, 3)
    publish(run)
    expect(desk.locator("#step-3")).to_be_visible()
    assert len(dialled) == 1
    assert_equals_a_reload(desk)


def test_a_long_step_that_goes_on_shows_what_came_to_it(desk: Any) -> None:
    """What was fetched stays until what it shows has changed, and is fetched again then."""
    run, step, body = long_step(desk)
    body.evaluate("body => body.dataset.seen = 'yes'")
    publish(run)
    changed(run, step, "all 20 passed")
    expect(body).to_contain_text("all 20 passed")
    expect(body.locator(".diff-box")).to_be_visible()
    assert_equals_a_reload(desk)


def test_what_happens_while_a_long_step_is_fetched_is_fetched_as_well(desk: Any) -> None:
    """The answer that was on its way is older than that, and nothing else would bring it."""
    run, step, body = long_step(desk)
    with browsing.slow(desk, f"**/runs/{run.pk}/steps/1/") as answers:
        changed(run, step, "the first result")
        browsing.wait_for_answer(desk, answers)
        changed(run, step, "the second result")
        expect(desk.locator("[data-run-socket]")).to_have_attribute("data-seq", str(run.head_seq))
        answers.pop()()
        browsing.wait_for_answer(desk, answers)
        answers.pop()()
        expect(body).to_contain_text("the second result")
    assert_equals_a_reload(desk)


def test_four_hundred_long_steps_that_were_missed(desk: Any) -> None:
    run = desk.world.run
    make.step(run, 1)
    dialled, fetched = live(desk, run), list[str]()
    desk.on("request", lambda request: fetched.append(request.url) if "/steps/" in request.url else None)
    desk.context.set_offline(True)
    for number in range(2, 402):
        more = {"tool": "write_file", "data": written(300)} if number > 380 else {"output": "x" * SHOWN_CHARS}
        make.tool_call(run, number, **{"tool": "run_command", **more})
        make.step(run, number, said="\u2014" * 1_500)
    desk.context.set_offline(False)
    publish(run)
    expect(desk.locator("#step-401")).to_be_visible()
    expect(desk.locator("li[data-gap]")).to_contain_text("350 steps not shown: 2 to 351")
    expect(desk.locator("#live")).to_have_attribute("data-state", "live")
    dials = len(dialled)
    make.step(run, 402)
    publish(run)
    expect(desk.locator("#step-402")).to_be_visible()
    assert len(dialled) == dials
    assert len(fetched) < 10, "the long ones of before are fetched when somebody opens them"
    assert_equals_a_reload(desk)


def test_a_part_that_no_message_can_hold_fetches_itself(desk: Any) -> None:
    run = desk.world.run
    make.step(run, 1)
    dialled = live(desk, run)
    make.step(run, 2)
    for _ in range(40):  # what people said stands beside the step, whole
        make.fact(run, make.f.MessageReceived(by="olga", text="please look again\n" * 150), step=2)
    publish(run)
    expect(desk.locator("#step-2")).to_contain_text("please look again")
    expect(desk.locator("#step-2 .note")).to_have_count(40)
    assert len(dialled) == 1
    assert_equals_a_reload(desk)


def test_a_megabyte_of_output_streams_past(desk: Any) -> None:
    run = desk.world.run
    call = make.tool_call(run, 1, tool="run_command", state="INTENT", ok=None, output="")
    step = make.step(run, 1, success=None)
    dialled = live(desk, run)
    with redis.Redis.from_url(settings.REDIS_URL) as broker:
        piece = "".join(f"{number:07d}\n" for number in range(8_192))
        for number in range(16):
            delta = {"t": "delta", "run": str(run.pk), "step": 1, "call": call.call_id, "kind": "stdout"}
            broker.publish("agentops:feed", json.dumps({**delta, "offset": number * len(piece), "text": piece}))
    shown = desk.locator("#step-1 pre[data-kind=stdout]")
    expect(shown).to_contain_text("0008191")
    assert shown.text_content().startswith("… ")
    type(call).objects.filter(pk=call.pk).update(state="COMPLETE", ok=True, output=f"{piece}the end"[-SHOWN_CHARS:])
    done = make.fact(run, make.f.StepCompleted(step=1, success=True), step=1)
    Step.objects.filter(pk=step.pk).update(success=True, last_seq=done.seq)
    publish(run)
    expect(desk.locator("#step-1")).to_contain_text("the end")
    assert len(dialled) == 1
    assert_equals_a_reload(desk)


def test_what_can_never_be_sent_is_said_and_is_no_loop(desk: Any) -> None:
    """The line opens, answers, and fails each time it is to tell what happened."""
    run, dialled = desk.world.run, []

    def fails(ws: Any) -> None:
        dialled.append(ws.url)

        def answer(_: Any) -> None:
            ws.send('{"t": "pong"}')
            ws.close(code=4011)

        ws.on_message(answer)

    desk.route_web_socket(re.compile("/ws/runs/"), fails)
    browsing.stopped(desk)
    desk.goto(f"{desk.site}{reverse('run', args=[run.pk])}")
    for _ in range(600):
        desk.clock.run_for(100)
    expect(desk.locator("#lost")).to_contain_text("Reload it")
    assert 5 <= len(dialled) <= 8, "within a minute"
