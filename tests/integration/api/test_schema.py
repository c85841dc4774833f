"""The API describes itself, truthfully and without warnings."""

import json

import pytest
from django.core.management import call_command


@pytest.mark.spec("T2")
def test_the_schema_is_valid_openapi_without_warnings(db, tmp_path):
    file = tmp_path / "schema.json"
    call_command("spectacular", "--validate", "--fail-on-warn", "--format=openapi-json", f"--file={file}")
    schema = json.loads(file.read_text())
    assert schema["openapi"].startswith("3.1")
    submit = schema["paths"]["/api/v1/tasks/"]["post"]
    assert {"200", "201", "400", "409", "413"} <= set(submit["responses"])
    assert "Idempotency-Key" in [parameter["name"] for parameter in submit["parameters"]]
    assert submit["responses"]["409"] == {"$ref": "#/components/responses/Conflict"}
    assert "application/problem+json" in schema["components"]["responses"]["Conflict"]["content"]


def test_a_database_without_connections_is_a_503_problem(world, api, monkeypatch):
    from django.db import OperationalError

    from loops.api import views

    def too_many(**_):
        raise OperationalError("sorry, too many clients already")

    monkeypatch.setattr(views, "submit_task", too_many)
    body = {"project": "invoices", "agent": "Mender", "goal": "x"}
    answer = api(world.operator).post("/api/v1/tasks/", body, format="json")
    assert (answer.status_code, answer["Retry-After"]) == (503, "2")
    assert "clients" not in answer.content.decode()


@pytest.mark.spec("T2", "X7")
def test_the_api_speaks_json_alone(world, api):
    client = api(world.operator)
    for path in ("", "runs/", "tasks/", "agents/", "gates/"):
        browser = client.get(f"/api/v1/{path}", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
        assert (browser.status_code, browser["Content-Type"]) == (200, "application/json")
        assert client.get(f"/api/v1/{path}", headers={"Accept": "text/html"}).status_code == 406
