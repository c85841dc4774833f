"""The link that logs in once."""

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from agentops.login import links

pytestmark = [pytest.mark.django_db, pytest.mark.spec("S4")]


@pytest.fixture
def link() -> str:
    return links.issue(User.objects.create_user("mira"))


def is_logged_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_opening_the_link_logs_nobody_in(client: Client, link: str) -> None:
    for _ in range(2):
        response = client.get(link)
        assert response.status_code == 200
        assert response.headers["Referrer-Policy"] == "same-origin"
        assert "no-store" in response.headers["Cache-Control"]
    assert not is_logged_in(client)


def test_pressing_the_button_logs_in_once(client: Client, link: str) -> None:
    assert client.post(link).headers["Location"] == "/"
    assert is_logged_in(client)
    second = Client()
    assert second.post(link).status_code == 410
    assert not is_logged_in(second)


def test_a_foreign_form_cannot_press_it(link: str) -> None:
    assert Client(enforce_csrf_checks=True).post(link).status_code == 403


def test_a_deactivated_user_stays_out(client: Client, link: str) -> None:
    User.objects.update(is_active=False)
    assert client.post(link).status_code == 410


def test_an_invented_token_is_nothing(client: Client) -> None:
    assert client.post("/login/once/invented/").status_code == 410


def test_the_cache_never_holds_the_token(link: str) -> None:
    token = link.rstrip("/").rsplit("/", 1)[1]
    assert cache.get(f"login-once:{token}") is None
    assert links.consume(token) is not None
