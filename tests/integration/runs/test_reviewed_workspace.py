"""Accepting a result accepts the whole workspace as the review showed it, and nothing else (SPEC Q3, Q5)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from gates.models import Gate
from loops.engine.encoding import canonical
from loops.models import ProvenanceRecord, Workspace
from loops.runs import composition
from loops.storage import chain
from loops.storage.rebuild import rebuild
from tests.decisions import decide
from tests.integration.rollback.world import Story
from tests.integration.runs.test_patch import client_of
from tests.integration.runs.test_trial import DONE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("Q3", "Q5")]
MAKE = ("write_file", {"path": "made.py", "content": "made = 1\n"})


@pytest.fixture
def story(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Story:
    return Story(tmp_path, settings, monkeypatch)


def review(story: Story) -> Gate:
    return Gate.objects.get(run=story.run, kind="final_review", status="open")


def accept(story: Story) -> str:
    gate = review(story)
    decide(actor=story.boss, gate_id=gate.pk, verdict="approve", digest=gate.digest)
    return story.drive()


def is_sound(story: Story) -> None:
    assert chain.verify(story.run.pk).ok
    assert rebuild(story.run.pk).differences == []


def test_a_result_is_committed_only_where_the_workspace_is_as_it_was_reviewed(story: Story) -> None:
    story.calls([MAKE, DONE])
    assert story.drive() == "gate:final_review"
    first = review(story)
    assert len(first.view["workspace_tree"]) == 64
    (story.folder / "made.py").write_text("made = 2\n")
    (story.folder / "deep").mkdir()
    (story.folder / "deep" / "late.py").write_text("import os\n")
    assert accept(story) == "gate:final_review", "it is not committed"
    (void,) = story.facts("ApprovalVoided")
    again = review(story)
    assert "asked again" in again.reasons[0]
    assert "deep/late.py, made.py" in again.reasons[0]
    assert {"deep/late.py", "made.py"} <= {one["path"] for one in again.view["changed"]}
    assert {"deep/late.py", "made.py"} <= set(again.view["by_others"])
    assert again.view["workspace_tree"] != first.view["workspace_tree"]
    first.refresh_from_db()
    assert (void.gate, first.consumed_at) == (str(first.pk), None)
    page = client_of(story.boss).get(reverse("gate", args=[again.pk])).content.decode()
    assert again.view["workspace_tree"] in page
    assert accept(story) == "ended", "on what stands now"
    assert story.run.end_reason == "accepted"
    again.refresh_from_db()
    assert again.consumed_at is not None
    is_sound(story)


def test_an_ordinary_acceptance_of_many_files_is_asked_once(story: Story) -> None:
    many = "mkdir -p made; for n in $(seq 400); do echo $n > made/f$n.txt; done"
    story.calls([("run_command", {"command": many}), DONE])
    assert story.drive() == "gate:final_review"
    for name in ("__pycache__/a.cpython-312.pyc", "node_modules/x/index.js", ".git/index.lock", ".mypy_cache/3"):
        (story.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (story.folder / name).write_text("a tool of a person left it\n")
    swap = story.folder / ".a.txt.swp"
    swap.write_text("an editor looks at it\n")
    swap.unlink()
    (story.folder / "a.txt").touch()
    assert accept(story) == "ended"
    assert story.run.end_reason == "accepted"
    assert Gate.objects.filter(run=story.run).count() == 1
    is_sound(story)


def test_a_person_who_works_in_their_own_folder_is_told_what_they_changed_meanwhile(story: Story) -> None:
    story.calls([MAKE, DONE])
    Workspace.objects.update(copy_for_each_run=False)
    assert story.drive() == "gate:final_review"
    (story.folder / "theirs.txt").write_text("a person works here\n")
    assert accept(story) == "gate:final_review"
    again = review(story)
    assert "theirs.txt" in again.reasons[0]
    assert [one["path"] for one in again.view["changed"]] == ["made.py"], "theirs is no part of the result"
    assert accept(story) == "ended"
    assert (story.folder / "theirs.txt").exists()


@pytest.mark.spec("A6")
def test_where_the_workspace_never_rests_the_agent_is_to_see_to_it(story: Story) -> None:
    story.calls([MAKE, DONE, ("ask_question", {"question": "What now?"})])
    assert story.drive() == "gate:final_review"
    for number in range(3):
        (story.folder / "clock.txt").write_text(str(number))
        why = accept(story)
    assert why != "gate:final_review"
    assert Gate.objects.filter(run=story.run, kind="final_review").count() == 3


def test_what_is_too_large_to_be_named_is_said_and_accepted_as_it_is(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = composition.within
    monkeypatch.setattr(composition, "within", lambda limits: replace(given(limits), snapshot_files=3))
    story.calls([MAKE, DONE])
    assert story.drive() == "gate:final_review"
    gate = review(story)
    assert "too many" in gate.view["workspace_why_not"]
    assert "workspace_tree" not in gate.view
    page = client_of(story.boss).get(reverse("gate", args=[gate.pk])).content.decode()
    assert "Changes to the workspace after this review will not be noticed" in page
    (story.folder / "late.txt").write_text("x")
    assert accept(story) == "ended"


@pytest.mark.spec("A5", "N1")
def test_report_and_provenance_name_the_workspace_as_it_was_found_and_as_it_is_left(story: Story) -> None:
    story.calls([MAKE, DONE])
    assert story.drive() == "gate:final_review"
    shown = review(story).view["workspace_tree"]
    assert accept(story) == "ended"
    (ended,), (started,) = story.facts("RunEnded"), story.facts("RunStarted")
    trees = ended.report["workspace"]
    assert trees == {"start": started.snapshot, "end": shown}
    assert len({*trees.values()}) == 2, "the run made a file"
    record = canonical.decode(bytes(ProvenanceRecord.objects.get(run=story.run).body))
    assert (record["workspace"], record["report_sha256"]) == (trees, canonical.sha256(ended.report))


@pytest.mark.spec("A5")
def test_a_run_that_changed_nothing_leaves_the_workspace_that_it_found(story: Story) -> None:
    story.calls([DONE])
    assert story.drive() == "gate:final_review"
    assert story.stop() == "ended"
    report = story.report
    assert report["kind"] == "HaltRecord"
    assert report["workspace"]["start"] == report["workspace"]["end"] != ""
