"""Reading runs: what is visible to whom, page by page."""

import base64
import uuid

import pytest
from django.utils import timezone

from loops.engine.encoding import canonical
from loops.engine.ends.reasons import EXPLANATIONS
from loops.engine.facts import Reminded, RunEnded
from loops.engine.state.lifecycle import Phase
from loops.models import AuditEvent, Fact, ProvenanceRecord, Run, Step, ToolCallRecord
from loops.storage.encoding import encode_fact

PARTS = ("", "steps/", "tool-calls/", "facts/", "provenance/", "result/")


@pytest.fixture
def finished(world):
    run = world.run(Run.Status.COMPLETED)
    now = timezone.now()
    for seq in range(1, 6):
        told = encode_fact(Reminded(reason="test", text="a\ud800" if seq == 3 else f"fact {seq}"), b"")
        row = {"kind": told.kind, "body": told.body, "prev": b"", "hash": told.hash}
        Fact.objects.create(run=run, seq=seq, at=now, epoch=1, **row)
        Step.objects.create(execution=run, step_number=seq, timestamp=now, reasoning="Because")
    ToolCallRecord.objects.create(run=run, call_id="c1", step_number=1, tool="read_file", arguments={"path": "a"})
    ProvenanceRecord.objects.create(run=run, body=canonical.encode({"a": 1}), prev=b"", hash=b"\1", created_at=now)
    report = {"kind": "AgentResult", "result": "All mended."}
    ended = encode_fact(
        RunEnded(phase=Phase.COMMIT, reason="criteria_met", report=report, report_kind="AgentResult"), b""
    )
    Fact.objects.create(run=run, seq=6, kind="RunEnded", at=now, body=ended.body, prev=b"", hash=ended.hash, epoch=1)
    return run


@pytest.mark.spec("S4", "T2")
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("who", "status"),
    [("operator", 200), ("reviewer", 200), ("viewer", 200), ("admin", 200), ("root", 200), ("outsider", 404)],
)
def test_only_members_see_a_run_and_its_parts(world, finished, api, who, status, part):
    assert api(getattr(world, who)).get(f"/api/v1/runs/{finished.pk}/{part}").status_code == status


@pytest.mark.parametrize("part", PARTS)
def test_strangers_see_nothing(finished, api, part):
    assert api().get(f"/api/v1/runs/{finished.pk}/{part}").status_code == 401


@pytest.mark.parametrize("what", ["projects", "agents", "tasks", "runs"])
def test_lists_hold_only_your_projects(world, finished, api, what):
    mine = api(world.operator).get(f"/api/v1/{what}/").json()["results"]
    theirs = api(world.outsider).get(f"/api/v1/{what}/").json()["results"]
    assert len(mine) == 1
    assert {row["id"] for row in mine}.isdisjoint(row["id"] for row in theirs)


def test_filters_do_not_reveal_other_projects(world, api):
    answer = api(world.outsider).get(f"/api/v1/agents/?project={world.project.pk}")
    assert (answer.status_code, answer.json()["results"]) == (200, [])


@pytest.mark.spec("T2")
def test_runs_are_filtered_and_paged_by_cursor(world, api):
    runs = [world.run() for _ in range(5)] + [world.run(Run.Status.FAILED)]
    client = api(world.viewer)
    live = client.get("/api/v1/runs/?live=true&page_size=2").json()
    seen = [row["id"] for row in live["results"]]
    while live["next"]:
        live = client.get(live["next"]).json()
        seen += [row["id"] for row in live["results"]]
    assert seen == [str(run.pk) for run in reversed(runs[:5])]
    assert len(client.get("/api/v1/runs/?status=failed&status=thinking").json()["results"]) == 6
    assert client.get("/api/v1/runs/?status=nonsense").status_code == 400


