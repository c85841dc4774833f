"""What changes in the folder of a run besides what its calls do is found, shown, delivered and undone (SPEC X3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from gates.models import Gate
from loops.engine import facts as f
from loops.models import Workspace
from loops.storage import chain
from loops.storage.rebuild import rebuild
from loops.workspaces import changed_files, patch
from tests.decisions import decide
from tests.integration.rollback.world import WORK, Story, look
from tests.integration.runs.test_patch import client_of
from tests.integration.runs.test_trial import DONE, TESTS, Played

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("X3", "O3")]
JUNK = "mkdir -p reports; date > reports/last.txt; echo again >> log.txt; test -f made.py"
MAKE = ("write_file", {"path": "made.py", "content": "made = 1\n"})


@pytest.fixture
def story(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Story:
    return Story(tmp_path, settings, monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "log.txt").write_text("once\n")
    return tmp_path / "w"


@pytest.fixture
def played(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    boss = get_user_model().objects.create_superuser("ana", password="x")
    return Played(boss, folder, monkeypatch)


def files(run: Any) -> dict[str, str]:
    """What became of each file of the run's result."""
    return {one.path: one.what for one in changed_files.described(changed_files.recorded(run).net)}


def stowaway(folder: Path) -> None:
    """What a process in the background, or a tool of a package that says nothing, would do."""
    (folder / "stowaway.py").write_text("import os\n")
    (folder / "a.txt").write_text("other\n")


@pytest.mark.spec("O2")
def test_what_no_call_changed_is_put_before_a_person_and_undone(story: Story) -> None:
    story.begin()
    stowaway(story.folder)
    assert story.fail() == "gate:rollback_choice"
    gate = story.gate()
    assert {"stowaway.py", "a.txt"} <= {one["path"] for one in gate.view["files"]}
    assert not any(one["why_not"] for one in gate.view["files"])
    (found,) = story.facts("WorkspaceChanged")
    assert (found.by, found.paths, found.count) == ("unrecorded", ("a.txt", "stowaway.py"), 2)
    assert story.say("roll_back") == "ended"
    assert look(story.folder) == story.was
    assert chain.verify(story.run.pk).ok
    assert rebuild(story.run.pk).differences == []


def test_a_run_that_nobody_interfered_with_has_no_word_of_it(story: Story) -> None:
    story.begin()
    assert story.fail() == "gate:rollback_choice"
    assert story.facts("WorkspaceChanged") == []


@pytest.mark.spec("Q3", "R4")
def test_a_reviewer_sees_what_no_call_changed(story: Story) -> None:
    story.calls([*WORK, ("ask_question", {"question": "Shall I hand it in?"}), DONE])
    assert story.drive() == "gate:question"
    stowaway(story.folder)
    asked = Gate.objects.get(run=story.run, status="open")
    decide(actor=story.boss, gate_id=asked.pk, verdict="respond", digest=asked.digest, payload={"answer": "Yes"})
    assert story.drive() == "gate:final_review"
    gate = Gate.objects.get(run=story.run, status="open")
    assert gate.view["by_others"] == ["a.txt", "stowaway.py"]
    assert {"stowaway.py", "a.txt"} <= {one["path"] for one in gate.view["changed"]}
    client = client_of(story.boss)
    page = client.get(reverse("gate", args=[gate.pk])).content.decode()
    assert "Changed outside of the recorded calls" in page
    shown = client.get(reverse("run-files", args=[story.run.pk])).content.decode()
    assert "Files changed outside of the recorded calls" in shown
    assert "+import os" in patch.of(story.run).diff.decode(), "it is part of what would be delivered"


@pytest.mark.spec("C6")
def test_what_checks_leave_is_no_part_of_the_result_and_no_surprise(played: Played) -> None:
    run = played.begin(JUNK, calls=[MAKE])
    assert played.go() == "ended"
    assert run.end_reason == "criteria_met"
    assert files(run) == {"made.py": "created", "log.txt": "changed"}, "a file of the repository that they change is"
    said = [fact for fact in played.facts if isinstance(fact, f.WorkspaceChanged)]
    assert {fact.by for fact in said} == {"checks"}
    assert said[0].paths == ("log.txt", "reports", "reports/last.txt")
    assert changed_files.recorded(run).others == []
    assert "reports" not in patch.of(run).diff.decode()
    played.is_sound()


