"""Live traces over the real broker: nothing is missed, nothing comes twice, and nobody slow holds up another (R2)."""

import asyncio
import contextlib
import json
import random
import re
import time

import pytest
import redis
from asgiref.sync import sync_to_async
from autobahn.exception import Disconnected
from channels.consumer import AsyncConsumer
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.db import OperationalError, connections
from django.test import Client

from loops.models import Membership, Run
from loops.web.access import Audience
from loops.web.live import catch_up, query, socket_auth
from loops.web.live.hub import FRAMES_HELD, Frame, Hub, Watcher, hub
from tests import decisions
from tests import factories as make
from tests.integration.gates.builders import make_world, open_gate

pytestmark = pytest.mark.django_db(transaction=True)
ORIGIN = b"http://testserver"
PATIENCE = 180
"""Seconds, against hanging: on a busy machine everything here takes longer."""


@pytest.fixture
def broker(house):
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        yield client


@pytest.fixture(autouse=True)
def sockets(settings, live_threads):
    """Let sockets in under the name of the test client's site, and close what their threads opened."""
    settings.ALLOWED_HOSTS = ["testserver"]
    yield
    asyncio.run(sync_to_async(connections.close_all)())


def tell(broker, run):
    message = {"t": "facts", "run": str(run.pk), "project": run.project_id, "seq": run.head_seq}
    broker.publish("agentops:feed", json.dumps(message))


async def stored(work, *args):
    """Database work of a test, off the loop like everybody's."""
    return await catch_up.in_thread(lambda: work(*args))


def delta(broker, run, offset, text, **more):
    piece = {"t": "delta", "run": str(run.pk), "step": 1, "call": "m1", "kind": "text", "offset": offset, "text": text}
    broker.publish("agentops:feed", json.dumps({**piece, **more}))


def cookie(user) -> str:
    client = Client()
    client.force_login(user)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def socket(path, session="") -> WebsocketCommunicator:
    from agentops.asgi import application  # only with the first socket: it is the whole site

    headers = [(b"origin", ORIGIN), (b"host", b"testserver")]
    if session:
        headers.append((b"cookie", f"{settings.SESSION_COOKIE_NAME}={session}".encode()))
    return WebsocketCommunicator(application, path, headers)


async def cards(ws) -> dict:
    """The next frame of cards."""
    while True:
        frame = json.loads(await ws.receive_from(PATIENCE))
        if frame["t"] == "cards":
            return frame


async def next_head(ws) -> str:
    """The next drawing of the head alone."""
    while True:
        frame = json.loads(await ws.receive_from(PATIENCE))
        if frame["t"] == "head":
            return frame["html"]


async def until_watching(ws) -> list[str]:
    """Wait until the server watches for a socket, which is when it answers; what it said meanwhile."""
    await ws.send_to(text_data='{"t":"ping"}')
    said = []
    while (frame := json.loads(await ws.receive_from(PATIENCE))) != {"t": "pong"}:
        said.append(frame["t"])
    return said


async def closed(ws) -> int:
    """The code the socket is closed with."""
    while True:
        message = await ws.receive_output(PATIENCE)
        if message["type"] == "websocket.close":
            return message.get("code", 1000)


async def leave(*sockets) -> None:
    for ws in sockets:
        with contextlib.suppress(Exception):
            await ws.disconnect(timeout=PATIENCE)
    await hub().close()


@pytest.mark.spec("S4")
@pytest.mark.parametrize(("who", "code"), [("anonymous", 4401), ("outsider", 4404)])
def test_only_people_who_may_see_a_run_may_watch_it(house, who, code):
    session = "" if who == "anonymous" else cookie(getattr(house, who))

    async def watch():
        ws = socket(f"/ws/runs/{house.run.pk}/", session)
        await ws.connect(PATIENCE)
        assert await closed(ws) == code
        await leave(ws)

    asyncio.run(watch())


