"""Whatever is refused below /api/ is refused as JSON, in one shape, by whichever part of the server refuses."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from django.db import OperationalError, connections
from django.test import Client

from loops.api import views
from tests import factories as make

pytestmark = [pytest.mark.django_db, pytest.mark.spec("T2", "X7")]
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
SHAPE = {"type", "title", "status", "detail", "instance", "code"}
NOWHERE = ("/api/", "/api/v1/nothing/", "/api/v2/runs/", "/api/v1/runs/7/", "/api/v1/gates/x/decide/", "/api/%ff")


def problem(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    assert answer["Cache-Control"] == "no-store"
    said: dict[str, Any] = answer.json()
    assert set(said) == SHAPE
    assert (said["status"], bool(said["detail"])) == (status, True)
    return said


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("who", ["stranger", "operator"])
def test_an_address_that_is_not_there_is_a_problem(method: str, who: str) -> None:
    client = Client(raise_request_exception=False)
    if who == "operator":
        client.force_login(make.user(operator=make.project()))
    for path in NOWHERE:
        answer = client.generic(method, path)
        assert answer.status_code == 404
        assert answer["Content-Type"] == "application/problem+json"
        if method != "HEAD":
            assert problem(answer, 404)["code"] == "not_found"


def test_a_method_that_an_address_does_not_take(client: Client) -> None:
    client.force_login(make.user(operator=make.project()))
    for method in ("PUT", "PATCH", "DELETE", "TRACE", "BREW"):
        answer = client.generic(method, "/api/v1/me/", enforce_csrf_checks=False)
        assert problem(answer, 405)["code"] == "method_not_allowed"
        assert "GET" in answer["Allow"]


@pytest.mark.parametrize("host", ["evil.example", "a b", "localhost:x", "[::1", ""])
def test_a_host_that_is_not_ours(client: Client, host: str, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["console.example"]
    for path in ("/api/v1/runs/", "/api/v1/nothing/"):
        problem(client.get(path, headers={"host": host}), 400)


def test_an_error_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a word of ours")

    monkeypatch.setattr(views.Me, "get", break_down)
    client = Client(raise_request_exception=False)
    client.force_login(make.user(operator=make.project()))
    answer = client.get("/api/v1/me/")
    assert problem(answer, 500)["code"] == "error"
    assert b"a word of ours" not in answer.content
    assert "default-src" in answer["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/tools/", "/api/v1/me/"])
def test_without_a_database_it_says_to_come_back(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: Any, **__: Any) -> None:
        raise OperationalError("couldn't get a connection after 30.00 sec")

    client = Client(raise_request_exception=False)
    client.force_login(make.user(operator=make.project()))
    assert client.get(path).status_code == 200
    monkeypatch.setattr(connections["default"], "cursor", exhausted)
    answer = client.get(path)
    monkeypatch.undo()
    assert answer.status_code == 503
    assert int(answer["Retry-After"]) > 0
    assert b"Try again shortly" in answer.content
    assert b"couldn't" not in answer.content
    assert answer["Content-Type"].startswith("text/html") is not path.startswith("/api/")


def test_pages_stay_pages(client: Client) -> None:
    for path in ("/nothing/", "/apix/", "/runs/x/"):
        answer = client.get(path)
        assert (answer.status_code, answer["Content-Type"]) == (404, "text/html; charset=utf-8")


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/api/v1/tasks/?" + "a" * 9000, {}, 414),
        ("/api/nothing/", {"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ("/api/v1/tasks/", {}, 413),
        ("/api/v1/nothing/", {}, 404),
        ("/api/v1/%00/", {}, 400),
    ],
)
def test_the_edge_says_it_in_the_same_shape(live_site: str, path: str, headers: dict[str, str], status: int) -> None:
    answer = httpx.post(live_site + path, headers=headers, content=b"a" * 1_100_000 if status == 413 else b"")
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json")
    assert set(answer.json()) == SHAPE
    assert answer.json()["instance"] == answer.request.url.path.replace("%00", "\0")
