"""Every check notices what it is for, says what to do, and the System page says the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
import redis
from django.conf import settings as configured
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.urls import reverse
from django.utils import timezone

from agentops.embedded import EmbeddedError
from agentops.health import BEAT_KEY
from agentops.management.commands import up
from agentops.ops import chains, checks
from agentops.roles import app_role
from loops.models import ApiToken, Run
from loops.services import tokens
from tests import factories as make
from tests.integration.storage import owned

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("T5", "J4")]


@pytest.fixture(autouse=True)
def as_a_role_has_it(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The suite lets its own transactions stand still for longer than a role of an installation may."""
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", {})
    connection.close()
    yield
    connection.close()


def found() -> dict[str, checks.Check]:
    return {check.name: check for check in [*checks.standing(), *checks.moving()]}


@contextmanager
def as_superuser(statement: str, undo: str) -> Iterator[None]:
    with owned.superuser() as root:
        root.execute(statement)
        try:
            yield
        finally:
            root.execute(undo)


@contextmanager
def session(statement: str) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
    try:
        yield
    finally:
        connection.close()


@contextmanager
def beat(value: Any) -> Iterator[None]:
    client = redis.Redis.from_url(configured.REDIS_URL)
    client.set(BEAT_KEY, value) if value else client.delete(BEAT_KEY)
    yield
    client.set(BEAT_KEY, int(time.time()))
    client.close()


@contextmanager
def given_up() -> Iterator[None]:
    make.run(make.project(), status="failed", end_reason="internal_error")
    yield


@contextmanager
def untaken() -> Iterator[None]:
    run = make.run(make.project(), runnable=True, status="queued")
    Run.objects.filter(pk=run.pk).update(last_activity_at=timezone.now() - timedelta(days=400))
    yield


@contextmanager
def never_backed_up() -> Iterator[None]:
    run = make.run(make.project())
    Run.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(days=400))
    yield


