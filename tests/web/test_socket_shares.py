"""So many live pages of one person, over all web processes, and the share of a dead process is free again (S4, R2)."""

import asyncio
import json
import time
import uuid

import pytest
import redis
from django.conf import settings as configured

from loops.models import AuditEvent
from loops.web.live import socket_quota as module
from loops.web.live.socket_quota import LASTS_S
from tests.web.test_live import PATIENCE, closed, cookie, leave, socket, sockets

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("S4", "R2")]
__all__ = ["sockets"]
MOST = 3


@pytest.fixture(autouse=True)
def few(settings):
    settings.SOCKETS_PER_PERSON = MOST


@pytest.fixture
def valkey(monkeypatch):
    """With keys of this test: pages of another test may still be open, of people who had the same numbers."""
    for name in ("KEY", "TOLD"):
        monkeypatch.setattr(module, name, f"test:{uuid.uuid4().hex}:{{}}")
    with redis.Redis.from_url(configured.REDIS_URL) as client:
        yield client


def shares_of(valkey, person):
    """Member -> when it lapses (epoch seconds)."""
    return dict(valkey.zrange(module.KEY.format(person.pk), 0, -1, withscores=True))


async def opened(house, session, path="/ws/queue/"):
    """A socket and its first word: "live", or what it is refused with."""
    ws = socket(path, session)
    await ws.connect(PATIENCE)
    await ws.send_to(text_data='{"t":"ping"}')
    while True:
        message = await ws.receive_output(PATIENCE)
        if message["type"] == "websocket.close":
            return ws, message["code"]
        frame = json.loads(message["text"])
        if frame["t"] == "refused":
            assert "Close some; this one goes live by itself then." in frame["text"]
        if frame["t"] == "pong":
            return ws, "live"


def test_one_too_many_is_closed_with_a_code_that_pages_know_and_others_keep_theirs(house, valkey):
    session, other = cookie(house.viewer), cookie(house.operator)

    async def watch():
        paths = ("/ws/queue/", f"/ws/runs/{house.run.pk}/", "/ws/queue/")
        held = [await opened(house, session, path) for path in paths]
        assert [said for _, said in held] == ["live"] * MOST
        for path in paths[:2]:
            refused, said = await opened(house, session, path)
            assert said == 4029
            await refused.disconnect(timeout=PATIENCE)
        theirs, said = await opened(house, other)
        assert said == "live"
        await held[0][0].disconnect(timeout=PATIENCE)
        back, said = await opened(house, session)
        assert said == "live"
        await leave(theirs, back, *(ws for ws, _ in held))

    asyncio.run(watch())
    event = AuditEvent.objects.get(kind="socket.too_many")  # once a minute, however often a page dials
    assert (event.actor, event.detail) == (house.viewer, {"most": MOST})
    assert not shares_of(valkey, house.viewer)


def test_many_at_once_get_as_many_as_there_are(house, valkey):
    session = cookie(house.viewer)

    async def watch():
        found = await asyncio.gather(*(opened(house, session) for _ in range(10)))
        assert sorted(str(said) for _, said in found) == ["4029"] * 7 + ["live"] * MOST
        await leave(*(ws for ws, _ in found))

    asyncio.run(watch())


def test_sockets_of_other_processes_count_until_their_process_is_dead(house, valkey):
    """Another process is what it left in Valkey: shares that it renews no more lapse."""
    session, now = cookie(house.viewer), time.time()
    alive = {f"elsewhere-{number}": now + LASTS_S for number in range(2)}
    dead = {f"dead-{number}": now - 0.1 for number in range(5)}
    valkey.zadd(module.KEY.format(house.viewer.pk), alive | dead)

    async def watch():
        first, said = await opened(house, session)
        assert said == "live"
        refused, said = await opened(house, session)
        assert said == 4029
        valkey.zadd(module.KEY.format(house.viewer.pk), dict.fromkeys(alive, now - 0.1))
        second, said = await opened(house, session)
        assert said == "live"
        await leave(first, refused, second)

    asyncio.run(watch())


def test_a_share_lasts_for_as_long_as_its_socket(house, valkey, monkeypatch):
    assert 2 * module.RENEWED_EVERY_S < LASTS_S, "one renewal may fail"
    monkeypatch.setattr(module, "RENEWED_EVERY_S", 0.05)
    session = cookie(house.viewer)

    async def watch():
        held = [await opened(house, session) for _ in range(MOST)]
        assert [said for _, said in held] == ["live"] * MOST
        first = shares_of(valkey, house.viewer)
        assert len(first) == MOST
        async with asyncio.timeout(PATIENCE):
            while not all(later > first[share] for share, later in shares_of(valkey, house.viewer).items()):
                await asyncio.sleep(0.05)
        refused, said = await opened(house, session)
        assert said == 4029
        await leave(refused, *(ws for ws, _ in held))

    asyncio.run(watch())


def test_a_share_that_is_given_back_while_it_is_renewed_stays_free(house, valkey, monkeypatch):
    monkeypatch.setattr(module, "RENEWED_EVERY_S", 0.01)

    async def watch():
        class Socket: ...

        shares, mine, renewing, go_on = module.Shares(), Socket(), asyncio.Event(), asyncio.Event()
        asks = shares._ask

        async def held_up(script, *rest):
            if script is module._RENEW:
                renewing.set()
                await go_on.wait()
            return await asks(script, *rest)

        monkeypatch.setattr(shares, "_ask", held_up)
        assert await shares.take(mine, house.viewer)
        await renewing.wait()
        giving_back = asyncio.create_task(shares.give_back(mine))
        await asyncio.wait({giving_back}, timeout=0.5)
        go_on.set()
        await asyncio.gather(giving_back, shares._renewing)

    asyncio.run(watch())
    assert not shares_of(valkey, house.viewer)


def test_a_share_that_is_asked_for_is_not_had_by_renewing_it(house, valkey, monkeypatch):
    """Or the last one would be refused: it were there already, and nobody's."""
    monkeypatch.setattr(module, "RENEWED_EVERY_S", 0.01)

    async def watch():
        class Socket: ...

        shares, mine, renewed = module.Shares(), [Socket() for _ in range(MOST + 1)], asyncio.Event()
        asks = shares._ask

        async def slowly(script, *rest):
            if script is module._TAKE and shares._renewing:
                for _ in range(2):  # the first may be under way
                    renewed.clear()
                    await renewed.wait()
            answer = await asks(script, *rest)
            if script is module._RENEW:
                renewed.set()
            return answer

        monkeypatch.setattr(shares, "_ask", slowly)
        async with asyncio.timeout(PATIENCE):
            assert [await shares.take(one, house.viewer) for one in mine] == [*[True] * MOST, False]
        shares._renewing.cancel()

    asyncio.run(watch())
    assert len(shares_of(valkey, house.viewer)) == MOST


def test_without_valkey_each_process_counts_its_own(house, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    session = cookie(house.viewer)

    async def watch():
        held = [await opened(house, session) for _ in range(MOST)]
        assert [said for _, said in held] == ["live"] * MOST
        refused = socket("/ws/queue/", session)
        await refused.connect(PATIENCE)
        assert await closed(refused) == 4029
        await leave(refused, *(ws for ws, _ in held))

    asyncio.run(watch())
