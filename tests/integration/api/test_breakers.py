"""Circuit breakers through REST: the same to see and to do as on their page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from loops.ids import new_id
from loops.models import AuditEvent, Breaker, BreakerEvent, BreakerRule, Run
from tests import factories as make

pytestmark = [pytest.mark.django_db, pytest.mark.spec("E5", "T2")]
URL = "/api/v1/breakers/"


def opened(name: str = "fetch_url", kind: str = "tool", **fields: Any) -> Breaker:
    now = timezone.now().replace(microsecond=0)
    until = now + timedelta(seconds=30)
    given = {"status": "open", "why": "timeout", "opened_at": now, "open_until": until, "changed_at": now, **fields}
    return Breaker.objects.create(kind=kind, name=name, **given)


def event(what: str, run: Run | None = None, **fields: Any) -> None:
    given = {"kind": "tool", "name": "fetch_url", "why": "timeout", **fields}
    BreakerEvent.objects.create(id=new_id(), at=timezone.now(), what=what, run=run and run.pk, **given)


def waits(run: Run, model: str) -> None:
    Run.objects.filter(pk=run.pk).update(**make.waiting("model", model))


def test_the_list_says_what_is_open_why_until_when_and_who_waits(world, api):
    tool = opened()
    opened("claude", "model", why="overloaded_error (HTTP 529)", probes_failed=2)
    opened("read_file", status="closed", failed_at=[1, 2], opened_at=None, open_until=None)
    waits(world.run(), "claude")
    rows = api(world.viewer).get(URL).json()["results"]
    assert [(row["name"], row["status"], row["failures"], row["waiting_runs"]) for row in rows] == [
        ("claude", "open", 0, 1),
        ("fetch_url", "open", 0, 0),
        ("read_file", "closed", 2, 0),
    ]
    assert (rows[0]["why"], rows[0]["probes_failed"]) == ("overloaded_error (HTTP 529)", 2)
    assert rows[1]["open_until"] == f"{tool.open_until:%Y-%m-%dT%H:%M:%SZ}"
    only = api(world.viewer).get(f"{URL}?status=open&kind=tool").json()["results"]
    assert [row["name"] for row in only] == ["fetch_url"]
    assert api(world.viewer).get(f"{URL}?status=broken").status_code == 400
    assert api(world.outsider).get(f"{URL}?name=claude").json()["results"][0]["waiting_runs"] == 0, "not their runs"


def test_one_has_its_rule_and_its_history(world, api):
    mine, theirs = world.run(), world.run()
    Run.objects.filter(pk=theirs.pk).update(project=world.elsewhere)
    BreakerRule.objects.create(kind="tool", name="*", threshold=7)
    BreakerRule.objects.create(kind="tool", name="fetch_url", threshold=2, cooldown_s=60)
    event("opened", mine)
    event("reopened", theirs)
    event("reset", actor=world.operator)
    event("opened", name="another")
    found = api(world.viewer).get(f"{URL}{opened().pk}/").json()
    assert found["rule"] == {"enabled": True, "threshold": 2, "window_s": 60, "cooldown_s": 60}
    assert [(one["what"], one["run"], one["actor"]) for one in found["events"]] == [
        ("reset", None, "operator"),
        ("reopened", None, None),
        ("opened", str(mine.pk), None),
    ]


@pytest.mark.spec("S4")
def test_whoever_has_a_role_sees_them_and_nobody_else(world, api, django_user_model):
    breaker = opened()
    for who in ("operator", "reviewer", "viewer", "admin", "root", "outsider"):
        assert len(api(getattr(world, who)).get(URL).json()["results"]) == 1
        assert api(getattr(world, who)).get(f"{URL}{breaker.pk}/").status_code == 200
    assert api().get(URL).status_code == 401
    nobody = api(django_user_model.objects.create_user("nina"))
    assert nobody.get(URL).json()["results"] == []
    assert nobody.get(f"{URL}{breaker.pk}/").status_code == 404
    assert nobody.post(f"{URL}{breaker.pk}/reset/").status_code == 404


@pytest.mark.spec("S4")
@pytest.mark.parametrize(
    ("who", "status"),
    [("operator", 200), ("admin", 200), ("root", 200), ("outsider", 200), ("reviewer", 403), ("viewer", 403)],
)
def test_operators_and_admins_reset_one_and_that_is_told(world, api, who, status):
    breaker = opened()
    answer = api(getattr(world, who)).post(f"{URL}{breaker.pk}/reset/")
    assert answer.status_code == status
    breaker.refresh_from_db()
    told = AuditEvent.objects.filter(kind="breaker.reset", actor=getattr(world, who))
    if status == 403:
        assert answer["Content-Type"] == "application/problem+json"
        assert (breaker.status, told.count()) == ("open", 0)
        refused = AuditEvent.objects.filter(actor=getattr(world, who)).values_list("kind", flat=True)
        assert set(refused) == {"access.refused", "api.refused"}
        return
    assert (answer.json()["reset"], answer.json()["breaker"]["status"], breaker.status) == (True, "closed", "closed")
    assert answer.json()["breaker"]["events"][0]["what"] == "reset"
    assert told.get().detail == {"kind": "tool", "name": "fetch_url", "status": "open", "why": "timeout"}


def test_a_reset_wakes_who_waits_and_a_second_one_changes_nothing(world, api):
    run = world.run()
    waits(run, "claude")
    tomorrow = timezone.now() + timedelta(days=1)
    Run.objects.filter(pk=run.pk).update(wake_at=tomorrow)
    url = f"{URL}{opened('claude', 'model').pk}/reset/"
    assert api(world.operator).post(url).json()["reset"] is True
    run.refresh_from_db()
    assert run.wake_at < tomorrow
    assert api(world.operator).post(url).json()["reset"] is False
    assert AuditEvent.objects.filter(kind="breaker.reset").count() == 1


def test_a_reset_is_an_order_not_a_question(world, api):
    url = f"{URL}{opened().pk}/reset/"
    assert api(world.operator).get(url).status_code == 405
    assert api(world.operator).post(f"{URL}{new_id()}/reset/").status_code == 404
    assert Breaker.objects.get().status == "open"
