"""The page of circuit breakers: what stands open, what happened, and the button (SPEC E5, S3)."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.urls import reverse

from loops.engine import facts as f
from loops.engine.values import ModelRole
from loops.ids import new_id
from loops.models import AuditEvent, Breaker, BreakerEvent, BreakerRule, ModelConfig, Run
from loops.services.policies import current_version, snapshot_of
from tests import factories as make
from tests.web.test_pages import HOSTILE, SESSION_AND_USER, dangers, text_of

pytestmark = pytest.mark.spec("E5")


def opened(name: str = "fetch_url", kind: str = "tool", **fields: Any) -> Breaker:
    now = datetime.now(UTC)
    until = now + timedelta(seconds=25)
    given = {"status": "open", "why": "timeout", "opened_at": now, "open_until": until, "changed_at": now, **fields}
    return Breaker.objects.create(kind=kind, name=name, **given)


def event(what: str, run: uuid.UUID | None = None, **fields: Any) -> BreakerEvent:
    given = {"kind": "tool", "name": "fetch_url", "why": "timeout", **fields}
    return BreakerEvent.objects.create(id=new_id(), at=datetime.now(UTC), what=what, run=run, **given)


def page_of(house: Any, who: str = "operator", name: str = "breakers") -> str:
    return text_of(house.client(who).get(reverse(name)))


def test_an_empty_page_says_that_everything_is_called(house: Any) -> None:
    page = page_of(house)
    assert "No open circuit breakers" in page
    assert "No circuit breaker has opened yet" in page
    assert "No model has a fallback" in page


@pytest.mark.parametrize("name", ["system", "tools"])
def test_it_is_reached_from_the_pages_beside_it(house: Any, name: str) -> None:
    assert reverse("breakers") in page_of(house, name=name)


@pytest.mark.spec("S4")
@pytest.mark.parametrize("name", ["breakers", "breakers-live"])
def test_whoever_has_a_role_sees_it_and_nobody_else(house: Any, name: str) -> None:
    for who in ("operator", "reviewer", "viewer", "admin", "outsider"):
        assert house.client(who).get(reverse(name)).status_code == 200
    assert house.client("anonymous").get(reverse(name)).status_code == 302
    nobody = house.client("anonymous")
    nobody.force_login(make.user("nina"))
    assert nobody.get(reverse(name)).status_code == 403


@pytest.mark.parametrize("name", ["breakers", "breakers-live"])
def test_an_open_breaker_says_why_since_when_until_when_and_who_waits(house: Any, name: str) -> None:
    opened()
    opened("claude", "model", why="overloaded_error (HTTP 529)", probes_failed=2)
    opened("spare", "model", status="half_open")
    Run.objects.filter(pk=house.run.pk).update(**make.waiting("model", "claude"))
    page = page_of(house, name=name)
    assert "fetch_url" in page
    assert "overloaded_error (HTTP 529)" in page
    assert "2 trial calls failed" in page
    assert "1 run waiting" in page
    assert "A trial call is under way" in page
    assert "1 run waiting" not in page_of(house, "outsider", name)


def test_the_history_names_runs_only_to_those_who_may_see_them(house: Any) -> None:
    event("opened", house.run.pk, open_until=datetime.now(UTC))
    event("reset", actor=house.operator)
    assert "Fix the rounding" in page_of(house)
    assert "olga" in page_of(house)
    assert "Fix the rounding" not in page_of(house, "outsider")


def test_what_others_made_up_does_nothing(house: Any) -> None:
    opened(HOSTILE[:120], why=HOSTILE[:200])
    event("opened", why=HOSTILE[:200], name=HOSTILE[:120])
    assert dangers(page_of(house)) == []
    given = {"kind": "tool", "name": HOSTILE[:120]}
    house.client("operator").post(reverse("breaker-reset"), given)
    assert Breaker.objects.get().status == "closed"


@pytest.mark.parametrize("rows", [1, 30])
def test_it_asks_the_database_the_same_whatever_there_is(house: Any, rows: int, django_assert_max_num_queries) -> None:
    for number in range(rows):
        opened(f"m{number}", "model")
        event("opened", house.run.pk)
    client = house.client("operator")
    with django_assert_max_num_queries(SESSION_AND_USER + 7):
        client.get(reverse("breakers-live"))


@pytest.mark.parametrize("who", ["operator", "admin", "outsider"])
def test_an_operator_resets_a_breaker_and_it_is_audited(house: Any, who: str) -> None:
    opened()
    client = house.client(who)
    assert "Reset" in text_of(client.get(reverse("breakers")))
    response = client.post(reverse("breaker-reset"), {"kind": "tool", "name": "fetch_url"}, follow=True)
    assert "is called again" in text_of(response)
    assert Breaker.objects.get().status == "closed"
    assert BreakerEvent.objects.get().what == "reset"
    audited = AuditEvent.objects.get(kind="breaker.reset")
    assert audited.detail == {"kind": "tool", "name": "fetch_url", "status": "open", "why": "timeout"}
    assert audited.actor == getattr(house, who)
    again = client.post(reverse("breaker-reset"), {"kind": "tool", "name": "fetch_url"}, follow=True)
    assert "closed already" in text_of(again)


@pytest.mark.parametrize("who", ["viewer", "reviewer"])
def test_others_may_not(house: Any, who: str) -> None:
    opened()
    client = house.client(who)
    assert "breaker-reset" not in text_of(client.get(reverse("breakers")))
    assert "Reset the breaker" not in text_of(client.get(reverse("breakers")))
    response = client.post(reverse("breaker-reset"), {"kind": "tool", "name": "fetch_url"}, follow=True)
    assert "you need the role operator or admin" in text_of(response)
    assert Breaker.objects.get().status == "open"
    assert AuditEvent.objects.get(kind="access.refused").actor == getattr(house, who)


def test_reading_the_address_resets_nothing(house: Any) -> None:
    opened()
    assert house.client("operator").get(reverse("breaker-reset")).status_code == 405
    assert (
        house.client("operator").post(reverse("breaker-reset"), {"kind": "x", "name": "fetch_url"}).status_code == 404
    )
    assert Breaker.objects.get().status == "open"


def test_a_reset_wakes_the_runs_that_wait_for_the_model(house: Any) -> None:
    opened("claude", "model")
    other = make.run(house.project)
    later = datetime.now(UTC) + timedelta(minutes=10)
    Run.objects.filter(pk=house.run.pk).update(wake_at=later, **make.waiting("model", "claude", "any words"))
    Run.objects.filter(pk=other.pk).update(wake_at=later, **make.waiting("model", "claude: next", "model claude: next"))
    house.client("operator").post(reverse("breaker-reset"), {"kind": "model", "name": "claude"})
    house.run.refresh_from_db()
    other.refresh_from_db()
    assert house.run.wake_at < datetime.now(UTC) + timedelta(seconds=5)
    assert other.wake_at == later


@pytest.mark.spec("E6", "R1")
def test_the_page_of_a_run_says_what_it_waits_for_and_which_model_it_asked(house: Any) -> None:
    make.step(house.run, 1)
    later = datetime.now(UTC) + timedelta(minutes=10)
    until = int(later.timestamp()) * 1_000_000
    waits = f.ModelAwaited(role=ModelRole.ACTOR, model="claude", until=until, reason="overloaded_error")
    asked = f.ModelRequested(
        role=ModelRole.ACTOR, model="spare", request_sha256="", fell_back_from="claude", because="timeout"
    )
    for happened in (waits, f.ModelAwaitEnded(), asked):
        make.fact(house.run, happened, step=1)
    Run.objects.filter(pk=house.run.pk).update(
        **make.waiting("model", "claude", f"model claude: next try at {later:%H:%M:%S} UTC")
    )
    page = text_of(house.client("operator").get(reverse("run", args=[house.run.pk])))
    assert f"Waiting for model claude, next try at {later:%H:%M:%S} UTC" in page
    assert "Asked spare instead of claude" in page
    assert f"odel claude: next try at {later:%H:%M:%S}" in page


# --- what admins set -------------------------------------------------------------------------------------------------


@pytest.mark.spec("S1")
def test_rules_are_shown_and_edited_in_the_admin(house: Any) -> None:
    given = {"kind": "tool", "name": "fetch_url", "enabled": "on", "threshold": 2, "window_s": 90, "cooldown_s": 40}
    client = house.client("admin")
    response = client.post(reverse("admin:loops_breakerrule_add"), given)
    assert response.status_code == 302
    rule = BreakerRule.objects.get()
    assert (rule.threshold, rule.window_s, rule.cooldown_s) == (2, 90, 40)
    assert AuditEvent.objects.get(kind="breaker.rule_changed").detail["threshold"] == "2"
    page = page_of(house)
    assert "1 min 30 s" in page
    bad = client.post(reverse("admin:loops_breakerrule_change", args=[rule.pk]), {**given, "threshold": 0})
    assert bad.status_code == 200
    assert "greater than or equal to 1" in text_of(bad)


@pytest.mark.spec("S3", "E6")
def test_fallbacks_are_set_in_the_admin_and_shown(house: Any) -> None:
    first, second, third = (make.model(name=name) for name in ("first", "second", "third"))
    second.fallback = third
    second.save()
    make.agent(house.project, name="Engineer", actor_model=first)
    given = {"name": "first", "provider": "anthropic", "model_id": "m", "max_tokens": 100, "thinking": "off"}
    given |= {"timeout_s": 5, "pace": 0, "fallback": str(second.pk)}
    response = house.client("admin").post(reverse("admin:loops_modelconfig_change", args=[first.pk]), given)
    assert response.status_code == 302, text_of(response)
    first.refresh_from_db()
    assert [model.name for model in first.chain()] == ["first", "second", "third"]
    page = page_of(house)
    assert "second, then third" in page
    assert "Engineer" in page
    agents = text_of(house.client("admin").get(reverse("admin:loops_agent_changelist")))
    assert "first, then second, then third" in agents


@pytest.mark.spec("S3", "E6")
@pytest.mark.parametrize("length", [1, 2, 3])
def test_fallbacks_never_go_in_circles(length: int, db: None) -> None:
    models = [make.model(name=f"m{number}") for number in range(length)]
    for model, following in pairwise(models):
        model.fallback = following
        model.save()
    last = models[-1]
    last.fallback = models[0]
    with pytest.raises(ValidationError, match="in circles"):
        last.full_clean()
    ModelConfig.objects.filter(pk=last.pk).update(fallback=models[0])
    assert len(ModelConfig.objects.get(pk=models[0].pk).chain()) == length, "and what got in anyway ends"


@pytest.mark.spec("S1")
def test_a_fallback_is_part_of_the_version_that_a_run_records(house: Any) -> None:
    model = make.model(name="first")
    make.agent(house.project, name="Engineer", actor_model=model)
    before = current_version(house.project)
    assert "fallback" not in snapshot_of(house.project)["models"]["first"]
    model.fallback = make.model(name="second")
    model.save()
    assert current_version(house.project) != before
    assert snapshot_of(house.project)["models"]["first"]["fallback"] == "second"
    assert "second" in snapshot_of(house.project)["models"]
