"""Who gets what at every address there is, and that nobody gets anything of another team (attack 43).

The table is of all addresses that Django routes by: one that is not listed fails, and so does one that answers anybody
otherwise than it says. Nothing that another team has may stand in any answer, in any representation, and its ids are
answered like ids that never were.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agentops.urls import admin
from gates.models import Decision
from loops.engine import facts as f
from loops.ids import new_id
from loops.models import Agent, Artifact, AuditEvent, Blob, BreakerEvent, Detection, Run, Setup, Workspace
from loops.services import people, policies
from loops.web.live.routes import websocket_urlpatterns
from tests import factories as make
from tests.addresses import Address, addresses
from tests.web.doors import DOORS, ROLES, SOCKETS

pytestmark = [pytest.mark.django_db, pytest.mark.spec("S4", "X7")]
PLANT = "zqplant"
SHA = "ab" * 32
NEVER = uuid.UUID(int=11)


@dataclass
class Town:
    """One's own run and gate, and everything that another team has."""

    house: Any
    own: dict[str, Any]
    planted: dict[str, Any]
    secret: set[str]


def fill(run: Run, user: Any, word: str) -> dict[str, Any]:
    """Something of every kind, and the ids that lead to it."""
    now = timezone.now()
    make.fact(run, f.MessageReceived(text=word, by=word), step=1)
    make.step(run, 1, said=word, reasoning=word)
    make.tool_call(run, 1, call_id="c1", tool="read_file", arguments={"path": word}, output=word)
    gate = make.gate(run, title=word)
    decided = make.gate(run, title=word, status="approved")
    decision = Decision.objects.create(
        gate=decided, verdict="approve", reason=word, digest=decided.digest, decided_by=user
    )
    Blob.objects.get_or_create(sha256=SHA, defaults={"size": 4, "body": b"blob"})
    Artifact.objects.create(run=run, seq=9, kind="output", name=word, media_type="text/plain", sha256=SHA, size=4)
    Detection.objects.create(run=run, kind="loop", method="semantic", evidence=word, steps=[1], seq=3)
    BreakerEvent.objects.create(id=new_id(), at=now, what="opened", kind="tool", name="x", why="timeout", run=run.pk)
    AuditEvent.objects.create(kind="run.steered", actor=user, project=run.project, run=run, detail={"said": word})
    workspace = Workspace.objects.create(
        project=run.project,
        name=f"{word} set up",
        path=f"/srv/{word}",
        setup_command=word,
        test_command=word,
        variables={"SAID": word},
    )
    Setup.objects.create(workspace=workspace, command=word, log=word, why_not=word, state="failed", until=now)
    fetched = Workspace.objects.create(
        project=run.project, name=f"{word} fetched", git_url=f"https://{word}.example/x", git_ref=word
    )
    Setup.objects.create(workspace=fetched, kind="fetch", command=word, log=word, state="failed", until=now)
    ids = {
        "workspace": workspace.pk,
        "run": run.pk,
        "gate": gate.pk,
        "decision": decision.pk,
        "task": run.task_id,
        "project": run.project_id,
    }
    return {**ids, "agent": run.agent_id}


@pytest.fixture
def town(house: Any) -> Town:
    own = fill(house.run, house.operator, "our own words")
    elsewhere = make.project(f"{PLANT} project")
    foreigner = make.user(f"{PLANT}user", operator=elsewhere)
    agent = Agent.objects.create(project=elsewhere, name=f"{PLANT} agent", actor_model=house.run.agent.actor_model)
    Workspace.objects.create(project=elsewhere, name=f"{PLANT} folder", path=f"/srv/{PLANT}")
    task = make.task(elsewhere, title=f"{PLANT} title", goal=f"{PLANT} goal", created_by=foreigner, agent=agent)
    planted = fill(make.run(task), foreigner, f"{PLANT} words")
    policies.create_default_policy(elsewhere)
    house.nobody = make.user("nemo")
    house.chief = make.user("carla", admin=house.project)
    house.chief.is_staff = True
    house.chief.save()
    return Town(house, own, planted, {PLANT, *map(str, planted.values())})


def at(address: Address, ids: dict[str, Any]) -> str:
    """The address with ids where it wants some; a number is the first of its kind."""
    whole = {"pk": ids["run"], "one_id": ids["run"], **{f"{kind}_id": one for kind, one in ids.items()}}
    for kind in ("gate", "decision", "task", "project", "agent", "workspace"):
        if re.match(rf"api/v1/{kind}s/", address.path):
            whole["pk"] = ids[kind]
    other = {"other": ids["run"], "other_id": ids["run"], "sha256": SHA, "token": "once", "name": "none"}
    return address.filled(**whole, **other, int=1, str="x", slug="x", uuid=ids["run"])