@pytest.mark.spec("R2")
def test_what_was_stored_comes_first_then_what_happens(house, broker):
    make.step(house.run, 1)
    session = cookie(house.viewer)

    async def watch():
        ws = socket(f"/ws/runs/{house.run.pk}/?after=0", session)
        await ws.connect(PATIENCE)
        first = await cards(ws)
        assert (first["after"], first["seq"]) == (0, 2)
        assert 'id="step-1"' in first["html"]
        assert 'id="run-head"' in first["html"]
        await stored(make.step, house.run, 2)
        tell(broker, house.run)
        second = await cards(ws)
        assert (second["after"], second["seq"]) == (2, 4)
        assert 'id="step-2"' in second["html"]
        assert 'id="step-1"' not in second["html"]
        await leave(ws)

    asyncio.run(watch())


@pytest.mark.spec("A2", "R2")
def test_the_head_says_at_once_that_a_gate_was_decided():
    """The run itself may hear of it seconds later."""
    world = make_world()
    make.step(world.run, 1)
    gate = open_gate(world, risk="high")
    Run.objects.filter(pk=world.run.pk).update(status="waiting", **make.waiting("gate", gate.kind))
    session = cookie(world.viewer)

    def decide():
        decisions.decide(actor=world.reviewer, gate_id=gate.pk, verdict="reject", reason="No.", digest=gate.digest)

    async def watch():
        ws = socket(f"/ws/runs/{world.run.pk}/?after=0", session)
        await ws.connect(PATIENCE)
        assert "Waiting for a person" in (await cards(ws))["html"]
        await stored(decide)
        assert "Continues in a moment" in await next_head(ws)
        await leave(ws)

    asyncio.run(watch())


def test_an_up_to_date_page_gets_nothing_again(house, broker):
    make.step(house.run, 1)
    session = cookie(house.viewer)

    async def watch():
        ws = socket(f"/ws/runs/{house.run.pk}/?after=2", session)
        await ws.connect(PATIENCE)
        tell(broker, house.run)
        assert await ws.receive_nothing(0.4)
        await leave(ws)

    asyncio.run(watch())


async def write(broker, run, total, dice):
    """Add steps; some pointers get lost, the last is repeated until somebody hears it."""
    for number in range(1, total + 1):
        await stored(make.step, run, number)
        if dice.random() > 0.3:
            tell(broker, run)
        await asyncio.sleep(dice.random() * 0.02)
    while True:
        tell(broker, run)
        await asyncio.sleep(0.2)


async def read_with_breaks(run, session, until, dice):
    """What one page applies whose socket keeps breaking: the steps of every frame, in order."""
    at, steps = 0, []
    while at < until:
        ws = socket(f"/ws/runs/{run.pk}/?after={at}", session)
        await ws.connect(PATIENCE)
        for _ in range(dice.randint(1, 4)):
            if at < until:
                frame = await cards(ws)
                assert frame["after"] <= at < frame["seq"]
                steps += re.findall(r'<li id="step-(\d+)"', frame["html"])
                at = frame["seq"]
        await ws.disconnect()
    return steps


@pytest.mark.spec("R2")
def test_no_gap_and_no_double_over_many_reconnects(house, broker):
    """Pointers get lost, sockets break at any time: the frames one page applied still are the whole journal once."""
    session, dice, total = cookie(house.viewer), random.Random(7), 60

    async def both():
        writing = asyncio.create_task(write(broker, house.run, total, dice))
        reading = read_with_breaks(house.run, session, 2 * total, dice)
        steps = await asyncio.wait_for(reading, PATIENCE)
        writing.cancel()
        await hub().close()
        return steps

    assert set(asyncio.run(both())) == {str(number) for number in range(1, total + 1)}


