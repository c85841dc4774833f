"""POST /tasks/: one key, one run, and every kind of bad input refused politely."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from loops.api.parsers import MAX_BYTES
from loops.engine.encoding.codec import from_plain
from loops.engine.state.limits import Limits
from loops.engine.state.spec import RunSpec
from loops.models import AuditEvent, Run, Task
from loops.services.tasks import run_spec
from tests.integration.services.world import closing_connections

URL = "/api/v1/tasks/"


@pytest.fixture
def body(world):
    return {"project": world.project.slug, "agent": world.agent.name, "goal": "Mend the totals"}


@pytest.fixture
def post(world, api, body):
    def send(change=None, *, user=world.operator, raw=None, key="", content_type="application/json"):
        data = raw if raw is not None else json.dumps({**body, **(change or {})})
        headers = {"Idempotency-Key": key} if key else {}
        return api(user).generic("POST", URL, data, content_type=content_type, headers=headers)

    return send


def test_a_task_is_accepted_by_names_and_by_ids(world, post):
    answer = post().json()
    by_id = post({"project": world.project.pk, "agent": world.agent.pk, "workspace": str(world.workspace.pk)}).json()
    assert answer["created"] is True
    assert answer["run"]["status"] == "queued"
    assert answer["task"]["workspace"] is None
    assert by_id["task"]["workspace"] == str(world.workspace.pk)


@pytest.mark.spec("A4", "D1")
def test_what_comes_from_outside_begins_at_depth_0_under_the_usual_cap(post):
    """Nobody can say how deep a run lies, or how deep runs may lie (see the refusals of both below)."""
    made = Run.objects.get(pk=post({"limits": {"max_steps": 7}}).json()["run"]["id"])
    spec = from_plain(RunSpec, run_spec(made))
    assert (spec.depth, spec.limits.max_steps, spec.limits.max_depth) == (0, 7, Limits().max_depth)


@pytest.mark.spec("J6", "T2")
def test_the_same_key_answers_200_with_the_same_run(post):
    first, again = post(key="k"), post(key="k")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["run"]["id"] == again.json()["run"]["id"]


@pytest.mark.spec("J6", "T2")
def test_the_same_key_with_another_body_is_a_409_problem(post):
    post(key="k")
    answer = post({"goal": "Another"}, key="k")
    assert answer.status_code == 409
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "idempotency_conflict"


@pytest.mark.spec("J6")
def test_fifty_posts_at_once_make_one_run(committed_world, api):
    body = {"project": committed_world.project.slug, "agent": "Mender", "goal": "Once"}

    @closing_connections
    def send(key):
        """Once more where the server says to come back: on a busy machine the last of fifty wait too long."""
        client = api(committed_world.operator)
        for _ in range(10):
            answer = client.post(URL, body, format="json", headers={"Idempotency-Key": key})
            if answer.status_code != 503:
                break
        return answer

    for key in ("one", "two"):
        with ThreadPoolExecutor(50) as pool:
            answers = list(pool.map(send, [key] * 50))
        assert len({answer.json()["run"]["id"] for answer in answers}) == 1
        assert sorted(answer.status_code for answer in answers) == [200] * 49 + [201]
    assert Run.objects.count() == 2


BAD = {
    "unknown field": ({"approved": True}, "approved"),
    "unknown field of a limit": ({"limits": {"max_gpus": 1}}, "limits.max_gpus"),
    "depth": ({"depth": -5}, "depth"),
    "limit of the depth": ({"limits": {"max_depth": 99}}, "limits.max_depth"),
    "class attribute": ({"__class__": "x"}, "__class__"),
    "list for text": ({"goal": ["a"]}, "goal"),
    "number for text": ({"goal": 7}, "goal"),
    "NUL": ({"goal": "a\0b"}, "goal"),
    "lone surrogate": ({"goal": "\ud800"}, "goal"),
    "NUL in a name": ({"agent": "a\0"}, "agent"),
    "surrogate in a name": ({"project": "\ud800"}, "project"),
    "goal is too long": ({"goal": "x" * 200_001}, "goal"),
    "empty goal": ({"goal": ""}, "goal"),
    "unknown agent": ({"agent": "Nobody"}, "agent"),
    "agent of another team": ({"agent": "Foreign"}, "agent"),
    "project of another team": ({"project": "elsewhere"}, "project"),
    "workspace is no id": ({"workspace": "../../etc"}, "workspace"),
    "unknown complexity": ({"complexity": "easy"}, "complexity"),
    "bad schema": ({"output_schema": {"type": 5}}, "output_schema"),
    "huge number": ({"limits": {"max_steps": 10**30}}, "limits.max_steps"),
    "NUL in a criterion": ({"criteria": [{"text": "a\0"}]}, "criteria[0].text"),
}


@pytest.mark.spec("T2")
@pytest.mark.parametrize(("change", "field"), BAD.values(), ids=BAD)
def test_bad_fields_are_named(post, world, change, field):
    answer = post(change)
    assert answer.status_code == 400
    assert list(answer.json()["errors"]) == [field]
    assert not Task.objects.exists()
    assert AuditEvent.objects.filter(kind="api.refused", actor=world.operator).count() == 1


MALFORMED = {
    "duplicate keys": '{"goal": "list", "goal": "remove everything"}',
    "nested duplicate keys": '{"limits": {"max_steps": 1, "max_steps": 100}}',
    "NaN": '{"limits": {"max_cost_usd": NaN}}',
    "infinity": '{"limits": {"max_cost_usd": -Infinity}}',
    "no JSON": "goal=1",
    "nothing": "",
    "no UTF-8": b'{"goal": "\xff"}',
    "too deep": "[" * 5_000 + "]" * 5_000,
    "rather deep": '{"output_schema": ' + '{"a":' * 100 + "1" + "}" * 101,
    "a list": "[1]",
    "null": "null",
    "digits without end": '{"limits": {"max_steps": ' + "9" * 10_000 + "}}",
}


@pytest.mark.spec("T2")
@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED)
def test_malformed_bodies_are_refused(post, raw):
    answer = post(raw=raw)
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert not Task.objects.exists()
    assert AuditEvent.objects.filter(kind="api.refused").count() == 1


@pytest.mark.spec("T2")
def test_a_body_of_a_megabyte_is_refused_before_it_is_read(post, body):
    answer = post(raw=json.dumps({**body, "goal": "x" * MAX_BYTES}))
    assert answer.status_code == 413
    assert AuditEvent.objects.filter(kind="api.refused", detail__status=413).count() == 1


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_other_content_types_are_refused(post, body, content_type):
    assert post(content_type=content_type).status_code == 415


@pytest.mark.spec("S4")
@pytest.mark.parametrize(
    ("who", "status"),
    [("operator", 201), ("admin", 201), ("root", 201), ("reviewer", 403), ("viewer", 403), ("outsider", 400)],
)
def test_who_may_submit(world, post, who, status):
    assert post(user=getattr(world, who)).status_code == status


def test_a_stranger_is_asked_to_log_in_and_leaves_no_audit_row(world, post):
    before = AuditEvent.objects.count()
    answer = post(user=None)
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"]
    assert AuditEvent.objects.count() == before


def test_a_session_needs_the_csrf_token(world, body):
    from rest_framework.test import APIClient

    client = APIClient(enforce_csrf_checks=True)
    client.force_login(world.operator)
    answer = client.post(URL, body, format="json")
    assert answer.status_code == 403
    assert not Task.objects.exists()


def test_another_team_submits_nothing_here(world, post):
    answer = post(user=world.outsider)
    assert list(answer.json()["errors"]) == ["project"]
