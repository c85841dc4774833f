"""What stands in front of every page and socket."""

from typing import Any

import pytest
from django.test import Client

from agentops.edge.websocket_origin import is_same_origin
from agentops.roles import app_role


@pytest.mark.parametrize(
    ("origin", "scheme", "allowed"),
    [
        (b"http://localhost:8000", "ws", True),
        (b"https://localhost:8000", "wss", True),
        (b"https://console.example", "ws", True),  # trusted: TLS ends at a proxy
        (b"http://localhost:9999", "ws", False),
        (b"https://localhost:8000", "ws", False),
        (b"http://evil.example", "ws", False),
        (b"http://evil.example:8000", "ws", False),
        (b"http://localhost:8000.evil.example", "ws", False),
        (b"null", "ws", False),
        (b"", "ws", False),
        (None, "ws", False),
    ],
)
def test_sockets_open_for_pages_of_this_site_only(settings, origin: bytes | None, scheme: str, allowed: bool) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://console.example"]
    headers = {b"host": b"localhost:8000"} | ({b"origin": origin} if origin is not None else {})
    assert is_same_origin(headers, scheme) is allowed


def test_a_rebound_name_is_refused() -> None:
    assert not is_same_origin({b"host": b"evil.example:8000", b"origin": b"http://evil.example:8000"}, "ws")


def test_pages_allow_no_inline_code(client: Client) -> None:
    policy = client.get("/healthz").headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


@pytest.mark.spec("T5")
@pytest.mark.django_db
def test_readiness_names_what_is_missing(client: Client) -> None:
    answer = client.get("/readyz")
    checks = answer.json()["checks"]
    assert checks["database"] == checks["migrations"] == checks["broker"] == "ok"
    assert answer.status_code == (200 if checks["beat"] == "ok" else 503)
    assert app_role() not in answer.content.decode().replace("agentops:beat", "")


@pytest.mark.spec("T5")
@pytest.mark.django_db
@pytest.mark.parametrize("host", ["10.1.2.3:8000", "[fd00::7]", "ip-10-1-2-3.internal", "a_name_with_underscores", ""])
def test_load_balancers_probe_by_whatever_name(settings: Any, client: Client, host: str) -> None:
    settings.ALLOWED_HOSTS = ["console.example"]
    assert client.get("/healthz", headers={"host": host}).status_code == 200
    assert client.get("/readyz", headers={"host": host}).json()["checks"]["database"] == "ok"


@pytest.mark.spec("T5")
@pytest.mark.parametrize(
    "address", ["/", "/login/", "/admin/", "/api/v1/runs/", "/healthz/", "/readyz/x", "/%68ealthz/"]
)
def test_nothing_else_answers_to_a_foreign_name(settings: Any, client: Client, address: str) -> None:
    settings.ALLOWED_HOSTS = ["console.example"]
    assert client.get(address, headers={"host": "10.1.2.3:8000"}).status_code == 400


@pytest.mark.spec("T2")
@pytest.mark.django_db
def test_the_schema_wants_a_login(client: Client) -> None:
    assert client.get("/api/schema/").status_code in (401, 403)


@pytest.mark.spec("X7")
@pytest.mark.parametrize(
    "address", ["/api/v1/tasks/a%00b/", "/login/?next=%00", "/api/v1/runs/?project=a%00", "/x%00/"]
)
def test_an_address_with_a_nul_is_refused(client: Client, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 400
    assert (answer["Content-Type"] == "application/problem+json") is address.startswith("/api/")
    assert b"NUL" in answer.content
    assert "default-src" in answer["Content-Security-Policy"]