FACT = "loops_fact"
TROUBLES: dict[str, tuple[str, str, Callable[[], Any]]] = {
    "rights given back": (
        "append-only",
        checks.ERROR,
        lambda: as_superuser(f"GRANT DELETE ON {FACT} TO {app_role()}", f"REVOKE DELETE ON {FACT} FROM {app_role()}"),
    ),
    "a trigger switched off": (
        "append-only",
        checks.ERROR,
        lambda: as_superuser(
            f"ALTER TABLE {FACT} DISABLE TRIGGER {FACT}_rows", f"ALTER TABLE {FACT} ENABLE ALWAYS TRIGGER {FACT}_rows"
        ),
    ),
    "a migration not applied": (
        "migrations",
        checks.ERROR,
        lambda: as_superuser(
            "UPDATE django_migrations SET app = 'gone' WHERE app = 'gates' AND "
            "name = (SELECT max(name) FROM django_migrations WHERE app = 'gates')",
            "UPDATE django_migrations SET app = 'gates' WHERE app = 'gone'",
        ),
    ),
    "no lock timeout": ("lock_timeout", checks.WARNING, lambda: session("SET lock_timeout = 0")),
    "no statement timeout": ("statement_timeout", checks.WARNING, lambda: session("SET statement_timeout = 0")),
    "a long idle transaction": (
        "idle_in_transaction_session_timeout",
        checks.WARNING,
        lambda: session("SET idle_in_transaction_session_timeout = '60s'"),
    ),
    "a superuser's login": (
        "role",
        checks.ERROR,
        lambda: as_superuser(f"ALTER ROLE {app_role()} SUPERUSER", f"ALTER ROLE {app_role()} NOSUPERUSER"),
    ),
    "a clock never heard": ("clock", checks.ERROR, lambda: beat(None)),
    "a clock long silent": ("clock", checks.ERROR, lambda: beat(1)),
    "a run given up": ("dead letters", checks.WARNING, given_up),
    "no backup in years": ("backup", checks.WARNING, never_backed_up),
    "a run that nobody takes": ("waiting", checks.WARNING, untaken),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_trouble_is_noticed_and_nothing_else(trouble: str) -> None:
    name, status, begin = TROUBLES[trouble]
    with beat(int(time.time())):
        before = found()
        assert before[name].status == checks.OK, before[name]
        with begin():
            after = found()
        assert (after[name].status, bool(after[name].todo)) == (status, True), after[name]
        others = {one for one in before if before[one].status != after[one].status} - {name, "room"}
        assert others == ({"append-only"} if name == "role" else set())  # a superuser may do anything


def test_a_database_that_loses_commits_is_an_error() -> None:
    for name in ("fsync", "synchronous_commit", "full_page_writes"):
        assert (found()[name].status, found()[name].said) == (checks.ERROR, f"{name} is off")


def test_a_database_that_is_away_is_told_once() -> None:
    default = connections["default"]
    before = default.settings_dict
    default.close()
    default.settings_dict = {**before, "HOST": "/nowhere"}
    try:
        told = [check for check in checks.standing() if check.status == checks.ERROR]
    finally:
        default.settings_dict = before
    assert [(check.group, check.name) for check in told] == [("database", "server")]
    assert "DATABASE_URL" in told[0].todo


def test_a_broker_that_is_away(settings: Any) -> None:
    settings.REDIS_URL = "unix:///nowhere?db=0"
    assert {check.status for check in checks.moving()} == {checks.ERROR}


def test_a_broken_chain_is_found(settings: Any) -> None:
    run = owned.begun().run
    assert chains.verified(False)[0] == checks.OK
    Run.objects.filter(pk=run.pk).update(head_hash=b"x")
    for all_of_them in (False, True):
        status, said, todo = chains.verified(all_of_them)
        assert (status, str(run.pk) in said, bool(todo)) == (checks.ERROR, True, True)


def test_the_command_ends_with_an_error_and_says_all(monkeypatch: pytest.MonkeyPatch) -> None:
    out = StringIO()
    with pytest.raises(CommandError, match="checks failed"):
        call_command("doctor", "--json", stdout=out)
    told = json.loads(out.getvalue())
    assert {"settings", "database", "work", "disk", "parts", "history"} == {check["group"] for check in told}
    assert all(check["todo"] for check in told if check["status"] != "ok")
    monkeypatch.setattr(checks, "everything", lambda all_chains: [checks.Check("a", "b", checks.WARNING, "c", "d")])
    out = StringIO()
    call_command("doctor", stdout=out)  # a warning is no error
    assert out.getvalue().split() == ["warning", "a:", "b:", "c", "->", "d"]


@pytest.mark.spec("S4")
def test_the_system_page_says_the_same(client: Any) -> None:
    project = make.project()
    run = make.run(project, status="failed", end_reason="internal_error")
    other = make.run(make.project(), status="failed", end_reason="internal_error")
    client.force_login(make.user(operator=project))
    page = client.get(reverse("system")).content.decode()
    for check in checks.standing():
        if check.name not in ("connections", "room", "clocks"):
            assert check.said in page.replace("&#x27;", "'"), check
    assert "fsync is off" in page
    assert f'action="{reverse("run-steer", args=[run.pk])}"' in page
    assert str(other.pk) not in page
    client.force_login(make.user(viewer=project))
    page = client.get(reverse("system")).content.decode()
    assert (str(run.pk) in page, 'value="retry"' in page) == (True, False)
    with beat(int(time.time())):
        assert "last beat" in client.get(reverse("system-live")).content.decode()


def test_a_worker_refuses_a_database_that_loses_commits() -> None:
    """The suite's own workers start here because a variable says so; without it none does."""
    argv = [
        sys.executable,
        "-m",
        "celery",
        "-q",
        "-A",
        "agentops",
        "worker",
        "-P",
        "threads",
        "-c",
        "1",
        "-l",
        "warning",
    ]
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    environ = {**kept, "AGENTOPS_STATE": str(configured.PATHS.state), "DJANGO_SETTINGS_MODULE": "agentops.settings"}
    refused = subprocess.run(
        argv, env=environ, cwd=configured.BASE_DIR, capture_output=True, text=True, timeout=100, check=False
    )
    assert refused.returncode != 0
    assert "fsync is off; synchronous_commit is off" in refused.stderr
    assert "AGENTOPS_UNSAFE_DATABASE=1" in refused.stderr


def test_up_refuses_it_too(settings: Any) -> None:
    up.Command()._refuse_an_unsafe_database()
    settings.UNSAFE_DATABASE = False
    with pytest.raises(EmbeddedError, match="fsync is off"):
        up.Command()._refuse_an_unsafe_database()


@pytest.mark.spec("L1", "T5")
def test_a_run_with_a_schema_that_would_be_refused_today_is_named() -> None:
    """An upgrade loses nothing: the run goes on, and a person is asked about its result."""
    run = make.run(make.project())
    assert found()["output schemas"].status == checks.OK
    type(run.task).objects.filter(pk=run.task_id).update(output_schema={"pattern": "(?=a)b"})
    said = found()["output schemas"]
    assert (said.status, said.detail) == (checks.WARNING, str(run.pk))
    assert "submit" in said.todo


@pytest.mark.spec("T5", "X7")
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [("AGENTOPS_FENCE", "off", "AGENTOPS_FENCE=off"), ("AGENTOPS_CRASH_AT", "AFTER_INTENT", "AGENTOPS_CRASH_AT")],
)
def test_switches_that_weaken_a_promise_are_named(settings, monkeypatch, name, value, said):
    settings.UNSAFE_DATABASE = False
    before = next(check for check in checks.standing() if check.name == "safety")
    assert before.status == "ok"
    monkeypatch.setenv(name, value)
    (found,) = [check for check in checks.standing() if check.name == "safety"]
    assert (found.status, said in found.said) == ("warning", True)
    assert "tests only" in found.todo


@pytest.mark.spec("S4")
def test_tokens_from_before_they_expired_are_named():
    tokens.new_token(actor=None, user=make.user("new"))
    assert next(check for check in checks.standing() if check.name == "tokens").status == "ok"
    _, old = tokens.new_token(actor=None, user=make.user("old"))
    ApiToken.objects.filter(pk=old.pk).update(name=tokens.FROM_BEFORE)
    found = next(check for check in checks.standing() if check.name == "tokens")
    assert (found.status, f"{old.expires_at:%Y-%m-%d}" in found.said) == ("warning", True)
