"""A criterion's command runs what the agent wrote: where commands are asked about, so is it (SPEC Q5, ADR 0052)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from gates.models import Gate
from gates.services import InvalidDecision, expire_due
from loops.driver.clearance import Clearance
from loops.engine import facts as f
from loops.llm.scripted.adapter import Script, Turn
from loops.llm.scripted.scripts import never_stops
from loops.models import AccessRule, Agent, Workspace
from loops.runs.drive import drive
from loops.services.forks import fork_run
from loops.services.models import ensure_script
from loops.services.tasks import submit_task
from loops.storage import chain, reader
from loops.storage.rebuild import rebuild
from tests.decisions import decide
from tests.factories import create_project
from tests.unit.tools.harness import reachable

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("Q5", "D1")]
CHECK = "sh check.sh"
RAN = "ran.txt"
"""What the script of the criterion writes when it runs."""
DONE = ("task_completion", {"result": "Done."})


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return ("write_file", {"path": path, "content": content})


EVIL = write("check.sh", f"echo evil >> {RAN}\n")


@pytest.fixture
def boss() -> Any:
    return get_user_model().objects.create_superuser("ana", password="x")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "check.sh").write_text(f"echo good >> {RAN}\n")
    return tmp_path / "w"


class Played:
    """A run whose agent makes these calls, one a step. ``access``: what the project says of commands."""

    def __init__(self, boss: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, *calls: Any, **more: Any) -> None:
        project = create_project(actor=boss, name="P", slug="p")
        AccessRule.objects.filter(project=project, operation="execute").update(access=more.get("access", "ask"))
        agent = Agent.objects.create(project=project, name="a", actor_model=ensure_script("never_stops", pace=0))
        criteria = [{"text": f"It holds ({command})", "command": command} for command in more.get("checks", [CHECK])]
        copied = not more.get("in_place")
        workspace = Workspace.objects.create(project=project, name="w", path=str(folder), copy_for_each_run=copied)
        self.boss, self.monkeypatch = boss, monkeypatch
        self.task = {"project": project, "agent": agent, "workspace": workspace, "goal": "Do it", "criteria": criteria}
        self.task |= {"final_review": more.get("final_review", "never")}
        self.begin(*calls)

    def begin(self, *calls: Any) -> None:
        """The next run of the same task, whose agent makes these calls."""
        turns = [Turn(text="I do it.", calls=(call,)) for call in (*calls, DONE)]
        self.found = _written(Path(self.task["workspace"].path))
        script = Script(name="never_stops", summary="", play=lambda request, number: turns[min(number, len(turns) - 1)])
        self.monkeypatch.setattr(never_stops, "SCRIPT", script)
        self.run = submit_task(actor=self.boss, **self.task).run

    def go(self) -> Gate | None:
        """Drive it; the gate at which it rests."""
        drive(self.run.pk, "test")
        self.run.refresh_from_db()
        return Gate.objects.filter(run=self.run, status="open").first()

    def decide(self, gate: Gate | None, verdict: str = "approve", **more: Any) -> None:
        assert gate is not None
        decide(actor=self.boss, gate_id=gate.pk, verdict=verdict, digest=gate.digest, **more)

    @property
    def there(self) -> Path:
        return Path(self.run.workspace_path)

    def held(self) -> int:
        """Criteria whose command ran at the end, and held: in a checkout, so it leaves nothing in the folder."""
        return [check["status"] for check in self.kinds(f.ChecksCompleted)[-1]["checks"]].count("passed")

    def ran(self) -> str:
        """What ran in the folder since the agent began: the commands were tried before (ADR 0064)."""
        tried = [check["status"] for fact in self.kinds(f.CriteriaTried) for check in fact["checks"]]
        return _written(self.there).removeprefix(self.found + "good\n" * tried.count("passed"))

    def asked(self) -> int:
        return Gate.objects.filter(run=self.run, kind="tool_approval").count()

    def kinds(self, kind: type[f.Fact]) -> list[dict[str, Any]]:
        return [fact["fact"] for fact in reader.raw(self.run.pk, 0, 10_000) if fact["kind"] == kind.__name__]

    def is_sound(self) -> None:
        assert chain.verify(self.run.pk).problems == []
        assert rebuild(self.run.pk).differences == []


def _written(folder: Path) -> str:
    place = folder / RAN
    return place.read_text() if place.exists() else ""


@pytest.fixture
def play(boss: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda *calls, **more: Played(boss, folder, monkeypatch, *calls, **more)


def test_nothing_that_the_agent_wrote_runs_before_somebody_said_so(play: Any) -> None:
    played = play(EVIL)
    gate = played.go()
    assert gate is not None
    assert (gate.kind, gate.tool, played.ran()) == ("tool_approval", "run_command", "")
    assert (gate.view["criterion"], gate.view["arguments"]) == (f"It holds ({CHECK})", {"command": CHECK})
    assert gate.reasons[0] == "the run changed files that this command may execute or obey"
    played.decide(gate)
    assert played.go() is None
    assert (played.run.status, played.run.end_reason) == ("completed", "criteria_met")
    assert (played.ran(), played.asked()) == ("evil\n", 1)
    gate.refresh_from_db()
    assert gate.consumed_at is not None
    played.is_sound()


def test_what_the_run_left_as_it_was_is_checked_without_a_question(play: Any) -> None:
    played = play(("read_file", {"path": "check.sh"}))
    assert played.go() is None
    assert (played.run.end_reason, played.held(), played.asked()) == ("criteria_met", 1, 0)


@pytest.fixture
def shared(play: Any, folder: Path, settings: Any) -> Any:
    """Runs that work in the folder itself."""
    settings.WORKSPACE_ROOTS = [str(folder.parent)]
    reachable(folder).chmod(0o777)  # it is a person's, who lets the sandbox's user in
    return lambda *calls: play(*calls, in_place=True)


def test_what_another_run_left_in_the_folder_is_asked_about(shared: Any) -> None:
    """The next run finds it, and is not the one that wrote it; nobody said that it may run either."""
    played = shared(EVIL)
    played.decide(played.go(), "reject", reason="not on my machine")
    assert played.go() is None
    played.begin(("read_file", {"path": "check.sh"}))
    gate = played.go()
    assert gate is not None
    assert (gate.view["criterion"], played.ran()) == (f"It holds ({CHECK})", "")
    assert gate.reasons[0].startswith("an earlier run may have changed what this command executes")
    played.decide(gate)
    assert played.go() is None
    assert (played.run.end_reason, played.held()) == ("criteria_met", 1)
    played.is_sound()


READS = ("read_file", {"path": "check.sh"})


@pytest.mark.parametrize(
    ("worked_in", "left", "copied"),
    [
        ("w", "check.sh", "w"),
        ("w", "inner/check.sh", "w/inner"),
        ("w/inner", "check.sh", "w"),
    ],
    ids=["the folder", "one around it", "one in it"],
)
def test_what_another_run_left_is_asked_about_in_a_copy_too(
    shared: Any, folder: Path, worked_in: str, left: str, copied: str
) -> None:
    """That run worked in place, and what it wrote was rejected; the next one gets it as its own copy."""
    (folder / "inner").mkdir(mode=0o777)
    place = folder.parent
    check = f"sh {(place / worked_in / left).relative_to(place / copied)}"
    played = shared()
    played.task["criteria"] = [{"text": "It holds", "command": check}]
    for path, in_place, call in (
        (worked_in, True, write(left, f"echo evil >> {RAN}\n")),
        (copied, False, READS),
    ):
        played.task["workspace"] = use(played, place / path, in_place=in_place)
        played.begin(call)
        gate = played.go()
        assert (gate is not None, played.ran()) == (True, "")
        played.decide(gate, "reject", reason="not on my machine")
        assert (played.go(), played.ran()) == (None, "")
    assert gate.reasons[0].startswith("an earlier run may have changed what this command executes")


def test_a_copy_of_what_no_run_touched_is_checked_without_a_question(shared: Any, folder: Path) -> None:
    """Neither do other copies of it count, nor a folder beside it whose name begins alike."""
    (folder.parent / "w-too").mkdir(mode=0o777)
    played = shared()
    played.task["workspace"] = use(played, folder.parent / "w-too", in_place=True)
    played.begin(EVIL)
    played.decide(played.go(), "reject", reason="not on my machine")
    assert played.go() is None
    played.task["workspace"] = use(played, folder, in_place=False)
    played.begin(EVIL)
    played.decide(played.go())
    assert played.go() is None
    played.begin(READS)
    assert played.go() is None
    assert (played.run.end_reason, played.held(), played.asked()) == ("criteria_met", 1, 0)


def use(played: Played, path: Path, *, in_place: bool) -> Workspace:
    """Another workspace, of the folder at ``path``, in which nobody else works in place now."""
    Workspace.objects.update(copy_for_each_run=True)
    name = f"{path.name} {in_place}"
    return Workspace.objects.create(
        project=played.task["project"], name=name, path=str(path), copy_for_each_run=not in_place
    )


def test_the_first_run_in_a_folder_finds_what_people_left_there(shared: Any) -> None:
    played = shared(("read_file", {"path": "check.sh"}))
    assert played.go() is None
    assert (played.run.end_reason, played.held(), played.asked()) == ("criteria_met", 1, 0)


@pytest.mark.parametrize(("access", "end"), [("allow", "criteria_met"), ("deny", "unproven")])
def test_where_commands_are_allowed_or_denied_nobody_is_asked(play: Any, access: str, end: str) -> None:
    played = play(EVIL, access=access)
    gate = played.go()
    assert played.asked() == 0
    assert played.ran() == ("evil\n" if access == "allow" else "")
    if access == "allow":
        assert (gate, played.run.end_reason) == (None, end)


def test_rejected_it_stays_unproven_and_no_repair_is_spent(play: Any) -> None:
    played = play(EVIL)
    played.decide(played.go(), "reject", reason="not on my machine")
    assert played.go() is None
    assert (played.run.end_reason, played.ran()) == ("unproven", "")
    (checks,) = played.kinds(f.ChecksCompleted)
    assert checks["checks"][0]["status"] == "unproven"
    assert "not on my machine" in checks["checks"][0]["detail"]
    assert not played.kinds(f.DiagnosisMade)
    played.is_sound()


def test_not_decided_in_time_it_stays_unproven(play: Any) -> None:
    played = play(EVIL)
    gate = played.go()
    Gate.objects.filter(pk=gate.pk).update(expires_at=timezone.now())
    expire_due()
    assert played.go() is None
    assert (played.run.end_reason, played.ran()) == ("unproven", "")


@pytest.mark.parametrize("tool", ["run_command", "run_tests"])
def test_the_same_command_that_was_approved_last_is_not_asked_about_twice(play: Any, tool: str) -> None:
    played = play(EVIL, (tool, {"command": CHECK}))
    played.decide(played.go())
    assert played.go() is None
    assert (played.run.end_reason, played.asked(), played.ran()) == ("criteria_met", 1, "evil\nevil\n")
    played.is_sound()


@pytest.mark.parametrize(
    "then",
    [
        write("check.sh", "echo >> ran.txt\n"),
        write("conftest.py", "x = 1\n"),
        ("run_command", {"command": "true"}),
    ],
    ids=["the script", "another file", "another command"],
)
def test_what_changed_after_that_approval_is_asked_about(play: Any, then: Any) -> None:
    played = play(EVIL, ("run_command", {"command": CHECK}), then)
    gate = played.go()
    while gate is not None and not gate.view.get("criterion"):
        played.decide(gate)
        gate = played.go()
    changed = then[0] == "write_file"
    assert (gate is not None) == changed
    assert played.ran() == ("evil\n" if changed else "evil\nevil\n")


def test_another_command_on_the_same_files_is_asked_about(play: Any) -> None:
    played = play(EVIL, ("run_command", {"command": "sh -e check.sh"}))
    played.decide(played.go())
    gate = played.go()
    assert gate is not None
    assert (gate.view["criterion"], played.ran()) == (f"It holds ({CHECK})", "evil\n")


def test_what_changes_while_the_question_is_open_is_asked_about_again_by_name(play: Any) -> None:
    played = play(EVIL)
    first = played.go()
    (played.there / "check.sh").write_text(f"echo somebody >> {RAN}\n")
    played.decide(first)
    again = played.go()
    assert again is not None
    assert again.pk != first.pk
    assert "check.sh" in again.reasons[0]
    assert played.ran() == ""
    played.decide(again)
    assert played.go() is None
    assert (played.ran(), played.run.end_reason) == ("somebody\n", "criteria_met")
    played.is_sound()


def test_what_keeps_changing_is_given_up(play: Any) -> None:
    played = play(EVIL)
    for number in range(5):
        gate = played.go()
        if gate is None:
            break
        (played.there / "check.sh").write_text(f"echo {number} >> {RAN}\n")
        played.decide(gate)
    assert (played.asked(), played.ran(), played.run.end_reason) == (4, "", "unproven")
    (checks,) = played.kinds(f.ChecksCompleted)
    assert "changed each time" in checks["checks"][0]["detail"]


def test_several_are_asked_about_before_the_first_runs_and_may_change_what_they_like(play: Any) -> None:
    played = play(EVIL, checks=["sh check.sh", "sh ./check.sh"])
    for _ in range(2):
        gate = played.go()
        assert played.ran() == ""
        played.decide(gate)
    assert played.go() is None
    assert (played.run.end_reason, played.asked(), played.ran()) == ("criteria_met", 2, "evil\nevil\n")
    played.is_sound()


def test_what_somebody_else_changes_between_two_of_them_is_asked_about(play: Any, monkeypatch: Any) -> None:
    played = play(EVIL, checks=["sh check.sh", "sh ./check.sh"])
    played.decide(played.go())
    played.decide(played.go())
    ran = Clearance.ran

    def and_somebody(self: Clearance) -> None:
        ran(self)
        (played.there / "check.sh").write_text(f"echo somebody >> {RAN}\n")

    with monkeypatch.context() as patch:
        patch.setattr(Clearance, "ran", and_somebody)
        gate = played.go()
    assert gate is not None
    assert played.ran() == "evil\n", "the second did not run"


def test_one_may_be_rejected_and_another_run(play: Any) -> None:
    played = play(EVIL, checks=["sh check.sh", "sh ./check.sh"])
    played.decide(played.go(), "reject", reason="no")
    played.decide(played.go())
    assert played.go() is None
    (checks,) = played.kinds(f.ChecksCompleted)
    assert [check["status"] for check in checks["checks"]] == ["unproven", "passed"]
    assert played.ran() == "evil\n"


def test_it_is_not_edited_by_any_door(play: Any) -> None:
    played = play(EVIL)
    gate = played.go()
    edit = {"payload": {"arguments": {"command": "true"}}}
    with pytest.raises(InvalidDecision, match="task's own"):
        played.decide(gate, "approve_with_edits", **edit)
    page = Client()
    page.force_login(played.boss)
    card = page.get(reverse("gate", args=[gate.pk])).content.decode()
    assert "Acceptance criterion that it checks" in card
    assert 'value="approve_with_edits"' not in card
    assert 'value="approve"' in card


def test_after_a_rejected_review_the_checks_run_on_what_they_left_without_a_question(play: Any) -> None:
    played = play(EVIL, final_review="always")
    played.decide(played.go())
    review = played.go()
    assert review is not None
    assert (review.kind, played.ran()) == ("final_review", "evil\n")
    played.decide(review, "reject", reason="say more")
    review = played.go()
    assert review is not None
    assert (review.kind, played.asked(), played.ran()) == ("final_review", 1, "evil\nevil\n")


def test_a_fork_is_asked_about_what_its_parent_changed(play: Any) -> None:
    played = play(EVIL)
    played.decide(played.go())
    assert played.go() is None
    played.run.refresh_from_db()
    forked = fork_run(actor=played.boss, run=played.run, step=1).run
    drive(forked.pk, "test")
    gate = Gate.objects.get(run=forked, status="open")
    assert gate.view["criterion"] == f"It holds ({CHECK})"