@pytest.mark.spec("S4")
@pytest.mark.parametrize("how", ["revoked", "demoted", "logged out", "switched off"])
def test_access_lost_closes_the_socket_within_five_seconds(house, how, monkeypatch):
    """That is, when sockets are next asked about."""
    assert 2 * socket_auth.EVERY <= 5
    monkeypatch.setattr(socket_auth, "EVERY", 0.1)
    session, asked = cookie(house.operator), []
    judge = socket_auth.judge

    def noted(tickets):
        found = judge(tickets)
        asked.append(len(tickets))
        return found

    async def watch():
        run_socket, list_socket = socket(f"/ws/runs/{house.run.pk}/", session), socket("/ws/queue/", session)
        for ws in (run_socket, list_socket):
            await ws.connect(PATIENCE)
            await until_watching(ws)
        await stored(lose, how)
        before = len(asked)
        assert await closed(run_socket) in (4401, 4403)
        if how != "demoted":  # the list shows the same to any role
            assert await closed(list_socket) in (4401, 4403)
        assert len(asked) - before <= 2  # one may have been under way when it was lost
        await leave(run_socket, list_socket)

    def lose(how):
        if how == "revoked":
            Membership.objects.filter(user=house.operator).delete()
        elif how == "demoted":
            Membership.objects.filter(user=house.operator).update(role="viewer")
        elif how == "logged out":
            client = Client()
            client.cookies[settings.SESSION_COOKIE_NAME] = session
            client.post("/logout/")
        else:
            house.operator.is_active = False
            house.operator.save()

    monkeypatch.setattr(socket_auth, "judge", noted)
    asyncio.run(watch())


@pytest.mark.parametrize(
    ("frames", "code"),
    [([b"x" * 70_000], 4009), (["x" * 70_000], 4009), (['{"t":"ping"}'] * 30, 4008)],
    ids=["big bytes", "big text", "flood"],
)
def test_abuse_ends_the_socket(house, frames, code):
    session = cookie(house.operator)

    async def watch():
        ws = socket("/ws/queue/", session)
        await ws.connect(PATIENCE)
        for frame in frames:
            await (ws.send_to(bytes_data=frame) if isinstance(frame, bytes) else ws.send_to(text_data=frame))
        assert await closed(ws) == code
        await leave(ws)

    asyncio.run(watch())


def test_a_socket_takes_no_orders(house):
    """Nothing that comes over a socket steers: unknown frames are ignored, the heartbeat is answered (attack 44)."""
    session = cookie(house.operator)

    async def watch():
        ws = socket(f"/ws/runs/{house.run.pk}/", session)
        await ws.connect(PATIENCE)
        for order in ('{"t":"stop"}', '{"t":"ping","got":"many"}', "[]", "not json", '{"role":"admin"}'):
            await ws.send_to(text_data=order)
        await ws.send_to(text_data='{"t":"ping","got":1}')
        assert json.loads(await ws.receive_from(PATIENCE)) == {"t": "pong"}
        await leave(ws)

    asyncio.run(watch())
    assert house.run.mailbox.count() == 0


@pytest.mark.spec("R2")
def test_a_socket_that_cannot_be_served_closes_so_that_the_page_dials_again(house, monkeypatch):
    session = cookie(house.viewer)

    def away(*args):
        raise OperationalError("the database is away")

    async def watch():
        ws = socket(f"/ws/runs/{house.run.pk}/", session)
        await ws.connect(PATIENCE)
        assert await closed(ws) == 4011
        await leave(ws)

    monkeypatch.setattr(query, "read", away)
    asyncio.run(watch())


