"""What the model was told, request by request, through REST."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from loops.engine import facts as f
from loops.engine.apply import apply, initial
from loops.models import Artifact, Blob, Detection, ModelConfig, Run
from tests import factories as make
from tests.unit.engine.test_context_window import WINDOW, Honest, a_run

pytestmark = [pytest.mark.django_db, pytest.mark.spec("R4", "U1", "T2")]
PARTS = ("conversation/", "conversation/1/", "requests/1/", "curve/", "detections/", f"output/{'0' * 64}/")


def driven(steps: int) -> list[f.Fact]:
    """The facts of a run that a real driver led, in a window that it would pass again and again."""
    world = a_run(Honest(steps, window=WINDOW))
    assert world.drive() == "ended"
    return world.journal.facts


def keep(run: Run, facts: list[f.Fact]) -> list[f.Fact]:
    state = None
    for fact in facts:
        state = initial(fact) if isinstance(fact, f.RunStarted) else apply(state, fact)  # type: ignore[arg-type]
        make.fact(run, fact, step=state.step)
    return facts


def stored(run: Run, steps: int) -> list[f.Fact]:
    return keep(run, driven(steps))


@pytest.fixture
def client(world, api):
    return api(world.viewer)


@pytest.fixture
def run(world):
    return world.run()


def pages(client: Any, url: str, **query: Any) -> list[dict[str, Any]]:
    """All messages, page by page."""
    found, after = [], 0
    while after is not None:
        answer = client.get(url, {**query, "after": after}).json()
        found += answer["messages"]
        after = answer["next_after"]
    return found


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(("who", "status"), [("outsider", 404), (None, 401)])
def test_it_is_for_people_of_the_project(world, run, api, part, who, status):
    stored(run, 2)
    assert api(who and getattr(world, who)).get(f"/api/v1/runs/{run.pk}/{part}").status_code == status


def test_each_request_is_given_as_it_was_sent_and_verified(client, run):
    facts = stored(run, 20)
    asked = [fact for fact in facts if isinstance(fact, f.ModelRequested)]
    url = f"/api/v1/runs/{run.pk}/conversation/"
    for number in (1, 2, len(asked)):
        found = client.get(url, {"request": number, "limit": 200}).json()
        assert (found["request"], found["requests"]) == (number, len(asked))
        assert (found["matches"], found["request_sha256"]) == (True, asked[number - 1].request_sha256)
        assert found["system"].startswith("Be good.")
        assert set(found["tokens"]) == {"system", "tools", "messages"}
        assert len(found["tools"]) >= 3
    assert [message["number"] for message in pages(client, url, limit=7)] == list(
        range(1, 1 + len(pages(client, url, limit=200)))
    )


def test_a_changed_journal_is_noticed(client, run):
    facts = driven(4)
    at = next(number for number, fact in enumerate(facts) if isinstance(fact, f.ToolCompleted))
    changed = replace(facts[at], result=replace(facts[at].result, content="something else"))
    keep(run, [*facts[:at], changed, *facts[at + 1 :]])
    url = f"/api/v1/runs/{run.pk}/conversation/?request="
    assert [client.get(f"{url}{number}").json()["matches"] for number in (1, 2, 3)] == [True, False, False]


def test_what_was_left_out_is_named_and_can_be_had(client, run):
    stored(run, 40)
    url = f"/api/v1/runs/{run.pk}/conversation/"
    dropped = [one for one in client.get(url).json()["prunings"] if one["dropped"]]
    assert dropped
    gone = pages(client, f"{url}{dropped[0]['seq']}/", limit=3)
    assert len(gone) == dropped[0]["dropped"]
    assert {block["type"] for message in gone for block in message["content"]} >= {"tool_use", "tool_result"}
    assert any(block["type"] == "summary" for message in pages(client, url) for block in message["content"])
    assert client.get(f"{url}1/").status_code == 404, "that fact left nothing out"


def test_a_request_has_the_form_of_its_provider(client, run):
    asked = next(fact for fact in stored(run, 2) if isinstance(fact, f.ModelRequested))
    url = f"/api/v1/runs/{run.pk}/requests/1/"
    assert set(client.get(url).json()) == {"system", "tools", "messages", "max_tokens"}
    ModelConfig.objects.create(name=asked.model, provider="anthropic", model_id="claude-sonnet-5-5")
    body = client.get(url).json()
    assert body["model"] == "claude-sonnet-5-5"
    assert body["system"][0]["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize("part", ["conversation/?request=99", "requests/99/", "requests/0/"])
def test_a_request_that_was_never_made_is_not_found(client, run, part):
    stored(run, 2)
    answer = client.get(f"/api/v1/runs/{run.pk}/{part}")
    assert answer.status_code == 404
    assert answer["Content-Type"] == "application/problem+json"


def test_a_run_that_has_not_begun_has_an_empty_conversation(client, run):
    found = client.get(f"/api/v1/runs/{run.pk}/conversation/").json()
    assert (found["requests"], found["messages"], found["system"], found["next_after"]) == (0, [], "", None)


@pytest.mark.spec("G1", "G2", "G3")
def test_the_curve_has_what_each_point_was_measured_by(client, run):
    validation = {"progress": 0.5, "method": "tests", "detail": "1 of 2 tests pass"}
    make.step(run, 1, progress=0.5, success=True, validation=validation)
    Run.objects.filter(pk=run.pk).update(total_steps=1, progress=0.5)
    judged = f.ConfidenceChecked(
        step=1,
        trigger="every_steps",
        score=0.4,
        raw_score=0.9,
        ceiling=0.4,
        threshold=0.5,
        method="model",
        reason="It \ud800 hopes.",
        features={"tests": 0.5},
        weights={"tests": 1.0},
    )
    make.fact(run, judged, step=1)
    found = client.get(f"/api/v1/runs/{run.pk}/curve/").json()
    point = {"step": 1, "progress": 0.5, "method": "tests", "detail": "1 of 2 tests pass"}
    assert (found["total_steps"], found["progress"], found["steps"]) == (1, 0.5, [point])
    (judgement,) = found["confidence"]
    assert (judgement["score"], judgement["raw_score"], judgement["ceiling"]) == (0.4, 0.9, 0.4)
    assert (judgement["features"], judgement["weights"]) == ({"tests": 0.5}, {"tests": 1.0})


@pytest.mark.spec("F2")
def test_what_the_monitor_saw_is_listed(client, run):
    Detection.objects.create(run=run, kind="loop", method="semantic", evidence="alike", steps=[3, 4], seq=9)
    (found,) = client.get(f"/api/v1/runs/{run.pk}/detections/").json()["results"]
    assert (found["kind"], found["method"], found["steps"], found["evidence"]) == ("loop", "semantic", [3, 4], "alike")


@pytest.mark.spec("C5")
def test_the_whole_of_an_output_is_bytes_and_of_this_run_only(world, client, run):
    data = b"<script>\xff" * 50_000
    name = hashlib.sha256(data).hexdigest()
    Blob.objects.create(sha256=name, size=len(data), body=data)
    row = {"seq": 1, "kind": "output", "name": "output", "media_type": "text/html", "sha256": name, "size": len(data)}
    Artifact.objects.create(run=run, **row)
    answer = client.get(f"/api/v1/runs/{run.pk}/output/{name}/")
    assert answer.content == data
    assert answer["Content-Type"] == "application/octet-stream"
    assert "attachment" in answer["Content-Disposition"]
    assert client.get(f"/api/v1/runs/{world.run().pk}/output/{name}/").status_code == 404
    Artifact.objects.create(run=run, **{**row, "seq": 2, "sha256": "0" * 64})
    gone = client.get(f"/api/v1/runs/{run.pk}/output/{'0' * 64}/")
    assert (gone.status_code, gone["Content-Type"]) == (404, "application/problem+json")
    assert "pruned" in gone.json()["detail"]


@pytest.mark.spec("U1", "E6")
def test_models_say_how_much_they_take_and_who_stands_in(client):
    spare = ModelConfig.objects.create(name="spare", provider="openai", model_id="own", context_window=50_000)
    ModelConfig.objects.create(name="main", provider="anthropic", model_id="claude-sonnet-5-5", fallback=spare)
    rows = {row["name"]: row for row in client.get("/api/v1/models/").json()["results"]}
    assert (rows["main"]["context_window"], rows["main"]["fallback"]) == (1_000_000, "spare")
    assert (rows["spare"]["context_window"], rows["spare"]["fallback"]) == (50_000, None)
