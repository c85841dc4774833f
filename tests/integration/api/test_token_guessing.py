"""Tokens that let nobody in are counted and wait, as wrong passwords do; none is taken from an address."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from agentops.edge import refusals
from agentops.login import token_throttle
from loops.models import ApiToken, AuditEvent
from loops.services.tokens import new_token

pytestmark = [pytest.mark.django_db, pytest.mark.spec("S4", "N2")]
ME = "/api/v1/me/"


@pytest.fixture(autouse=True)
def fresh(db: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.clear()
    monkeypatch.setattr(refusals, "counts", refusals.Counts())


def ask(token: str, address: str = "192.0.2.1", **more: Any) -> Any:
    return Client(REMOTE_ADDR=address, **more).get(ME, headers={"Authorization": f"Token {token}"})


def kept(kind: str) -> list[dict[str, Any]]:
    refusals.counts.write()
    return list(AuditEvent.objects.filter(kind=kind).values_list("detail", flat=True))


def test_addresses_of_one_ipv6_network_guess_together(world: Any) -> None:
    token, _ = new_token(actor=None, user=world.operator)
    answers = [ask(f"ao_{number}", f"2001:db8:1:2::{number}").status_code for number in range(26)]
    assert answers == [401] * 25 + [429]
    assert ask(token, "2001:db8:1:3::1").status_code == 200, "another network is somebody else"
    (locked,) = kept("token.locked")
    assert locked["address"] == "2001:db8:1:2::24"


def test_whoever_guesses_waits_and_is_seen(world: Any) -> None:
    token, _ = new_token(actor=None, user=world.operator)
    assert [ask(f"ao_{number}").status_code for number in range(30)] == [401] * 25 + [429] * 5
    held = ask(token)
    assert (held.status_code, held["Retry-After"]) == (429, "900")
    assert (held["Content-Type"], held.json()["code"]) == ("application/problem+json", "throttled")
    assert ask(token, address="192.0.2.2").status_code == 200, "from elsewhere it works"
    (locked,) = kept("token.locked")
    assert locked == {"address": "192.0.2.1", "minutes": 15}
    (refused,) = kept("token.refused")
    assert (refused["count"], refused["statuses"]) == (31, {"401": 25, "429": 6})
    assert "ao_" not in str(refused)


def test_while_an_address_waits_the_database_is_not_asked(world: Any, django_assert_num_queries: Any) -> None:
    for number in range(25):
        ask(f"ao_{number}")
    with django_assert_num_queries(0):
        assert ask("ao_another").status_code == 429


def test_the_wait_ends(world: Any) -> None:
    for number in range(25):
        ask(f"ao_{number}")
    assert 0 < cache.ttl("token-guesses:192.0.2.1") <= 900 if hasattr(cache, "ttl") else True
    cache.delete("token-guesses:192.0.2.1")
    assert ask("ao_again").status_code == 401


def test_one_script_whose_token_is_over_keeps_nobody_out(world: Any) -> None:
    old, row = new_token(actor=None, user=world.operator, name="old")
    good, _ = new_token(actor=None, user=world.operator, name="good")
    ApiToken.objects.filter(pk=row.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert [ask(old).status_code for _ in range(60)] == [401] * 60
    assert ask(good).status_code == 200


@pytest.mark.parametrize("over", ["expires_at", "ended_at"])
def test_a_token_that_is_over_is_refused_and_that_is_kept(world: Any, over: str) -> None:
    token, row = new_token(actor=None, user=world.operator)
    ApiToken.objects.filter(pk=row.pk).update(**{over: timezone.now() - timedelta(seconds=1)})
    assert ask(token).status_code == 401
    assert [one["address"] for one in kept("token.refused")] == ["192.0.2.1"]


@pytest.mark.parametrize("path", ["/api/v1/me/?token={}", "/api/v1/runs/?project={}", "/?next={}", "/api/v1/{}/"])
@pytest.mark.parametrize("also", [True, False])
def test_a_token_in_an_address_is_refused_by_every_door(world: Any, path: str, also: bool) -> None:
    token, _ = new_token(actor=None, user=world.operator)
    headers = {"Authorization": f"Token {token}"} if also else {}
    for spelt in (token, token.replace("_", "%5F")):
        answer = Client().get(path.format(spelt), headers=headers)
        assert answer.status_code == 400
        assert "End that token" in answer.json()["detail"]
        assert token not in answer.content.decode()
    (row,) = kept("token.in_address")
    assert row["count"] == 2
    assert token not in str(row)


def test_behind_a_proxy_that_nobody_named_strangers_keep_nobody_out(world: Any, settings: Any) -> None:
    settings.HTTPS = True
    token, _ = new_token(actor=None, user=world.operator)
    assert {ask(f"ao_{number}").status_code for number in range(30)} == {401}
    assert ask(token).status_code == 200


def test_a_cache_that_is_away_lets_tokens_on(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise OSError("away")

    token, _ = new_token(actor=None, user=world.operator)
    for name in ("get", "add", "incr"):
        monkeypatch.setattr(token_throttle.cache, name, away)
    assert (ask(token).status_code, ask("ao_x").status_code) == (200, 401)