@pytest.mark.parametrize("gone", [Disconnected("Attempt to send on a closed protocol"), BrokenPipeError()])
def test_a_page_that_was_closed_while_it_was_told_something_is_no_fault(house, monkeypatch, caplog, gone):
    """Between the end of a connection and the word of it a server refuses to send."""
    tried, send = asyncio.Event(), AsyncConsumer.send

    async def refused(self, message):
        if '"pong"' in message.get("text", "") or '"hint"' in message.get("text", ""):
            tried.set()
            raise gone
        await send(self, message)

    async def story():
        ws = socket("/ws/queue/", session)
        assert (await ws.connect(PATIENCE))[0]
        assert await ws.receive_from(PATIENCE) == '{"t":"hello"}'
        (watcher,) = hub()._lists
        watcher.put(Frame(('{"t":"hint"}',)))
        await asyncio.wait_for(tried.wait(), PATIENCE)
        tried.clear()
        await ws.send_to('{"t":"ping"}')
        await asyncio.wait_for(tried.wait(), PATIENCE)
        await leave(ws)

    session = cookie(house.operator)
    monkeypatch.setattr(AsyncConsumer, "send", refused)
    asyncio.run(story())
    assert "could not be served" not in caplog.text


def test_one_reading_serves_everybody(house, broker, monkeypatch):
    readings = []
    read = catch_up.read

    async def counted(run_id, after, audiences):
        readings.append(set(audiences))
        return await read(run_id, after, audiences)

    async def watch():
        mine = Hub()
        viewers = [
            await mine.watch_run(house.run.pk, Audience(), lambda: catch_up.head(house.run.pk)) for _ in range(40)
        ]
        operator = await mine.watch_run(house.run.pk, Audience(operate=True), lambda: catch_up.head(house.run.pk))
        await stored(make.step, house.run, 1)
        tell(broker, house.run)
        frames = [await asyncio.wait_for(following(watcher), PATIENCE) for watcher in [*viewers, operator]]
        assert len({id(frame.messages) for frame in frames[:-1]}) <= 40
        assert len({frame.messages for frame in frames[:-1]}) == 1
        assert 'value="stop"' in "".join(frames[-1].messages).replace("\\", "")
        assert 'value="stop"' not in "".join(frames[0].messages).replace("\\", "")
        await mine.close()

    monkeypatch.setattr(catch_up, "read", counted)
    asyncio.run(watch())
    assert readings == [{Audience(), Audience(operate=True)}]


def test_what_is_committed_while_a_changed_row_is_read_is_shown(house, broker, monkeypatch):
    """Whoever pauses changes the row first, and the last fact of a run at rest may come during that reading."""
    readings = []
    read = catch_up.read

    async def overtaken(run_id, after, audiences):
        found = await read(run_id, after, audiences)
        if not readings:
            await stored(make.step, house.run, 1)
            tell(broker, house.run)
            feed = mine._runs[house.run.pk]
            while feed._wanted == after:
                await asyncio.sleep(0.01)
        readings.append(found)
        return found

    async def watch():
        watcher = await mine.watch_run(house.run.pk, Audience(), lambda: catch_up.head(house.run.pk))
        mine._runs[house.run.pk].row()
        await asyncio.wait_for(following(watcher), PATIENCE)
        await mine.close()

    mine = Hub()
    monkeypatch.setattr(catch_up, "read", overtaken)
    asyncio.run(watch())
    assert not readings[0].news


async def following(watcher: Watcher) -> Frame:
    """The next frame with facts."""
    while True:
        frame = await watcher.next()
        if frame is not None and frame.seq:
            return frame


def test_a_slow_watcher_is_bounded_and_delays_nobody(house, broker):
    async def watch():
        mine = Hub()
        slow = await mine.watch_run(house.run.pk, Audience(), lambda: catch_up.head(house.run.pk))
        quick = await mine.watch_run(house.run.pk, Audience(), lambda: catch_up.head(house.run.pk))
        at = 0
        for number in range(1, FRAMES_HELD + 10):
            await stored(make.step, house.run, number)
            tell(broker, house.run)
            frame = await asyncio.wait_for(following(quick), PATIENCE)
            assert frame.after == at
            at = frame.seq
        assert slow.missed
        assert len(slow._frames) <= FRAMES_HELD
        assert not quick.missed
        await mine.close()

    asyncio.run(watch())


