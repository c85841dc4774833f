"""POST /runs/{id}/fork/ and GET /runs/{id}/compare/{other}/ (SPEC K3, T2)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loops.models import Fork, Run
from tests import fakes
from tests.integration.storage import forks, owned
from tests.integration.storage.forks import Ledger

pytestmark = [pytest.mark.django_db, pytest.mark.spec("K3", "T2")]


@pytest.fixture
def parent(world: Any, settings: Any, tmp_path: Path) -> Run:
    """A committed run of three steps in the project of the world."""
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"
    mine = forks.parent_in(tmp_path / "parent", world.submit().run)
    turns = [fakes.says(f"{number}", ("act", {"at": number})) for number in (1, 2)]
    assert mine.drive([*turns, fakes.done("so")], Ledger().tools()) == "ended"
    mine.run.refresh_from_db()
    return mine.run


@pytest.fixture
def fork(world: Any, api: Any, parent: Run) -> Any:
    def send(
        body: dict[str, Any] | None = None, *, user: Any = world.operator, key: str = "", run: Run = parent
    ) -> Any:
        headers = {"Idempotency-Key": key} if key else {}
        address = f"/api/v1/runs/{run.pk}/fork/"
        return api(user).generic(
            "POST", address, json.dumps(body or {}), content_type="application/json", headers=headers
        )

    return send


def test_a_fork_is_queued_and_names_its_origin(api: Any, world: Any, parent: Run, fork: Any) -> None:
    answer = fork({"step": 1, "message": "Otherwise", "limits": {"max_steps": 5}})
    assert answer.status_code == 201, answer.content
    made = answer.json()["run"]
    assert (made["status"], made["forked_from"]["run"], made["forked_from"]["step"]) == ("queued", str(parent.pk), 1)
    assert Fork.objects.get().message == "Otherwise"
    shown = api(world.viewer).get(f"/api/v1/runs/{made['id']}/").json()
    assert shown["forked_from"] == made["forked_from"]
    assert api(world.viewer).get(f"/api/v1/runs/{parent.pk}/").json()["forked_from"] is None


def test_the_same_key_answers_200_and_another_wish_409(fork: Any) -> None:
    first, again, other = fork({"step": 1}, key="k"), fork({"step": 1}, key="k"), fork({"step": 2}, key="k")
    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 409)
    assert first.json()["run"]["id"] == again.json()["run"]["id"]
    assert other.json()["code"] == "idempotency_conflict"


def test_a_checkpoint_is_a_point(world: Any, parent: Run, fork: Any) -> None:
    k = parent.checkpoints.order_by("k").values_list("k", flat=True)[0]
    assert fork({"seq": k}).json()["run"]["forked_from"]["seq"] == k


@pytest.mark.parametrize(("who", "status"), [("reviewer", 403), ("viewer", 403), ("outsider", 404), ("admin", 201)])
def test_who_may(world: Any, fork: Any, who: str, status: int) -> None:
    assert fork({"step": 1}, user=getattr(world, who)).status_code == status
    assert Fork.objects.count() == (status == 201)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"step": 99}, "step"),
        ({"seq": 0}, "seq"),
        ({"step": 1, "seq": 1}, "seq"),
        ({"step": True}, "step"),
        ({"setp": 1}, "setp"),
        ({"message": "a\x00b"}, "message"),
        ({"model": "none-such"}, "model"),
        ({"limits": {"max_steps": 0}}, "limits.max_steps"),
        ({"limits": {"max_depth": 99}}, "limits.max_depth"),
        ({"depth": -5}, "depth"),
    ],
)
def test_faults_are_named(fork: Any, body: dict[str, Any], field: str) -> None:
    answer = fork(body)
    assert answer.status_code == 400
    assert field in answer.json()["errors"]


def test_comparing_gives_shared_steps_once(world: Any, api: Any, parent: Run, fork: Any) -> None:
    made = forks.begin(Run.objects.get(pk=fork({"step": 1}).json()["run"]["id"]))
    made.drive([fakes.says("2'", ("look", {})), fakes.done("otherwise")], Ledger().tools())
    client = api(world.viewer)
    answer = client.get(f"/api/v1/runs/{parent.pk}/compare/{made.run.pk}/?limit=2").json()
    assert (answer["shared_steps"], answer["shared_run"], answer["next_after"]) == (1, str(parent.pk), 2)
    assert [(row["number"], row["shared"], row["other"] is None) for row in answer["steps"]] == [
        (1, True, True),
        (2, False, False),
    ]
    assert answer["steps"][0]["one"]["cost_usd"] == "0.0001"
    rest = client.get(f"/api/v1/runs/{made.run.pk}/compare/{parent.pk}/?after=2").json()
    assert (len(rest["steps"]), rest["next_after"]) == (1, None)


def test_comparing_needs_sight_of_both(world: Any, api: Any, parent: Run) -> None:
    foreign = owned.new_run()
    for one, other in ((parent.pk, foreign.pk), (foreign.pk, parent.pk), (parent.pk, parent.pk)):
        assert api(world.operator).get(f"/api/v1/runs/{one}/compare/{other}/").status_code == 404
    assert api().get(f"/api/v1/runs/{parent.pk}/compare/{foreign.pk}/").status_code in (401, 403)


def test_lists_of_runs_ask_no_more_for_forks(
    world: Any, api: Any, parent: Run, fork: Any, django_assert_max_num_queries: Any
) -> None:
    for step in (0, 1, 2):
        fork({"step": step})
    with django_assert_max_num_queries(3):
        assert len(api(world.viewer).get("/api/v1/runs/").json()["results"]) == 4
