"""Rate limits: a polite 429, and no outage when the cache is down."""

import pytest

from loops.api import throttles


@pytest.fixture
def impatient(monkeypatch, settings):
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    monkeypatch.setattr(throttles.ReadThrottle, "rate", "2/min")


@pytest.mark.spec("T2")
def test_too_many_requests_are_a_429_problem(world, api, impatient):
    client = api(world.viewer)
    answers = [client.get("/api/v1/me/") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert int(answers[-1]["Retry-After"]) > 0
    assert answers[-1].json()["code"] == "throttled"
    assert api(world.operator).get("/api/v1/me/").status_code == 200


@pytest.mark.spec("J4")
def test_without_a_cache_everybody_may_ask(world, api, monkeypatch):
    class Broken:
        def get(self, *_):
            raise ConnectionError("the cache is down")

    monkeypatch.setattr(throttles.UserRateThrottle, "cache", Broken())
    assert api(world.viewer).get("/api/v1/me/").status_code == 200
