"""What is refused before anybody is known is in the audit log, and strangers cannot fill it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import uuid
from typing import Any

import pytest
from channels.exceptions import StopConsumer
from django.test import Client

from agentops.edge import refusals
from agentops.edge.request_limits.asgi import Edge
from agentops.edge.websocket_origin import SameOrigin
from agentops.ops import refusals as ops_refusals
from loops.models import AuditEvent
from tests import factories as make
from tests import stack
from tests.integration.test_request_limits import MULTIPART, running

pytestmark = pytest.mark.spec("N2", "X7")


@pytest.fixture(autouse=True)
def counts(monkeypatch: pytest.MonkeyPatch) -> refusals.Counts:
    """Counts of this test alone."""
    fresh = refusals.Counts()
    monkeypatch.setattr(refusals, "counts", fresh)
    monkeypatch.setattr(refusals, "EVERY_S", 3600.0)
    return fresh


def kept(kind: str = "request.refused", *, of_servers: bool = False) -> list[dict[str, Any]]:
    """Rows of this process; a server that other tests asked may write of its own just now."""
    rows = AuditEvent.objects.filter(kind=kind).order_by("id").values_list("detail", flat=True)
    return [row for row in rows if of_servers or row["address"] != "127.0.0.1"]


def multipart(address: str, path: str = "/tasks/new/") -> None:
    """One refused request at the edge, from an address."""
    answered: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        answered.append(message)

    async def application(*_: Any) -> None:
        raise AssertionError("let in")

    scope = {"type": "http", "method": "POST", "path": path, "client": (address, 1), "query_string": b""}
    asyncio.run(Edge(application)({**scope, "headers": [(b"content-type", MULTIPART.encode())]}, receive, send))
    assert answered[0]["status"] == 415


@pytest.mark.django_db(transaction=True)
def test_a_real_server_keeps_what_it_refused() -> None:
    sent, short, guessed = "/refused/sent/", "/refused/short/", f"/api/v1/runs/{uuid.uuid4()}/"

    def kept_here() -> list[dict[str, Any]]:
        return [
            row
            for kind in ("request.refused", "token.refused")
            for row in kept(kind, of_servers=True)
            if {sent, guessed} & {*row["paths"]}
        ]

    with running() as site:
        for _ in range(12):
            assert site.ask(sent, b"a", Content_Type=MULTIPART)[0] == 415
        assert site.ask(f"{short}?" + "a" * 9000)[0] == 414
        assert site.ask(guessed, method="GET", Authorization="Token ao_guessed")[0] == 401
        assert kept_here() == []
    requests, tokens = kept_here()
    assert requests["address"] == "127.0.0.1"
    assert (requests["count"], requests["statuses"]) == (13, {"415": 12, "414": 1})
    assert requests["paths"] == [sent, short]
    assert tokens["count"] == 1


@pytest.mark.django_db(transaction=True)
def test_it_is_written_after_its_time_without_anybody_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "EVERY_S", 0.2)
    multipart("192.0.2.1")
    stack.wait_until(lambda: kept(), "the row")
    multipart("192.0.2.1")
    stack.wait_until(lambda: len(kept()) == 2, "the next row")


@pytest.mark.django_db
def test_many_requests_are_few_rows(counts: refusals.Counts) -> None:
    for number in range(300):
        multipart(f"198.51.100.{number % 250}", f"/{'x' * 300}{number}/")
    counts.write()
    rows = kept()
    assert len(rows) == refusals.MOST
    assert sum(row["count"] for row in rows) == 300
    assert rows[-1]["address"] == refusals.OTHERS
    assert all(len(row["paths"]) <= refusals.PATHS for row in rows)
    assert max(len(path) for row in rows for path in row["paths"]) == 100
    counts.write()
    assert len(kept()) == refusals.MOST


@pytest.mark.django_db
def test_addresses_of_one_ipv6_network_are_one_row(counts: refusals.Counts) -> None:
    for number in range(50):
        multipart(f"2001:db8:1:2::{number}")
    for _ in range(2):
        multipart("2001:db8:1:3::7")
    multipart("192.0.2.1")
    counts.write()
    assert [(row["address"], row["count"]) for row in kept()] == [
        ("2001:db8:1:2::/64", 50),
        ("2001:db8:1:3::7", 2),
        ("192.0.2.1", 1),
    ]


@pytest.mark.django_db
def test_every_edge_counts(counts: refusals.Counts) -> None:
    Client(REMOTE_ADDR="192.0.2.7").get("/login/?next=%00")
    denied: list[Any] = []

    async def connect() -> None:
        waiting = [{"type": "websocket.disconnect", "code": 1006}, {"type": "websocket.connect"}]

        async def receive() -> Any:
            return waiting.pop()

        async def send(message: Any) -> None:
            denied.append(message)

        scope = {"type": "websocket", "path": "/ws/queue/", "client": ("192.0.2.8", 1)}
        headers = [(b"host", b"localhost"), (b"origin", b"http://evil.example")]
        with contextlib.suppress(StopConsumer):
            await SameOrigin(multipart)({**scope, "headers": headers}, receive, send)  # type: ignore[arg-type]

    asyncio.run(connect())
    counts.write()
    assert [(row["address"], row["statuses"]) for row in kept()] == [
        ("192.0.2.7", {"400": 1}),
        ("192.0.2.8", {"403": 1}),
    ]


@pytest.mark.django_db
def test_an_address_that_the_client_writes_itself_is_not_believed(counts: refusals.Counts, settings: Any) -> None:
    Client(REMOTE_ADDR="192.0.2.7", HTTP_X_FORWARDED_FOR="203.0.113.1").get("/login/?next=%00")
    settings.TRUSTED_PROXIES = 1
    Client(REMOTE_ADDR="192.0.2.7", HTTP_X_FORWARDED_FOR="9.9.9.9, 203.0.113.1").get("/login/?next=%00")
    counts.write()
    assert [row["address"] for row in kept()] == ["192.0.2.7", "203.0.113.1"]


def test_a_database_that_is_away_ends_nothing(counts: refusals.Counts, monkeypatch: Any, caplog: Any) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise OSError("away")

    monkeypatch.setattr(refusals.audit, "record", away)
    monkeypatch.setattr(refusals.transaction, "atomic", away)
    threads = [threading.Thread(target=counts.add, args=("request.refused", "a", 400, "/")) for _ in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts.write()
    assert "are not in the audit log" in caplog.text


@pytest.mark.django_db
def test_the_system_page_says_how_much_was_refused(counts: refusals.Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of other tests write what they refused when they end: that is in the figures before."""
    with monkeypatch.context() as nothing:
        nothing.setattr(ops_refusals, "KINDS", ())
        assert ops_refusals.lately()[1] == "No request was refused at the door in a day"
    requests, addresses = map(int, re.findall(r"\d+", ops_refusals.lately()[1]) or (0, 0))
    for number in range(3):
        multipart(f"192.0.2.{number // 2}")
    counts.write()
    client = Client()
    client.force_login(make.superuser())
    page = client.get("/system/").content.decode()
    assert f"Refused at the door in a day: {requests + 3} requests from {addresses + 2} addresses" in page
