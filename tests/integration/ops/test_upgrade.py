"""An upgrade from the version before the walls: nothing is lost, and `doctor` says what is tighter for whom."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as configured
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.test import Client

from agentops import roles
from agentops.ops import checks
from gates.models import Gate
from loops.models import ApiToken, AuditEvent, Workspace
from tests.integration.ops import before

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("T5", "J4", "I7")]

MOVED = {"authtoken_token", "django_migrations"}
"""Tokens are rows of another table from now on, and hashed."""
TIGHTER = {
    "workspaces": ("Workspaces refused: 5", "Admin > Workspaces"),
    "model addresses": ("redirected", "superuser can allow it"),
    "tokens": ("API tokens from before they expired: 1", "agentops token USER"),
    "output schemas": ("Runs whose output schema cannot be judged in bounded time: 1", "submit their tasks"),
    "task limits": ("asked for more than their project's policy allows: 1", "Admin > Policies"),
    "decisions from before": ("Decisions that have been open since before the upgrade: 3", "`shown`"),
    "commands from before": ("Decisions about commands that do not bind the workspace: 1", "in Review"),
    "other people": ("Open decisions that nobody else of the project may approve: 1", "one more person"),
}
"""Check of `doctor` -> what it finds in that installation, and what it says is to do."""
SAID = {
    "workspaces": "workspaces that\n  not only superusers set are refused",
    "model addresses": "are refused until a superuser allows them; `doctor` names them",
    "tokens": "Those that exist work on for 90 days after the upgrade",
    "output schemas": "`agentops doctor` names it",
    "task limits": "The policy of a project is a floor",
    "decisions from before": "a card that was open before the upgrade is shown once more",
    "commands from before": "commands that were approved before the upgrade and did not run yet are asked about",
    "other people": "in such projects this holds for what was\n  done before the upgrade too",
}
"""What CHANGELOG says of each."""


def test_nothing_is_lost_and_what_is_tighter_is_said(elsewhere: Callable[..., Path]) -> None:
    elsewhere()
    with roles.as_owner():
        rows = before.Rows(before.schema())
        then = before.everything()
    call_command("migrate", verbosity=0, stdout=StringIO())
    nothing_is_lost(then)
    what_superusers_made_stays_allowed_and_what_others_touched_does_not()
    doctor_says_what_is_tighter()
    token_lets_in_and_gates_can_be_decided(rows)
    what_is_over_is_not_named_any_more()


def nothing_is_lost(then: dict[str, list[dict[str, Any]]]) -> None:
    now = before.everything()
    assert sum(map(len, then.values())) > 30, "the installation of before has rows"
    for table in set(then) - MOVED:
        lost = [row for row in then[table] if not any(still_there(row, other) for other in now[table])]
        assert not lost, table
    assert now["authtoken_token"] == [], "no token is kept as it is"
    (token,) = ApiToken.objects.all()
    assert token.user.username == "rae"


def still_there(row: dict[str, Any], other: dict[str, Any]) -> bool:
    """With every column that it had, as it was."""
    return all(name in other and other[name] == value for name, value in row.items())


def what_superusers_made_stays_allowed_and_what_others_touched_does_not() -> None:
    boss = get_user_model().objects.get(username="boss")
    allowed = {row.name: row for row in Workspace.objects.exclude(allowed_by=None)}
    assert set(allowed) == {"by boss", "renamed by ada"}
    row = allowed["by boss"]
    assert (row.path, row.allowed_path, row.allowed_in_place, row.allowed_by) == ("/srv/x/", "/srv/x", True, boss)
    assert AuditEvent.objects.filter(kind="workspace.allowed", actor=boss, detail__by="upgrade").count() == 2


def doctor_says_what_is_tighter() -> None:
    told = StringIO()
    with pytest.raises(CommandError, match="checks failed"):  # the suite's server runs without fsync
        call_command("doctor", "--json", stdout=told)
    found = {check["name"]: check for check in json.loads(told.getvalue())}
    for name, (said, todo) in TIGHTER.items():
        check = found[name]
        assert check["status"] == checks.WARNING, check
        assert said in check["said"], check
        assert todo in check["todo"], check


def token_lets_in_and_gates_can_be_decided(rows: before.Rows) -> None:
    """By a program that was written before, with the one field that is new."""
    client = Client(headers={"Authorization": f"Token {before.TOKEN}"})
    gate = rows.command
    address = f"/api/v1/gates/{gate.pk}/"
    sent = {"verdict": "approve", "digest": gate.digest}
    refused = client.post(f"{address}decide/", sent, content_type="application/json")
    assert (refused.status_code, b"GET the whole gate" in refused.content) == (422, True), refused.content
    whole = client.get(address).json()
    decided = client.post(f"{address}decide/", {**sent, "shown": whole["shown"]}, content_type="application/json")
    assert decided.status_code == 201, decided.content
    held = client.get(f"/api/v1/gates/{rows.held.pk}/").json()
    sent = {"verdict": "approve", "digest": held["digest"], "shown": held["shown"]}
    refused = client.post(f"/api/v1/gates/{rows.held.pk}/decide/", sent, content_type="application/json")
    assert refused.status_code == 403
    assert "You forked, messaged, edited or answered this run" in refused.content.decode()


def what_is_over_is_not_named_any_more() -> None:
    Gate.objects.filter(status="open").update(status="void")
    Gate.objects.filter(status="approved").update(consumed_at=datetime.now(UTC))
    found = {check.name: check for check in checks.standing()}
    for name in ("decisions from before", "commands from before", "other people"):
        assert found[name].status == checks.OK, found[name]


@pytest.mark.parametrize("name", TIGHTER)
def test_the_changelog_says_it_too(name: str) -> None:
    assert SAID[name] in (configured.BASE_DIR / "CHANGELOG.md").read_text()
