"""A command that a person edits is judged anew, with all that it obeys, by every door: only its new words run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from gates.models import Gate
from gates.services.disclosure import whole_proof
from loops.models import AccessRule, Blob, ToolCallRecord
from loops.tools.builtin import builtin_registry
from loops.tools.builtin.file_restore import RESTORE
from tests.integration.rollback.world import Story
from tests.web.decision_doors import by_api, by_fragment, by_page, sent_for

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("Q4", "Q5")]
EDITED = "echo edited > by_command"
CALLS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str | None]] = {
    "run_command": ({"command": "echo proposed > by_command"}, {"command": EDITED}, "by_command", "edited\n"),
    "run_tests": ({"command": "echo proposed > by_command"}, {"command": EDITED}, "by_command", "edited\n"),
    "write_file": ({"path": "a.txt", "content": "proposed\n"}, {"content": "edited\n"}, "a.txt", "edited\n"),
    "apply_diff": (
        {"path": "a.txt", "edits": [{"search": "first", "replace": "proposed"}]},
        {"edits": [{"search": "first", "replace": "edited"}]},
        "a.txt",
        "the edited a.txt\n",
    ),
    "delete_file": ({"path": "a.txt"}, {"path": "d.txt"}, "d.txt", None),
    "move_file": ({"path": "c.txt", "target": "proposed"}, {"target": "edited"}, "edited", "the first c.txt\n"),
    "make_directory": ({"path": "proposed"}, {"path": "edited"}, "edited/", ""),
    "read_file": ({"path": "a.txt"}, {"path": "d.txt"}, "a.txt", "the first a.txt\n"),
    "list_files": ({"path": "."}, {"path": "old"}, "a.txt", "the first a.txt\n"),
    "search_files": ({"pattern": "first"}, {"pattern": "edited"}, "a.txt", "the first a.txt\n"),
}
"""Tool -> what the model asked for, what a person makes of it, and what then is where."""
DOORS = {by_page: 302, by_fragment: 200, by_api: 201}
EACH = [(tool, door) for tool in CALLS for door in DOORS]


def test_every_tool_that_works_in_a_workspace_is_among_them() -> None:
    others = {"task_completion", "ask_question", "converse", RESTORE}  # none that a person is asked about by itself
    assert {*builtin_registry().names()} == CALLS.keys() | others


def as_typed(arguments: dict[str, Any]) -> dict[str, str]:
    """As the page sends them, each field."""
    return {f"arg-{name}": value if isinstance(value, str) else json.dumps(value) for name, value in arguments.items()}


def sent(door: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"payload": {"arguments": arguments}} if door is by_api else as_typed(arguments)


def holds(path: Path) -> str | None:
    return "" if path.is_dir() else path.read_text() if path.exists() else None


@pytest.fixture
def story(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Story:
    story = Story(tmp_path, settings, monkeypatch)
    AccessRule.objects.filter(project=story.project).update(access="ask")
    return story


def asked(story: Story, tool: str) -> tuple[Client, Gate]:
    """Who may decide, and the gate before the call that the model wants."""
    story.calls([(tool, CALLS[tool][0])])
    assert story.drive() == "gate:tool_approval"
    client = Client()
    client.force_login(story.boss)
    return client, Gate.objects.get(run=story.run, status="open")


@pytest.mark.parametrize(("tool", "door"), EACH)
def test_it_is_approved_with_edits_and_runs_as_edited(story: Story, tool: str, door: Any) -> None:
    proposed, edit, name, held = CALLS[tool]
    client, gate = asked(story, tool)
    shown = whole_proof(story.boss, gate)
    answer = door(client, gate, shown, verdict="approve_with_edits", **sent(door, {**proposed, **edit}))
    assert answer.status_code == DOORS[door], answer.content
    gate.refresh_from_db()
    assert gate.status == "approved"
    if "command" in edit:
        bound = json.loads(bytes(gate.subject))["workspace"]["sha256"]
        assert Blob.objects.filter(sha256=bound).exists()
    assert story.drive() == "gate:question"
    assert edit.items() <= ToolCallRecord.objects.get(run=story.run, tool=tool).arguments.items()
    assert holds(story.folder / name) == held
    assert not (story.folder / "proposed").exists()


@pytest.mark.parametrize("tool", ["run_command", "write_file", "apply_diff"])
def test_what_changed_since_the_card_was_made_is_asked_about_again(story: Story, tool: str) -> None:
    """Whoever edits the words of a call has seen its files as they were."""
    proposed, edit, _, _ = CALLS[tool]
    client, gate = asked(story, tool)
    (story.folder / "a.txt").write_text("the first a.txt, and somebody changed it meanwhile\n")
    answer = by_page(
        client, gate, whole_proof(story.boss, gate), verdict="approve_with_edits", **as_typed(proposed | edit)
    )
    assert answer.status_code == 302, answer.content
    assert story.drive() == "gate:tool_approval"
    again = Gate.objects.get(run=story.run, status="open")
    assert "differs from what was approved" in " ".join(again.reasons)
    if tool == "run_command":
        assert "a.txt" in " ".join(again.reasons)
    assert not (story.folder / "by_command").exists()
    assert "edited" not in (story.folder / "a.txt").read_text()


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}], ids=["page", "fragment"])
def test_an_edit_of_high_risk_that_is_not_confirmed_is_asked_about(story: Story, headers: dict[str, str]) -> None:
    proposed, edit, _, _ = CALLS["run_command"]
    client, gate = asked(story, "run_command")
    edited = sent_for(gate, whole_proof(story.boss, gate), verdict="approve_with_edits", **as_typed(proposed | edit))
    answer = client.post(f"/review/{gate.pk}/decide/", edited, headers=headers)
    assert answer.status_code == 422
    assert "data-sure  role" in answer.content.decode(), "it is asked where it was sent"
    gate.refresh_from_db()
    assert gate.status == "open"


@pytest.mark.parametrize("door", DOORS)
def test_what_is_denied_is_not_made_by_editing(story: Story, door: Any) -> None:
    AccessRule.objects.create(project=story.project, access="deny", operation="write", paths=["d.txt"])
    client, gate = asked(story, "write_file")
    edited = {"path": "d.txt", "content": "edited\n"}
    answer = door(client, gate, whole_proof(story.boss, gate), verdict="approve_with_edits", **sent(door, edited))
    assert answer.status_code == 422, answer.content
    gate.refresh_from_db()
    assert gate.status == "open"
    assert holds(story.folder / "d.txt") == "the first d.txt\n"
