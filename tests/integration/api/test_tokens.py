"""API tokens: nobody who reads the database has one, they expire, and they end with the password."""

from __future__ import annotations

import importlib
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.hashers import make_password
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test import Client
from django.utils import timezone
from rest_framework.authtoken.models import Token
from rest_framework.test import APIClient

from loops.models import ApiToken, AuditEvent
from loops.services import tokens as service

pytestmark = [pytest.mark.django_db, pytest.mark.spec("S4", "X7")]
ME = "/api/v1/me/"
URL = "/api/v1/me/token/"


def ask(token: str) -> int:
    return int(APIClient().get(ME, headers={"Authorization": f"Token {token}"}).status_code)


def fresh(api: Any, user: Any, **fields: Any) -> str:
    answer = api(user).post(URL, fields, format="json")
    assert answer.status_code == 201, answer.content
    return str(answer.json()["token"])


def test_the_database_holds_no_token(world, api):
    token = fresh(api, world.operator, name="nightly")
    assert ask(token) == 200
    with connection.cursor() as cursor:
        cursor.execute("SELECT string_agg(t::text, ' ') FROM loops_apitoken t")
        kept = cursor.fetchone()[0]
        cursor.execute("SELECT count(*) FROM authtoken_token")
        assert cursor.fetchone()[0] == 0
    assert token not in kept
    assert token[3:] not in kept
    assert token not in str(list(AuditEvent.objects.values_list("detail", flat=True)))


def test_it_is_listed_without_itself_and_can_be_ended(world, api):
    token = fresh(api, world.operator, name="nightly", days=7)
    other = fresh(api, world.operator, name="laptop")
    ask(token)
    listed = {row["name"]: row for row in api(world.operator).get(URL).json()}
    assert set(listed) == {"nightly", "laptop"}
    assert set(listed["nightly"]) == {"id", "name", "created_at", "expires_at", "last_used_at"}
    assert listed["nightly"]["last_used_at"]
    assert listed["laptop"]["last_used_at"] is None
    address = f"{URL}{listed['nightly']['id']}/"
    assert api(world.viewer).get(URL).json() == []
    foreign, unknown = api(world.viewer).delete(address), api(world.viewer).delete(f"{URL}{uuid.uuid4()}/")
    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert foreign.json()["detail"] == unknown.json()["detail"]
    assert ask(token) == 200
    assert api(world.operator).delete(address).status_code == 204
    assert (ask(token), ask(other)) == (401, 200)
    assert api(world.operator).delete(address).status_code == 404
    assert AuditEvent.objects.filter(kind="token.ended", actor=world.operator).count() == 1


def test_one_of_the_same_name_takes_its_place(world, api):
    first, second = fresh(api, world.operator), fresh(api, world.operator)
    assert (ask(first), ask(second)) == (401, 200)


def test_a_token_makes_no_tokens(world, api):
    token = fresh(api, world.operator, name="nightly", days=1)
    with_token = APIClient(headers={"Authorization": f"Token {token}"})
    for fields in ({"name": "for ever", "days": 365}, {"name": "nightly"}):
        answer = with_token.post(URL, fields, format="json")
        assert (answer.status_code, answer["Content-Type"]) == (403, "application/problem+json")
    assert ApiToken.objects.get().ended_at is None
    assert [row["name"] for row in with_token.get(URL).json()] == ["nightly"]
    assert AuditEvent.objects.filter(kind="api.refused", actor=world.operator).count() == 2


def test_who_is_logged_in_makes_one(world):
    browser = APIClient()
    browser.force_login(world.operator)
    answer = browser.post(URL, {"name": "nightly"}, format="json")
    assert answer.status_code == 201
    assert ask(answer.json()["token"]) == 200


def test_a_person_has_so_many_and_one_of_the_same_name_makes_room(world, api, monkeypatch):
    monkeypatch.setattr(service, "MOST", 3)
    first, second, _ = (fresh(api, world.operator, name=name) for name in ("a", "b", "c"))
    refused = api(world.operator).post(URL, {"name": "d"}, format="json")
    assert refused.status_code == 409
    assert "at most 3 tokens" in refused.json()["detail"]
    assert ask(first) == 200, "nothing ended for one that was not made"
    newer = fresh(api, world.operator, name="a")
    assert (ask(first), ask(second), ask(newer)) == (401, 200, 200)
    assert ask(fresh(api, world.viewer)) == 200, "others have their own"
    ApiToken.objects.filter(name="b").update(expires_at=timezone.now())
    assert ask(fresh(api, world.operator, name="d")) == 200, "what expired counts no more"


