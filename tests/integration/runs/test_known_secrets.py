"""Known secrets planted in every input of a run, searched for in every stored row (SPEC S3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from loops import masking
from loops.models import Run, Workspace
from loops.services import steering, submission, tasks
from tests import factories as make
from tests.factories import create_project
from tests.integration.breakers.wire_runs import drive_on, facts, model
from tests.wire.say import Raw, Say
from tests.wire.server import WireServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("S3")]
SECRET = "planted-value-of-this-house-0123456789"
SIGN = "[masked: ODD_KEY]"


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_masker", masking.Masker({"ODD_KEY": SECRET}))


def stored() -> dict[str, list[str]]:
    """Rows of every table that hold a part of the secret, as text and as bytes."""
    found: dict[str, list[str]] = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            hexed = SECRET[:20].encode().hex()
            cursor.execute(
                f'SELECT t::text FROM "{table}" t WHERE strpos(t::text, %s) > 0 OR strpos(t::text, %s) > 0',
                [SECRET[:20], hexed],
            )
            if rows := [row[:300] for (row,) in cursor.fetchall()]:
                found[table] = rows
    return found


def planted(seen: Any) -> Any:
    """An error that repeats it, then all that a model can say, then a call that holds it."""
    if seen.number == 0:
        return Raw.error(500, "api_error", f"upstream said {SECRET}")
    if seen.number == 1:
        return Say(text=f"I know {SECRET}", thinking=f"it is {SECRET}", calls=[("read_file", {"path": "notes.txt"})])
    if seen.number == 2:
        return Say(calls=[("write_file", {"path": "copy.txt", "content": f"again {SECRET}"})])
    return Say(text=f"Done with {SECRET}")


def test_a_command_that_holds_one_is_refused_with_the_name_of_its_variable(tmp_path: Path) -> None:
    boss = make.superuser("boss")
    agent = make.agent(create_project(actor=boss, name="P", slug="p"))
    place = Workspace.objects.create(project=agent.project, name="W", path=str(tmp_path))
    given = {"actor": boss, "project": agent.project, "agent": agent, "workspace": place, "goal": "x"}
    with pytest.raises(submission.InvalidTask) as refused:
        tasks.submit_task(**given, criteria=[{"text": "", "command": f"curl -u {SECRET} x"}])
    assert "the value of ODD_KEY, a secret" in refused.value.errors["criteria"]
    assert tasks.submit_task(**given, criteria=[{"text": "", "command": "make test"}]).run.pk


def test_no_row_holds_what_was_planted_in_every_input(tmp_path: Path) -> None:
    boss = make.superuser("boss")
    project = create_project(actor=boss, name="P", slug="p")
    (tmp_path / "notes.txt").write_text(f"the key is {SECRET}\n")
    place = Workspace.objects.create(project=project, name="W", path=str(tmp_path), copy_for_each_run=False)
    with WireServer(planted) as server:
        agent = make.agent(project, actor_model=model(server, timeout_s=20))
        given = {"goal": f"Use {SECRET}", "final_review": "never", "workspace": place}
        run = tasks.submit_task(actor=boss, project=project, agent=agent, **given).run
        steering.send_message(actor=boss, run=run, text=f"And {SECRET}")
        drive_on(run)
        assert all(SECRET.encode() not in seen.raw for seen in server.seen), "models are told the sign as well"
        assert any(SIGN.encode() in seen.raw for seen in server.seen)
    assert len(server.seen) > 3
    assert facts(run, "ModelFailed")
    assert SIGN in facts(run, "ModelFailed")[0].message
    assert not (tmp_path / "copy.txt").exists(), "what runs is never changed: it was refused"
    found = stored()
    kept = found.pop("loops_blob", [])
    assert len(kept) <= 1, "the file itself, as it lay in the folder: what is restored is never changed"
    assert found == {}
    client = Client()
    client.force_login(boss)
    for path in (f"/runs/{run.pk}/", f"/api/v1/runs/{run.pk}/", f"/api/v1/runs/{run.pk}/steps/"):
        answer = client.get(path)
        assert answer.status_code == 200, path
        assert SECRET not in answer.content.decode()
    assert (tmp_path / "notes.txt").read_text() == f"the key is {SECRET}\n"


def test_a_command_is_refused_instead_of_changed() -> None:
    boss = make.superuser("boss")
    project = create_project(actor=boss, name="P", slug="p")
    criteria = [{"text": "It answers", "command": f"curl -H 'x: {SECRET}' localhost"}]
    with pytest.raises(submission.InvalidTask, match="leave it out"):
        tasks.submit_task(
            actor=boss, project=project, agent=make.agent(project), workspace=None, goal="x", criteria=criteria
        )
    assert not Run.objects.exists()
    assert stored() == {}