def test_streamed_pieces_are_joined_and_numbered(house, broker):
    session = cookie(house.viewer)

    async def watch():
        ws = socket(f"/ws/runs/{house.run.pk}/", session)
        await ws.connect(PATIENCE)
        await until_watching(ws)
        said, offset = "Half a cent is lost when an amount is cut. " * 5, 0
        for word in said.split(" "):
            delta(broker, house.run, offset, f"{word} ")
            offset += len(word) + 1
        pieces = []
        while sum(len(piece["text"]) for piece in pieces) < offset:
            pieces += json.loads(await ws.receive_from(PATIENCE))["deltas"]
        assert "".join(piece["text"] for piece in pieces).strip() == said.strip()
        assert len(pieces) < 20
        ends = [piece["offset"] + len(piece["text"]) for piece in pieces]
        assert [piece["offset"] for piece in pieces[1:]] == ends[:-1]
        await leave(ws)

    asyncio.run(watch())


def test_lists_are_told_only_of_ones_own_projects(house, broker):
    session = cookie(house.reviewer)

    async def watch():
        ws = socket("/ws/queue/", session)
        await ws.connect(PATIENCE)
        assert json.loads(await ws.receive_from(PATIENCE)) == {"t": "hello"}
        broker.publish("agentops:feed", json.dumps({"t": "queue", "project": house.elsewhere.pk}))
        broker.publish("agentops:feed", b"\xff not json")
        assert await ws.receive_nothing(0.8)
        broker.publish("agentops:feed", json.dumps({"t": "queue", "project": house.project.pk}))
        assert json.loads(await ws.receive_from(PATIENCE)) == {"t": "queue"}
        tell(broker, house.run)
        assert json.loads(await ws.receive_from(PATIENCE)) == {"t": "runs"}
        await leave(ws)

    asyncio.run(watch())


def test_a_list_is_told_what_happened_between_its_drawing_and_its_socket(house, broker):
    drawn, session, outsider = int(time.time()), cookie(house.reviewer), cookie(house.outsider)

    async def said(since):
        ws = socket(f"/ws/queue/?since={since}", session)
        await ws.connect(PATIENCE)
        frames = await until_watching(ws)
        await ws.disconnect()
        return frames

    async def watch():
        other = socket("/ws/queue/", outsider)
        await other.connect(PATIENCE)
        await other.receive_from(PATIENCE)
        hub()._hinted.clear()
        assert await said(drawn) == ["hello"]
        broker.publish("agentops:feed", json.dumps({"t": "queue", "project": house.elsewhere.pk}))
        tell(broker, house.run)
        while hub()._pending or len(hub()._hinted) < 2:  # those who were here are told by now
            await asyncio.sleep(0.01)
        assert await said(drawn) == ["hello", "runs"]
        assert await said(drawn + 3600) == ["hello"]
        await leave(other)

    asyncio.run(watch())


def test_after_an_outage_of_the_broker_everybody_looks_once(house):
    """Pointers of that time are lost; the rows are not."""
    make.step(house.run, 1)
    session = cookie(house.viewer)

    async def watch():
        ws = socket(f"/ws/runs/{house.run.pk}/?after=0", session)
        await ws.connect(PATIENCE)
        assert (await cards(ws))["seq"] == 2  # what it was behind by when it came; now it looks at nothing by itself
        await stored(make.step, house.run, 2)
        hub()._catch_up()
        assert (await cards(ws))["seq"] == 4
        await leave(ws)

    asyncio.run(watch())


@pytest.mark.parametrize("origin", [b"http://evil.example", b"http://testserver:9999", b"https://testserver", b""])
def test_other_origins_are_refused(house, origin):
    session = cookie(house.operator)

    async def watch():
        ws = socket("/ws/queue/", session)
        ws.scope["headers"] = [(name, value) for name, value in ws.scope["headers"] if name != b"origin"]
        if origin:
            ws.scope["headers"].append((b"origin", origin))
        connected, _ = await ws.connect(PATIENCE)
        assert not connected

    asyncio.run(watch())
