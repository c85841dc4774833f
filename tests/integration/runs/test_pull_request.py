"""The text of a pull request says what is recorded, and nothing in it is markup of an agent (SPEC X3, S1)."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from markdown_it import MarkdownIt

from loops.masking import Masker
from loops.models import ProvenanceRecord, Task
from loops.workspaces import patch, pull_requests
from tests.integration.rollback.world import Story
from tests.integration.runs.test_apply import commit as finish
from tests.integration.runs.test_patch import client_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("X3")]
HOSTILE = "Fixes #12 @everyone ![x](http://evil/p.png) <img src=http://evil>\n```\n# Approved\n````\n[a](http://evil)"


@pytest.fixture
def story(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Story:
    return Story(tmp_path, settings, monkeypatch)


def test_it_says_goal_changes_and_what_proves_them(story: Story) -> None:
    finish(story, [("run_command", {"command": "echo x > new.txt; rm d.txt"})])
    record = ProvenanceRecord.objects.get()
    found = pull_requests.of(story.run)
    assert found.title == patch.one_line(story.run.task.title)
    assert "- created: `new.txt`" in found.body
    assert "- deleted: `d.txt`" in found.body
    assert "The task had no acceptance criteria." in found.body
    assert "Accepted by `ana`." in found.body
    assert patch.link(story.run) in found.body
    assert bytes(record.hash).hex() in found.body
    assert "Done." in found.body


def test_each_criterion_stands_with_its_check() -> None:
    checks = [
        {"text": "Tests pass", "status": "passed", "command": "python3 -m unittest"},
        {"text": "It is `nice`", "status": "unproven", "command": ""},
    ]
    assert list(pull_requests._proofs(checks)) == [
        "- passed: `Tests pass`, by `python3 -m unittest`",
        "- not checked: `` It is `nice` ``",
    ]


@pytest.mark.spec("S1", "X4")
def test_what_new_tests_are_worth_stands_below_their_criterion() -> None:
    """Their names are words of others: no markup, and no more than a line."""
    own = {"count": 2, "ran_without": True, "hold_without_count": 1, "hold_without": ["`# @all\n![x](http://evil)"]}
    row = {"text": "Tests pass", "status": "passed", "command": "pytest", "own_tests": own}
    assert list(pull_requests._proofs([row])) == [
        "- passed: `Tests pass`, by `pytest`",
        "  ``2 new tests, 1 of them passes without the work: `# @all ![x](http://evil).``",
    ]


@pytest.mark.spec("S1")
def test_words_of_others_are_no_markup(story: Story) -> None:
    path = "@everyone ` [a](http:evil) ` <b>.txt"
    finish(story, [("write_file", {"path": path, "content": "x"})])
    Task.objects.update(goal=HOSTILE, title="Round it\u202e up")
    story.run.refresh_from_db()
    found = pull_requests.of(type(story.run).objects.get(pk=story.run.pk))
    assert found.title == "Round it<U+202E> up"
    tokens = MarkdownIt("commonmark").parse(found.body)
    inline = [child for token in tokens for child in token.children or []]
    assert {child.type for child in inline} <= {"text", "code_inline", "softbreak"}
    assert not [token for token in tokens if token.type == "html_block"]
    plain = "".join(child.content for child in inline if child.type == "text")
    assert not re.search(r"@|#|\[|<|evil", plain)
    fences = [token.content.strip() for token in tokens if token.type == "fence"]
    assert HOSTILE in fences, "control: it is there"


@pytest.mark.spec("S3")
def test_known_secrets_are_masked(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(story, [("run_command", {"command": "echo x > new.txt"})])
    secret = "sk-planted-4b1f6a0c9d7e"
    Task.objects.filter(pk=story.run.task_id).update(goal=f"use {secret}", title=f"about {secret}")
    monkeypatch.setattr(pull_requests, "known", lambda: Masker({"A_KEY": secret}))
    told = client_of(story.boss).get(f"/api/v1/runs/{story.run.pk}/pull-request/").json()
    assert secret not in told["title"] + told["body"]
    assert "[masked: A_KEY]" in told["body"]


@pytest.mark.spec("T2", "T3")
def test_page_api_and_terminal_have_the_same(story: Story) -> None:
    finish(story, [("run_command", {"command": "echo x > new.txt"})])
    found, client = pull_requests.of(story.run), client_of(story.boss)
    told = client.get(f"/api/v1/runs/{story.run.pk}/pull-request/").json()
    assert (told["title"], told["body"]) == (found.title, found.body)
    said = io.StringIO()
    call_command("agentops", "pull-request", str(story.run.pk), stdout=said)
    assert said.getvalue() == f"{found.title}\n\n{found.body}"
    page = client.get(f"/runs/{story.run.pk}/files/").content.decode()
    assert "Text for a pull request" in page
    assert "- created: `new.txt`" in page


def test_a_result_that_was_not_committed_has_none(story: Story) -> None:
    story.begin()
    with pytest.raises(CommandError, match="Only a completed run"):
        call_command("agentops", "pull-request", str(story.run.pk))
    client = client_of(story.boss)
    assert client.get(f"/api/v1/runs/{story.run.pk}/pull-request/").status_code == 404
    assert "Text for a pull request" not in client.get(f"/runs/{story.run.pk}/files/").content.decode()


def test_a_run_that_changed_nothing_has_none(story: Story) -> None:
    finish(story, [("run_command", {"command": "true"})])
    with pytest.raises(patch.NoPatch, match="changed no file"):
        pull_requests.of(story.run)