@pytest.mark.spec("T2", "W1")
def test_runs_that_could_not_go_on_alone_are_a_filter(world, api):
    alone, stuck = world.run(), world.run(Run.Status.WAITING)
    Run.objects.filter(pk=stuck.pk).update(escalation_reason="Going in circles")
    found = {
        said: api(world.viewer).get(f"/api/v1/runs/?escalated={said}").json()["results"] for said in ("true", "false")
    }
    assert [(row["id"], row["escalation_reason"]) for row in found["true"]] == [(str(stuck.pk), "Going in circles")]
    assert [row["id"] for row in found["false"]] == [str(alone.pk)]


@pytest.mark.spec("T2", "W1", "C6")
def test_runs_are_found_by_how_they_ended(world, api):
    proved, claimed = world.run(Run.Status.COMPLETED), world.run(Run.Status.COMPLETED)
    Run.objects.filter(pk=proved.pk).update(final_status="success")
    Run.objects.filter(pk=claimed.pk).update(final_status="finished")
    world.run()
    client = api(world.viewer)

    def found(query):
        return [row["id"] for row in client.get(f"/api/v1/runs/?{query}").json()["results"]]

    assert found("final_status=finished") == [str(claimed.pk)]
    assert found("final_status=finished&final_status=success") == [str(claimed.pk), str(proved.pk)]
    assert client.get("/api/v1/runs/?final_status=nonsense").status_code == 400


@pytest.mark.parametrize("position", ["p=x", "p=%00", "p=%ED%A0%80", "o=-5", "o=9e9", "r=1&p="])
@pytest.mark.parametrize("what", ["runs", "projects", "models"])
def test_a_cursor_written_by_hand_is_no_crash(world, api, what, position):
    cursor = base64.b64encode(position.encode()).decode()
    assert api(world.viewer).get(f"/api/v1/{what}/?cursor={cursor}").status_code in (200, 404)


@pytest.mark.parametrize("query", ["project=a%00b", "task=%00", "live=perhaps", "started_after=x", "page_size=-1"])
def test_filters_take_strange_values(world, api, query):
    assert api(world.viewer).get(f"/api/v1/runs/?{query}").status_code in (200, 400)


@pytest.mark.spec("R2")
def test_facts_follow_a_sequence_number(world, finished, api):
    client = api(world.viewer)
    first = client.get(f"/api/v1/runs/{finished.pk}/facts/?limit=3").json()
    rest = client.get(f"/api/v1/runs/{finished.pk}/facts/?after={first['next_after']}").json()
    assert [fact["seq"] for fact in first["results"] + rest["results"]] == [1, 2, 3, 4, 5, 6]
    assert first["results"][2]["fact"]["text"].startswith("a")
    assert rest["ended"] is True


@pytest.mark.parametrize("after", ["-1", "x", "1e3", "٣", "9" * 40, ""])
def test_a_sequence_number_must_be_one(world, finished, api, after):
    assert api(world.viewer).get(f"/api/v1/runs/{finished.pk}/facts/?after={after}").status_code == 400


def test_the_result_is_the_report_of_the_end(world, finished, api):
    answer = api(world.viewer).get(f"/api/v1/runs/{finished.pk}/result/").json()
    assert (answer["status"], answer["report"]) == ("completed", {"kind": "AgentResult", "result": "All mended."})


def test_a_run_under_way_has_no_result(world, api):
    answer = api(world.viewer).get(f"/api/v1/runs/{world.run().pk}/result/")
    assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")
    assert "thinking" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["runs/nonsense/", f"runs/{uuid.UUID(int=1)}/", "projects/%ED%A0%80/"])
def test_what_does_not_exist_is_404(world, api, path):
    assert api(world.root).get(f"/api/v1/{path}").status_code == 404