def test_it_expires(world, api):
    token = fresh(api, world.operator, days=1)
    row = ApiToken.objects.get()
    assert timedelta(hours=23) < row.expires_at - timezone.now() <= timedelta(days=1)
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert ask(token) == 401
    assert api(world.operator).get(URL).json() == []


@pytest.mark.parametrize(
    "fields", [{"days": 0}, {"days": 366}, {"days": "x"}, {"name": "a\0"}, {"name": "a" * 101}, {"x": 1}]
)
def test_what_makes_no_token(world, api, fields):
    assert api(world.operator).post(URL, fields, format="json").status_code in (400, 409)
    assert not ApiToken.objects.exists()


def new_password(user: Any) -> None:
    user.set_password("another one entirely")
    user.save()


def no_password(user: Any) -> None:
    user.set_unusable_password()
    user.save()


def only_the_password(user: Any) -> None:
    user.set_password("another one entirely")
    user.save(update_fields=["password"])


def not_active(user: Any) -> None:
    user.is_active = False
    user.save()


@pytest.mark.parametrize("change", [new_password, no_password, only_the_password, not_active])
def test_it_ends_with_the_password(world, api, change):
    token, other = fresh(api, world.operator), fresh(api, world.viewer)
    change(world.operator)
    assert (ask(token), ask(other)) == (401, 200)


def test_a_new_password_typed_in_the_admin_ends_it_and_that_is_told(world, api):
    token = fresh(api, world.operator)
    root = Client()
    root.force_login(world.root)
    typed = {"password1": "Quite-another-1", "password2": "Quite-another-1", "usable_password": "true"}
    assert root.post(f"/admin/auth/user/{world.operator.pk}/password/", typed).status_code == 302
    assert ask(token) == 401
    assert AuditEvent.objects.get(kind="token.ended").detail == {"user": "operator", "password": 1}


def test_logging_in_and_a_better_hash_of_the_same_password_end_nothing(world, api, settings):
    world.operator.set_password("the old one it is")
    world.operator.save()
    token = fresh(api, world.operator)
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.ScryptPasswordHasher", *settings.PASSWORD_HASHERS]
    before = world.operator.password
    typed = {"username": "operator", "password": "the old one it is"}
    assert Client().post("/login/", typed).status_code == 302
    world.operator.refresh_from_db()
    assert world.operator.password != before
    world.operator.email = "o@example.org"
    world.operator.save()
    assert ask(token) == 200


@pytest.mark.parametrize("sent", ["", "x", "ao_", "é", "\udcff", "a" * 5000])
def test_what_is_no_token_is_refused_alike(world, sent):
    answer = APIClient().get(
        ME, headers={"Authorization": f"Token {sent}".encode("latin-1", "replace").decode("latin-1")}
    )
    assert answer.status_code == 401
    assert answer["Content-Type"] == "application/problem+json"


@pytest.mark.spec("J4")
def test_an_upgrade_hashes_those_that_exist_and_they_work_on(world):
    plain = Token.objects.create(user=world.operator).key
    migration = importlib.import_module("loops.migrations.0027_api_tokens")
    migration.hash_those_in_plain(apps, None)
    assert ask(plain) == 200
    assert not Token.objects.exists()
    row = ApiToken.objects.get()
    assert plain not in row.digest
    assert timedelta(days=89) < row.expires_at - timezone.now() <= timedelta(days=90)


@pytest.mark.spec("T3")
def test_the_command_line_makes_lists_and_ends(world, capsys):
    def said(*words: str) -> str:
        call_command("agentops", *words)
        return capsys.readouterr().out.strip()

    token = said("token", "operator", "--name", "cron", "--days", "3")
    assert ask(token) == 200
    (line,) = said("token", "operator", "--list").splitlines()
    assert "cron" in line
    assert token not in line
    said("token", "operator", "--end", line.split()[0])
    assert ask(token) == 401
    with pytest.raises(CommandError, match="no such token"):
        call_command("agentops", "token", "operator", "--end", line.split()[0])
    with pytest.raises(CommandError, match="1 to 365"):
        call_command("agentops", "token", "operator", "--days", "4000")


def test_a_hashed_password_that_is_loaded_as_it_is_counts_as_new(world, api):
    token = fresh(api, world.operator)
    world.operator.password = make_password("from elsewhere")
    world.operator.save()
    assert ask(token) == 401
