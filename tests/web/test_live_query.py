"""What a change costs the server: one statement and one rendering, however many watch (benchmarks.md, SPEC R2)."""

import asyncio
import json
import re
import threading

import psycopg
import pytest
from django.db import connections
from django.utils import timezone

from gates.models import Decision
from loops.engine import facts as f
from loops.ids import new_id
from loops.models import Run
from loops.storage.status import WAITING_FOR_RESOURCE
from loops.web import limits_bar, run_header, timeline
from loops.web.access import Audience
from loops.web.live import catch_up, frames, messages
from loops.web.live import query as live_query
from loops.web.live.hub import Hub
from tests import factories as make
from tests.web import story
from tests.web.test_live import PATIENCE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("live_threads")]
EVERYBODY = [Audience(operate, review) for operate in (True, False) for review in (True, False)]


@pytest.fixture
def statements(monkeypatch):
    """Every statement that the threads of the live trace send, whoever sends it."""
    sent = []
    execute = psycopg.Cursor.execute

    def noting(cursor, query, *args, **kwargs):
        if threading.current_thread().name.startswith("live-"):
            sent.append(str(query))
        return execute(cursor, query, *args, **kwargs)

    monkeypatch.setattr(psycopg.Cursor, "execute", noting)
    return sent


async def told(watchers, seq):
    """Wait until every watcher has a frame up to fact ``seq``; the texts of those frames."""
    texts = []
    for watcher in watchers:
        while True:
            frame = await asyncio.wait_for(watcher.next(), PATIENCE)
            if frame is not None and frame.seq == seq:
                texts += frame.messages
                break
    return texts


@pytest.mark.spec("R2")
@pytest.mark.parametrize("watching", [1, 60])
def test_a_change_costs_one_statement_however_many_watch(house, statements, watching):
    make.step(house.run, 1)
    catch_up._read(house.run.pk, 0, EVERYBODY)  # the limits a run began with are read once a process

    async def watch():
        mine = Hub()
        watchers = [
            await mine.watch_run(house.run.pk, EVERYBODY[number % 4], lambda: catch_up.head(house.run.pk))
            for number in range(watching)
        ]
        feed = mine._runs[house.run.pk]
        costs = []
        for number in range(2, 7):
            await catch_up.in_thread(lambda number=number: change(house.run, number))
            statements.clear()
            feed.pointer(house.run.head_seq)
            texts = await told(watchers, house.run.head_seq)
            costs.append(len(statements))
            assert len({id(text) for text in texts}) == min(watching, 4)
        await mine.close()
        return costs

    assert asyncio.run(watch()) == [1, 1, 1, 1, 1]


def change(run, number):
    make.step(run, number)
    make.model_call(run, number)
    make.tool_call(run, number)


def test_a_gate_in_the_step_costs_one_more(house, statements):
    """The control: what is counted does grow when more is read."""
    change(house.run, 1)
    make.gate(house.run, step_number=1)
    catch_up._read(house.run.pk, 0, EVERYBODY)
    statements.clear()
    asyncio.run(catch_up.read(house.run.pk, 0, EVERYBODY))
    assert len(statements) == 2


def eventful(run):
    """Three steps with all that cards show, some of it before the first."""
    story.begin(run, max_tokens=1000)
    make.fact(run, f.MessageReceived(text="careful", by="ana"), step=0)
    for number in (1, 2, 3):
        make.fact(run, f.MessageReceived(text=f"before {number}", by="bo"), step=number)
        change(run, number)
        make.tool_call(run, number, state="INTENT", ok=None, started_at=timezone.now(), data={"diff": "--- a\n+++ b\n"})
        make.fact(run, f.MessageReceived(text=f"after {number} \U0001f980 \\x00", by="bo"), step=number)
    for granted in (2000, 3000):
        gate = make.gate(run, step_number=2, kind="limit_reached", status="extended", decided_at=timezone.now())
        payload = {"max_tokens": granted}
        Decision.objects.create(gate=gate, verdict="extend", reason="go on", payload=payload, digest="0" * 64)
    make.gate(run, step_number=3)
    make.step(run, 4, success=None)
    Run.objects.filter(pk=run.pk).update(
        total_cost_usd="0.0312", cost_unknown=True, **make.waiting("gate", "tool_approval")
    )