COVERAGE = (
    "import pathlib, time\n"
    "place = pathlib.Path('coverage/tmp')\nplace.mkdir(parents=True, exist_ok=True)\n"
    "(place / f'{time.time_ns()}.json').write_text('{}')\n"
)


@pytest.mark.spec("C6", "O3")
def test_what_an_agent_s_own_test_runs_leave_beside_it_is_no_part_of_the_result_either(
    played: Played, folder: Path
) -> None:
    """As Node's coverage does it: another name each time, in a folder that only the tests make."""
    (folder / "test_made.py").write_text(f"import unittest\n{COVERAGE}\n\nclass Made(unittest.TestCase):\n"
        "    def test_it(self):\n        import made\n")  # fmt: skip
    notes = ("write_file", {"path": "coverage/notes.txt", "content": "of the agent\n"})
    other = ("run_command", {"command": "python3 -m unittest; touch coverage/other.txt"})
    run = played.begin(TESTS, calls=[MAKE, ("run_tests", {}), ("run_tests", {"command": TESTS}), notes, other])
    assert played.go() == "ended"
    assert run.end_reason == "criteria_met"
    found = files(run)
    by_other = {path for path in found if path.endswith(".json")}
    assert len(by_other) == 1, "what another command wrote is shown, whatever it is"
    assert found.keys() - by_other == {"made.py", "coverage/notes.txt", "coverage/other.txt"}
    played.is_sound()


@pytest.mark.spec("C6")
def test_what_an_agent_s_own_test_runs_leave_elsewhere_is_shown(played: Played, folder: Path) -> None:
    """It may be work, as the recorded answers of new tests are."""
    (folder / "test_made.py").write_text("import unittest, pathlib\n\n\nclass Made(unittest.TestCase):\n"
        "    def test_it(self):\n        import made\n        pathlib.Path('made.snap').write_text('1')\n")  # fmt: skip
    run = played.begin(TESTS, calls=[MAKE, ("run_tests", {})])
    assert played.go() == "ended"
    assert files(run) == {"made.py": "created", "made.snap": "created"}


def test_in_a_persons_own_folder_their_changes_stay_theirs(story: Story) -> None:
    story.calls([MAKE])
    Workspace.objects.update(copy_for_each_run=False)
    assert story.drive() == "gate:question"
    (story.folder / "theirs.txt").write_text("a person works here\n")
    assert story.fail() == "gate:rollback_choice"
    (found,) = story.facts("WorkspaceChanged")
    assert (found.by, found.paths) == ("outside", ("theirs.txt",))
    assert [one["path"] for one in story.gate().view["files"]] == ["made.py"]
    assert files(story.run) == {"made.py": "created"}
    shown = client_of(story.boss).get(reverse("run-files", args=[story.run.pk])).content.decode()
    assert "perhaps by a person" in shown
    assert story.say("roll_back") == "ended"
    assert look(story.folder) == story.was | {"theirs.txt": (b"a person works here\n", 0o644)}


@pytest.mark.spec("G1")
def test_files_that_commands_change_count_as_progress(played: Played) -> None:
    run = played.begin(calls=[("run_command", {"command": "echo 'a = 1' > a.py; echo b > b.txt"})])
    assert played.go() == "ended"
    (step, *_) = [fact for fact in played.facts if isinstance(fact, f.StepCompleted)]
    assert (step.progress_method, step.progress_detail) == ("artifacts", "1 code file, 1 other file changed")
    assert files(run) == {"a.py": "created", "b.txt": "created"}


@pytest.mark.spec("O1", "X2")
def test_a_repository_of_many_files_is_worked_in_unasked_and_its_changes_are_known(
    played: Played, folder: Path
) -> None:
    for place in range(60):
        (folder / f"d{place}").mkdir()
        for name in range(110):
            (folder / f"d{place}" / f"f{name}.txt").write_text(f"{place} {name}\n")
    (folder / "recording.bin").write_bytes(bytes(range(256)) * 12_000)
    run = played.begin(calls=[("run_command", {"command": "sed -i s/7/seven/ d7/f7.txt; mv d9/f9.txt moved.txt"})])
    assert played.go() == "ended"
    assert Gate.objects.filter(run=run).count() == 0
    assert files(run) == {"d7/f7.txt": "changed", "moved.txt": "moved"}
    assert changed_files.recorded(run).unknown == []
