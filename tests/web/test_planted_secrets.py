"""A known secret typed, pasted or sent wherever a person or a program can: no row, answer or log line keeps it (S3)."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from agentops.logs import Line
from gates.models import Decision
from gates.services.disclosure import whole_proof
from loops import masking
from loops.models import AccessRule, Agent, Fork, MailboxItem, ModelConfig, Project, Run, Task, Workspace
from loops.services import audit
from loops.storage import audit_rows
from tests.addresses import addresses
from tests.integration.gates.builders import open_gate
from tests.integration.services import world as people
from tests.web.test_contributor_doors import parent

pytestmark = [pytest.mark.django_db, pytest.mark.spec("S3", "X4")]
SECRET = "planted-value-of-this-house-0123456789"
SIGN = "[masked: ODD_KEY]"
JSON = "application/json"


@pytest.fixture
def world(db: Any, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> people.World:
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    monkeypatch.setattr(masking, "_masker", masking.Masker({"ODD_KEY": SECRET}))
    return people.make()


def browser(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def stored() -> dict[str, list[str]]:
    """Rows of every table that hold a part of the secret, as text and as bytes."""
    found: dict[str, list[str]] = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(
                f'SELECT t::text FROM "{table}" t WHERE strpos(t::text, %s) > 0 OR strpos(t::text, %s) > 0',
                [SECRET[:20], SECRET[:20].encode().hex()],
            )
            if rows := [row[:400] for (row,) in cursor.fetchall()]:
                found[table] = rows
    return found


# --- what people and programs send, by the door -----------------------------------------------------------------------


def new_task(world: people.World, folder: Path) -> None:
    sent = {"project": world.project.pk, "agent": world.agent.pk, "goal": f"Use {SECRET}", "title": SECRET}
    sent |= {"constraints_text": SECRET, "criterion": [f"It knows {SECRET}"], "idempotency_key": uuid.uuid4().hex}
    browser(world.operator).post("/tasks/new/", sent)
    assert SIGN in Task.objects.get().goal


def new_task_with_a_secret_key(world: people.World, folder: Path) -> None:
    sent = {"project": str(world.project.pk), "agent": str(world.agent.pk), "goal": "x"}
    headers = {"Idempotency-Key": SECRET}
    answer = browser(world.operator).post("/api/v1/tasks/", sent, content_type=JSON, headers=headers)
    assert answer.status_code == 400
    assert masking.LEAVE_OUT in answer.content.decode()


def new_task_of_a_program(world: people.World, folder: Path) -> None:
    sent = {"project": str(world.project.pk), "agent": str(world.agent.pk), "goal": SECRET, "title": SECRET}
    sent |= {"constraints_text": SECRET, "output_schema": {"type": "object", "description": SECRET}}
    assert browser(world.operator).post("/api/v1/tasks/", sent, content_type=JSON).status_code == 201
    assert SIGN in Task.objects.get().goal


def estimate(world: people.World, folder: Path) -> None:
    browser(world.operator).post("/tasks/new/preview/", {"goal": SECRET, "project": world.project.pk})


def message(world: people.World, folder: Path) -> None:
    browser(world.operator).post(f"/runs/{world.run().pk}/message/", {"text": f"It is {SECRET}"})
    assert SIGN in MailboxItem.objects.get().payload["text"]


def message_of_a_program(world: people.World, folder: Path) -> None:
    sent = {"text": f"It is {SECRET}"}
    browser(world.operator).post(f"/api/v1/runs/{world.run().pk}/messages/", sent, content_type=JSON)
    assert SIGN in MailboxItem.objects.get().payload["text"]


def fork(world: people.World, folder: Path) -> None:
    sent = {"step": 1, "message": f"It is {SECRET}", "instructions": SECRET, "change_instructions": "on"}
    browser(world.operator).post(f"/runs/{parent(world, folder).pk}/fork/", sent)
    assert SIGN in Fork.objects.get().message


def fork_of_a_program(world: people.World, folder: Path) -> None:
    sent = {"step": 1, "message": f"It is {SECRET}", "instructions": SECRET}
    browser(world.operator).post(f"/api/v1/runs/{parent(world, folder).pk}/fork/", sent, content_type=JSON)
    assert SIGN in (Fork.objects.get().instructions or "")


def rejection(world: people.World, folder: Path) -> None:
    gate = open_gate(None, run=world.run(status="waiting"))
    sent = {"verdict": "reject", "digest": gate.digest, "reason": f"not {SECRET}"}
    browser(world.reviewer).post(f"/review/{gate.pk}/decide/", sent)
    assert SIGN in Decision.objects.get().reason


def rejection_of_several(world: people.World, folder: Path) -> None:
    gate = open_gate(None, run=world.run(status="waiting"))
    item = f"{gate.pk}:{gate.digest}:"
    sent = {"verdict": "reject", "reason": f"not {SECRET}", "confirmed": "1", "item": item}
    browser(world.reviewer).post("/review/bulk/", sent)
    assert SIGN in Decision.objects.get().reason


def answer_of_a_program(world: people.World, folder: Path) -> None:
    gate = open_gate(None, "question", run=world.run(status="waiting"), view={"question": "Which?"})
    sent = {"verdict": "respond", "digest": gate.digest, "shown": whole_proof(world.reviewer, gate)}
    sent |= {"payload": {"answer": SECRET}, "reason": SECRET}
    browser(world.reviewer).post(f"/api/v1/gates/{gate.pk}/decide/", sent, content_type=JSON)
    assert SIGN in json.dumps(Decision.objects.get().payload)


def token(world: people.World, folder: Path) -> None:
    browser(world.operator).post("/api/v1/me/token/", {"name": SECRET}, content_type=JSON)


def log_in(world: people.World, folder: Path) -> None:
    """Pasted into the wrong field, twice: what is counted is counted under the sign."""
    for _ in range(2):
        address = f"/login/?next=/runs/?q={SECRET}"
        sent = {"username": SECRET, "password": SECRET}
        Client().post(address, sent, headers={"User-Agent": f"curl {SECRET}", "Accept": SECRET})


def secret_everywhere(world: people.World, folder: Path) -> None:
    """In each part of a request to each address there is."""
    client = browser(world.root)
    for address in addresses():
        path = address.filled(uuid=uuid.uuid4(), int=1, str=SECRET, slug=SECRET)
        client.get(path, {"q": SECRET, "after": SECRET, "project": SECRET, "cursor": SECRET})
        client.post(path, dict.fromkeys(("action", "text", "item", "run", "reason", "verdict", "name"), SECRET))
        client.force_login(world.root)
    Client().get(f"/api/v1/runs/?token={SECRET}", headers={"Authorization": f"Token {SECRET}"})


def admin_of(model: type[Any], **fields: Any) -> Callable[[people.World, Path], None]:
    """A form of the admin with the secret in each of its texts: refused whole."""

    def fill(world: people.World, folder: Path) -> None:
        add = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_add")
        before = model.objects.count()
        sent = {name: value(world) if callable(value) else value for name, value in fields.items()}
        answer = browser(world.root).post(add, sent)
        assert answer.status_code == 200
        assert masking.LEAVE_OUT in unescape(answer.content.decode())
        assert model.objects.count() == before

    fill.__name__ = f"admin_of_{model._meta.model_name}"
    return fill


def by_code(world: people.World, folder: Path) -> None:
    """A row that no form was asked about: a script of somebody, a package."""
    Workspace.objects.create(project=world.project, name=SECRET, path=str(folder))
    agent = Agent.objects.get(pk=world.agent.pk)
    agent.instructions = f"Use {SECRET}"
    agent.save()
    assert Agent.objects.get(pk=agent.pk).instructions == f"Use {SIGN}"


def across_the_cut(world: people.World, folder: Path) -> None:
    """What is masked where it is stored would not know the half that is left of it."""
    audit.record("test.happened", actor=world.root, detail={"said": "x" * (audit_rows.LONGEST - 32) + SECRET})


INPUTS = [
    new_task, new_task_with_a_secret_key, new_task_of_a_program, estimate, message, message_of_a_program, fork,
    fork_of_a_program, rejection, rejection_of_several, answer_of_a_program, token, log_in, secret_everywhere, by_code,
    across_the_cut,
    admin_of(Workspace, project=lambda w: w.project.pk, name=SECRET, path=f"/srv/{SECRET}"),
    admin_of(Agent, project=lambda w: w.project.pk, name=SECRET, instructions=SECRET, actor_model=1),
    admin_of(AccessRule, project=lambda w: w.project.pk, tool=SECRET, note=SECRET, paths=json.dumps([SECRET])),
    admin_of(ModelConfig, name="m", provider="anthropic", model_id=SECRET, base_url=f"https://x.example/{SECRET}"),
]  # fmt: skip


@pytest.mark.parametrize("plant", INPUTS, ids=lambda plant: plant.__name__)
def test_nothing_keeps_a_known_secret(
    world: people.World, tmp_path: Path, caplog: pytest.LogCaptureFixture, plant: Callable[[people.World, Path], None]
) -> None:
    caplog.set_level(logging.DEBUG)
    plant(world, tmp_path)
    assert stored() == {}
    lines = [Line().format(record) for record in caplog.records]
    assert not [line for line in lines if SECRET in line]


def test_the_walk_sees_what_is_kept(world: people.World) -> None:
    """``update`` asks no model: the control of the search above."""
    Project.objects.update(name=SECRET[:30])
    assert list(stored()) == ["loops_project"]


def test_what_was_typed_comes_back_in_no_answer(world: people.World, tmp_path: Path) -> None:
    new_task(world, tmp_path)
    rejection(world, tmp_path)
    client, shown = browser(world.root), 0
    for run in Run.objects.values_list("pk", flat=True):
        for address in addresses():
            answer = client.get(address.filled(run_id=run, pk=run, uuid=run, int=1, str="x", slug="x"))
            body = b"".join(answer.streaming_content) if answer.streaming else answer.content
            shown += SIGN.encode() in body
            assert SECRET.encode() not in body, address.path
            client.force_login(world.root)
    assert shown > 5


def test_to_mask_what_is_saved_reads_nothing(world: people.World, django_assert_num_queries: Any) -> None:
    row = Run.objects.only("pk", "status").get(pk=world.run().pk)
    with django_assert_num_queries(1):
        row.save(update_fields=["status"])
