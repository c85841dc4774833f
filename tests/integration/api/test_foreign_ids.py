"""An id of another team and one that never was are the same to whoever asks: answer, status and work."""

from __future__ import annotations

import re
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from gates.models import Decision
from tests import factories as make
from tests.addresses import addresses

pytestmark = [pytest.mark.django_db, pytest.mark.spec("X7", "S4")]
NOBODY = uuid.UUID(int=7)


@pytest.fixture
def theirs(world):
    """What the other team has, by the name of the filter that leads to it."""
    run = make.run(make.task(world.elsewhere, title="Sell the island", idempotency_key="island"))
    gate = make.gate(run, title="Pay the pirates")
    Decision.objects.create(gate=gate, verdict="reject", digest=gate.digest, decided_by=world.outsider)
    world.run()
    return {"project": run.project_id, "run": run.pk, "task": run.task_id, "agent": run.agent_id, "gate": gate.pk}


def filters() -> list[tuple[str, str, str]]:
    """(address, parameter, what its values are ids of), of every list in the table of addresses."""
    found = []
    for address in addresses("api/v1/"):
        kwargs = getattr(address.view, "initkwargs", {})
        narrowed = kwargs.get("filterset_class", getattr(address.api_view, "filterset_class", None))
        listing = "list" in getattr(address.view, "actions", {}).values()
        for name in narrowed.base_filters if narrowed and listing else ():
            if (last := name.split("__")[-1]) in ("project", "run", "task", "agent", "gate"):
                found.append((f"/{address.path}", name, last))
    return found


def test_the_walk_meets_the_filters() -> None:
    assert {("/api/v1/gates/", "run", "run"), ("/api/v1/decisions/", "gate__project", "project")} <= set(filters())


@pytest.mark.parametrize(("path", "name", "kind"), filters())
def test_a_filter_says_nothing_of_what_one_may_not_see(world, theirs, api, path, name, kind):
    client = api(world.operator)
    answers = []
    for value in (theirs[kind], NOBODY if isinstance(theirs[kind], uuid.UUID) else NOBODY.hex):
        with CaptureQueriesContext(connection) as asked:
            answer = client.get(path, {name: str(value)})
        said = [answer.content.decode(), *(one["sql"] for one in asked)]
        spelled = (str(value), str(value).replace("-", ""))
        answers.append((answer.status_code, [re.sub("|".join(spelled), "<id>", text) for text in said]))
    assert answers[0] == answers[1]
    assert answers[0][0] == 200


@pytest.mark.parametrize("accept", ["text/html", "*/*"])
@pytest.mark.parametrize("path", sorted({f"/{one.path}" for one in addresses("api/v1/") if not one.converters}))
def test_no_representation_of_a_list_names_another_team(world, theirs, api, path, accept):
    answer = api(world.operator).get(path, headers={"Accept": accept})
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    said = body.decode()
    assert answer["Content-Type"].split(";")[0] != "text/html"
    assert not {str(value) for value in theirs.values() if str(value) in said}
    for title in ("Sell the island", "Pay the pirates", world.elsewhere.name):
        assert title not in said


def test_answers_are_kept_in_no_cache(world, api):
    for path in ("v1/", "v1/me/", "v1/gates/", "schema/", "v1/decisions/export.csv", f"v1/runs/{NOBODY}/"):
        assert api(world.operator).get(f"/api/{path}").headers.get("Cache-Control") == "no-store", path
    assert api().get("/api/v1/me/")["Cache-Control"] == "no-store"


@pytest.mark.parametrize("body", ['{"verdict":"approve","verdict":"reject"}', "[" * 100 + "]" * 100, '{"a": NaN}'])
def test_decisions_are_read_as_strictly_as_tasks(world, api, body):
    gate = make.gate(world.run())
    answer = api(world.reviewer).post(f"/api/v1/gates/{gate.pk}/decide/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (400, "parse_error")
