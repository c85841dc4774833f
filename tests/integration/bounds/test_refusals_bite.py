"""What is too much to be taken is refused with the figures, and nothing of it is shortened (SPEC X5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from gates.services import InvalidDecision, bulk
from loops.api.parsers import MAX_BYTES
from loops.engine.encoding.strict_json import MAX_DEPTH
from loops.models import MailboxItem
from loops.services import forks, steering, submission
from loops.services.submission import InvalidTask, clean
from tests import factories as make
from tests.decisions import decide
from tests.integration.gates.builders import make_world, open_gate

pytestmark = [pytest.mark.django_db, pytest.mark.spec("X5")]
FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "MAX_GOAL": ({"goal": "x" * 200_000}, {"goal": "x" * 200_001}, "goal", "200,001 characters; at most 200,000"),
    "MAX_TITLE": ({"title": "x" * 200}, {"title": "x" * 201}, "title", "201 characters; at most 200"),
    "MAX_CONSTRAINTS": (
        {"constraints_text": "x" * 20_000},
        {"constraints_text": "x" * 20_001},
        "constraints_text",
        "20,001 characters; at most 20,000",
    ),
    "MAX_CRITERIA": (
        {"criteria": [{"text": "x"}] * 50},
        {"criteria": [{"text": "x"}] * 51},
        "criteria",
        "has 51 entries; at most 50",
    ),
    "MAX_CRITERION": (
        {"criteria": [{"text": "x" * 2_000}]},
        {"criteria": [{"text": "x" * 2_001}]},
        "criteria[0].text",
        "2,001 characters; at most 2,000",
    ),
    "MAX_COMMAND": (
        {"criteria": [{"command": "x" * 4_000}]},
        {"criteria": [{"command": "x" * 4_001}]},
        "criteria[0].command",
        "4,001 characters; at most 4,000",
    ),
    "MAX_SCHEMA": (
        {"output_schema": {"type": "object", "title": "x" * 99_000}},
        {"output_schema": {"type": "object", "title": "x" * 100_000}},
        "output_schema",
        "is larger than 100,000 bytes",
    ),
    "MAX_DEPTH": (
        {"output_schema": {"default": json.loads("[" * 30 + "]" * 30)}},
        {"output_schema": {"default": json.loads("[" * 33 + "]" * 33)}},
        "output_schema",
        "is nested deeper than 32 levels",
    ),
}


@pytest.mark.parametrize(("fits", "too_much", "field", "said"), FIELDS.values(), ids=FIELDS)
def test_a_task_that_is_too_much_is_refused_with_the_figures(
    fits: dict[str, Any], too_much: dict[str, Any], field: str, said: str
) -> None:
    clean({"goal": "Mend it", **fits}, ["react"])
    with pytest.raises(InvalidTask) as refused:
        clean({"goal": "Mend it", **too_much}, ["react"])
    assert list(refused.value.errors) == [field]
    assert said in refused.value.errors[field]


def test_a_key_that_is_too_long_is_refused_with_the_figure() -> None:
    world = make_world()
    given: dict[str, Any] = {"actor": world.author, "project": world.project, "agent": world.run.agent}
    from loops.services.tasks import submit_task

    with pytest.raises(InvalidTask, match="at most 200 printable ASCII"):
        submit_task(goal="x", workspace=None, idempotency_key="k" * (submission.MAX_KEY + 1), **given)


def test_a_message_that_is_too_long_is_refused_with_both_figures() -> None:
    world = make_world()
    with pytest.raises(steering.InvalidMessage, match="20,001 characters; at most 20,000"):
        steering.send_message(actor=world.author, run=world.run, text="x" * (steering.MAX_MESSAGE + 1))
    assert not MailboxItem.objects.exists()
    steering.send_message(actor=world.author, run=world.run, text="x" * steering.MAX_MESSAGE)
    assert len(MailboxItem.objects.get().payload["text"]) == steering.MAX_MESSAGE


def test_what_a_fork_is_told_is_refused_with_both_figures() -> None:
    assert forks._faults("x" * forks.MAX_MESSAGE, "y" * forks.MAX_INSTRUCTIONS, "") == {}
    found = forks._faults("x" * (forks.MAX_MESSAGE + 1), "y" * (forks.MAX_INSTRUCTIONS + 1), "")
    assert found == {
        "message": "has 20,001 characters; at most 20,000 are possible",
        "instructions": "has 50,001 characters; at most 50,000 are possible",
    }


@pytest.mark.parametrize("count", [0, bulk.MOST + 1])
def test_more_gates_than_can_be_looked_at_are_refused_with_the_figure(count: int) -> None:
    items = [bulk.BulkItem(f"{number}", "d") for number in range(count)]
    with pytest.raises(InvalidDecision, match="Select between 1 and 100 gates"):
        bulk.preview_many(actor=make.superuser("root"), items=items, verdict="reject")


def test_an_answer_that_is_too_long_is_refused_with_the_figure() -> None:
    world = make_world()
    gate = open_gate(world, "question", call_id="", tool="", view={"question": "Which?", "choices": []})
    given = {"actor": world.reviewer, "gate_id": gate.pk, "verdict": "respond", "digest": gate.digest}
    with pytest.raises(InvalidDecision, match="At most 20,000 characters"):
        decide(**given, payload={"answer": "x" * 20_001})
    assert decide(**given, payload={"answer": "x" * 20_000}).payload["answer"] == "x" * 20_000


def test_a_body_that_is_too_much_is_refused_with_the_figure() -> None:
    browser = Client()
    browser.force_login(make.superuser("root"))

    def post(body: str) -> tuple[int, str]:
        answer = browser.post("/api/v1/tasks/", body, content_type="application/json")
        return answer.status_code, answer.content.decode()

    status, said = post(json.dumps({"goal": "x" * MAX_BYTES}))
    assert (status, "The body is larger than 1,048,576 bytes." in said) == (413, True)
    status, said = post("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
    assert (status, f"nested deeper than {MAX_DEPTH} levels" in said) == (400, True)
    assert "nested deeper" not in post("[" * MAX_DEPTH + "]" * MAX_DEPTH)[1]
