"""A command that a person edits is judged anew, with all that it obeys, by every door: only its new words run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from gates.models import Gate
from gates.services.disclosure import proof
from loops.models import AccessRule, Blob
from tests.integration.rollback.world import Story
from tests.web.decision_doors import by_api, by_fragment, by_page

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("Q4", "Q5")]
EDITED = "echo edited > by_command"
AS_TYPED = {"arg-command": EDITED}
AS_JSON = {"payload": {"arguments": {"command": EDITED}}}


@pytest.fixture
def story(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Story:
    story = Story(tmp_path, settings, monkeypatch)
    AccessRule.objects.filter(project=story.project, operation="execute").update(access="ask")
    return story


@pytest.mark.parametrize(
    ("door", "edit", "status"), [(by_page, AS_TYPED, 302), (by_fragment, AS_TYPED, 200), (by_api, AS_JSON, 201)]
)
def test_it_is_approved_with_edits_and_runs_as_edited(story: Story, door: Any, edit: Any, status: int) -> None:
    story.calls([("run_command", {"command": "echo proposed > by_command"})])
    assert story.drive() == "gate:tool_approval"
    gate = Gate.objects.get(run=story.run, status="open")
    (story.folder / "a.txt").write_text("somebody changed it meanwhile\n")
    client = Client()
    client.force_login(story.boss)
    answer = door(client, gate, proof(story.boss, gate), verdict="approve_with_edits", **edit)
    assert answer.status_code == status, answer.content
    gate.refresh_from_db()
    bound = json.loads(bytes(gate.subject))["workspace"]["sha256"]
    assert (gate.status, Blob.objects.filter(sha256=bound).exists()) == ("approved", True)
    assert story.drive() == "gate:question"
    assert (story.folder / "by_command").read_text() == "edited\n"