def ask(client: Client, method: str, path: str, **headers: str) -> tuple[int, str]:
    """(status, body and headers but random words and the time); what was written is taken back, who left is back."""
    logged_in = client.cookies.copy()
    with transaction.atomic():
        answer = client.generic(method, path, headers=headers, content_type="application/x-www-form-urlencoded")
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content  # type: ignore[attr-defined]
        transaction.set_rollback(True)
    client.cookies = logged_in
    said = body.decode(errors="replace") + "\n".join(
        f"{name}: {value}" for name, value in sorted(answer.items()) if name != "Expires"
    )
    said = re.sub(r"(?<=\?since=)\d+", "<now>", said)  # from when on a page's socket tells it of others
    return answer.status_code, re.sub(r"\b[A-Za-z0-9]{64}\b|\b[0-9a-f]{32}\b", "<random>", said)


def every() -> list[Address]:
    return addresses()


def test_every_address_is_listed_and_every_socket() -> None:
    assert {address.path for address in every()} == set(DOORS)
    assert {str(one.pattern) for one in websocket_urlpatterns} == SOCKETS


@pytest.mark.parametrize("who", ROLES)
def test_each_address_answers_each_role_as_listed(town: Town, who: str) -> None:
    client = town.house.client(who)
    wrong = {}
    for address in every():
        method, *statuses = DOORS[address.path].split()
        status, _ = ask(client, method, at(address, town.own))
        if str(status) != statuses[ROLES.index(who)]:
            wrong[address.path] = f"{status} instead of {statuses[ROLES.index(who)]}"
    assert not wrong


REPRESENTATIONS: dict[str, dict[str, str]] = {
    "page": {"Accept": "text/html"},
    "json": {"Accept": "application/json"},
    "csv": {"Accept": "text/csv"},
    "fragment": {"HX-Request": "true", "Accept": "*/*"},
}


ASKING = [(who, form) for form in REPRESENTATIONS for who in (ROLES if form == "page" else ("outsider", "operator"))]


@pytest.mark.parametrize(("who", "form"), ASKING)
def test_nothing_of_another_team_is_said_to_anybody(town: Town, who: str, form: str) -> None:
    client, headers = town.house.client(who), REPRESENTATIONS[form]
    told = {}
    for address in every():
        method = DOORS[address.path].split()[0]
        said = ask(client, method, at(address, town.own), **headers)[1]
        if found := {word for word in town.secret if word in said}:
            told[address.path] = found
    assert not told


@pytest.mark.parametrize("who", ["anonymous", "outsider", "operator", "chief"])
def test_an_id_of_another_team_is_answered_like_one_that_never_was(town: Town, who: str) -> None:
    client = town.house.client(who)
    never = {name: NEVER if isinstance(key, uuid.UUID) else str(NEVER) for name, key in town.planted.items()}
    told = {}
    for address in every():
        if not address.converters:
            continue
        method = DOORS[address.path].split()[0]
        answers = []
        for ids in (town.planted, never):
            status, said = ask(client, method, at(address, ids))
            for key in ids.values():
                said = said.replace(str(key), "<id>")
            answers.append((status, said))
        if answers[0] != answers[1]:
            told[address.path] = (answers[0][0], answers[1][0])
    assert not told


# --- the admin's own pages --------------------------------------------------------------------------------------------

TUNED = sorted(f"{model._meta.app_label}_{model._meta.model_name}" for model in admin.site._registry)
OF_A_ROW = ("change", "history", "delete")


@pytest.fixture
def chief(town: Town) -> Client:
    """An admin of one project, as an installation makes them."""
    people.ensure_groups()
    policies.create_default_policy(town.house.project)
    town.house.chief.groups.add(Group.objects.get(name="admin"))
    return town.house.client("chief")  # type: ignore[no-any-return]


def rows_of(label: str) -> Any:
    return next(model for model in admin.site._registry if f"{model._meta.app_label}_{model._meta.model_name}" == label)


@pytest.mark.parametrize("label", TUNED)
def test_lists_and_forms_of_the_admin_say_nothing_of_another_team(town: Town, chief: Client, label: str) -> None:
    """Cells, choices of fields and of filters."""
    for page in ("changelist", "add"):
        said = ask(chief, "GET", reverse(f"admin:{label}_{page}"))[1]
        assert PLANT not in said, page


@pytest.mark.parametrize("label", TUNED)
def test_rows_of_another_team_are_in_the_admin_as_if_they_were_not_there(town: Town, chief: Client, label: str) -> None:
    theirs = [
        row for row in rows_of(label)._base_manager.all() if PLANT in f"{vars(row)} {getattr(row, 'project', '')}"
    ]
    for row in theirs:
        never = NEVER if isinstance(row.pk, uuid.UUID) else 10**9 if isinstance(row.pk, int) else "never"
        for page in OF_A_ROW:
            answers = []
            for key in (row.pk, never):
                status, said = ask(chief, "GET", reverse(f"admin:{label}_{page}", args=[key]))
                answers.append((status, PLANT in said))
            assert answers[0] == answers[1], (page, row)


def test_people_are_not_listed_to_whoever_may_not_see_them(town: Town, chief: Client) -> None:
    where = {"app_label": "loops", "model_name": "membership", "field_name": "user", "term": PLANT}
    said = chief.get(reverse("admin:autocomplete"), where)
    assert said.status_code == 403