@pytest.mark.spec("S3")
def test_models_are_listed_without_their_keys(world, api, monkeypatch):
    from loops.models import ModelAddress, ModelConfig

    monkeypatch.setenv("SECRET_MODEL_KEY", "sk-very-secret")
    ModelAddress.objects.create(key_name="SECRET_MODEL_KEY", origin="https://api.anthropic.com:443")
    ModelConfig.objects.create(name="real", provider="anthropic", model_id="m", api_key_env="SECRET_MODEL_KEY")
    answer = api(world.viewer).get("/api/v1/models/real/")
    assert answer.json()["usable"] is True
    assert "secret" not in answer.content.decode().lower()
    monkeypatch.delenv("SECRET_MODEL_KEY")
    assert api(world.viewer).get("/api/v1/models/real/").json()["usable"] is False
    monkeypatch.setenv("AGENTOPS_HELD", "OTHER,SECRET_MODEL_KEY")
    assert api(world.viewer).get("/api/v1/models/real/").json()["usable"] is True, "by the worker"


@pytest.mark.spec("K1", "S4")
@pytest.mark.parametrize(
    ("who", "status"),
    [("operator", 202), ("admin", 202), ("reviewer", 403), ("viewer", 403), ("outsider", 404), ("root", 202)],
)
def test_who_may_steer(world, api, who, status):
    run, client = world.run(), api(getattr(world, who))
    assert client.post(f"/api/v1/runs/{run.pk}/steer/", {"action": "stop"}, format="json").status_code == status
    assert client.post(f"/api/v1/runs/{run.pk}/messages/", {"text": "Hello"}, format="json").status_code == status


@pytest.mark.spec("K1")
def test_what_is_not_possible_is_a_409_problem(world, api):
    run = world.run(Run.Status.COMPLETED)
    answer = api(world.operator).post(f"/api/v1/runs/{run.pk}/steer/", {"action": "stop"}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (409, "not_possible")
    assert "already ended" in answer.json()["detail"]


@pytest.mark.spec("Q5")
def test_no_field_can_approve(world, api):
    run, client = world.run(), api(world.operator)
    answer = client.post(f"/api/v1/runs/{run.pk}/messages/", {"text": "/approve 12", "approved": True}, format="json")
    assert list(answer.json()["errors"]) == ["approved"]
    refused = client.post(f"/api/v1/runs/{run.pk}/messages/", {"text": "/approve 12"}, format="json")
    assert refused.status_code == 400
    plain = client.post(f"/api/v1/runs/{run.pk}/messages/", {"text": "approve 12"}, format="json")
    assert plain.json()["kind"] == "message"


def test_me_names_roles_and_makes_tokens(world, api):
    from rest_framework.test import APIClient

    client = api(world.operator)
    assert client.get("/api/v1/me/").json()["roles"] == [
        {"project": world.project.pk, "slug": world.project.slug, "role": "operator"}
    ]
    token = client.post("/api/v1/me/token/").json()["token"]
    newer = client.post("/api/v1/me/token/").json()["token"]
    with_token = APIClient()
    assert with_token.get("/api/v1/me/", headers={"Authorization": f"Token {newer}"}).status_code == 200
    assert with_token.get("/api/v1/me/", headers={"Authorization": f"Token {token}"}).status_code == 401
    assert AuditEvent.objects.filter(kind="token.created").count() == 2


def test_reads_change_nothing(world, api):
    run = world.run()
    assert api(world.operator).get(f"/api/v1/runs/{run.pk}/steer/?action=stop").status_code == 405


@pytest.mark.spec("X5", "T1")
def test_the_end_of_a_run_is_said_in_words_and_found_by_its_code(world, api):
    run = world.run(Run.Status.COMPLETED)
    Run.objects.filter(pk=run.pk).update(end_reason="unproven")
    (found,) = api(world.viewer).get("/api/v1/runs/?end_reason=unproven").json()["results"]
    assert (found["id"], found["end_reason_text"]) == (str(run.pk), EXPLANATIONS["unproven"])
    assert api(world.viewer).get("/api/v1/runs/?end_reason=criteria_met").json()["results"] == []