@pytest.mark.spec("R2")
@pytest.mark.parametrize("after", [0, 5, 9, 14])
def test_a_frame_shows_what_the_page_shows(house, after):
    """The statement of the live trace and the queries of the page are two roads to the same cards."""
    eventful(house.run)
    found = live_query.read(house.run.pk, after, 50)
    run = Run.objects.with_names().get(pk=house.run.pk)
    live = timeline.opened(timeline.build(found.run, found.rows), found.at)
    page = timeline.some(run, found.at)
    assert [card.number for card in live] == sorted(found.at)
    for audience in EVERYBODY:
        for mine, other in zip(live, page, strict=True):
            assert plain(frames.card(found.run, mine, audience)) == plain(frames.card(run, other, audience))
        newest = run.steps.order_by("-step_number").first()
        assert plain(frames.head(found.run, audience, found.granted, found.rows.steps[-1])) == plain(
            frames.head(run, audience, limits_bar.granted_to(run), newest)
        )
    tokens = run_header.heading(found.run, Audience(), found.granted)["meters"][2]
    assert tokens.bound == 3000  # what was granted last holds


def plain(html):
    """Without the time that passes while a test runs."""
    return re.sub(r"\d+(\.\d+)? (ms|s)\b|Working time: [\d.]+|width=\"[\d.]+%\"", "", html)


def test_only_the_latest_cards_come_to_a_page_that_was_away(house):
    for number in range(1, 6):
        change(house.run, number)
    found = live_query.read(house.run.pk, 0, 2)
    assert sorted(found.at) == [4, 5]
    assert [step.step_number for step in found.rows.steps] == [4, 5]
    assert found.seq == house.run.head_seq


def test_a_run_that_is_gone_or_unchanged(house):
    make.step(house.run, 1)
    assert catch_up._read(new_id(), 0, EVERYBODY) is None
    assert catch_up._read(house.run.pk, house.run.head_seq, EVERYBODY) == catch_up.Changes(2, 2, news=False)


def test_those_who_come_together_share_a_reading(house, statements):
    """Two may have begun before the others asked; those never wait for more than one of their own."""
    make.step(house.run, 1)
    catch_up._read(house.run.pk, 0, EVERYBODY)

    async def come():
        missed = catch_up.Missed(house.run.pk)
        return await asyncio.gather(*(missed.since(0, Audience()) for _ in range(200)))

    found = asyncio.run(come())
    assert {json.loads(text)["seq"] for one in found for text in one.frames[Audience()]} == {2}
    assert 1 <= len(statements) <= catch_up.THREADS + 1


def test_a_reading_that_has_begun_is_not_shared(house, monkeypatch):
    """It may not hold what was committed before the question."""
    make.step(house.run, 1)
    begun, go_on = threading.Event(), threading.Event()
    read = live_query.read

    def held(*args):
        found = read(*args)
        begun.set()
        go_on.wait(PATIENCE)
        return found

    async def ask():
        missed = catch_up.Missed(house.run.pk)
        early = asyncio.create_task(missed.since(0, Audience()))
        await asyncio.to_thread(begun.wait, PATIENCE)
        await asyncio.to_thread(lambda: (make.step(house.run, 2), connections.close_all()))
        late = asyncio.create_task(missed.since(0, Audience()))
        await asyncio.sleep(0)
        go_on.set()
        return (await early).seq, (await late).seq

    monkeypatch.setattr(live_query, "read", held)
    assert asyncio.run(ask()) == (2, 4)


def test_the_head_of_a_run_that_waits_is_cut_to_size(house, monkeypatch):
    """What is too long for a message fetches itself, also where there is no news but what the run waits for."""
    make.step(house.run, 1)
    Run.objects.filter(pk=house.run.pk).update(status=WAITING_FOR_RESOURCE)
    house.run.refresh_from_db()
    monkeypatch.setattr(messages, "LONGEST", messages._ENVELOPE + 1_000)
    told = catch_up._read(house.run.pk, house.run.head_seq, EVERYBODY)
    assert not told.news
    assert set(told.frames) == set(EVERYBODY)
    for texts in told.frames.values():
        assert "Reload this part" in json.loads(texts[0])["html"]
        assert max(map(len, texts)) <= messages.LONGEST
