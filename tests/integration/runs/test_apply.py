"""A result goes back into the folder that its run worked on a copy of: whole or not at all (SPEC R4, T2, T3)."""

from __future__ import annotations

import io
import itertools
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from gates.models import Gate
from loops import jobs
from loops.management.run_follower import RunFollower
from loops.models import AuditEvent, Delivery, Membership, Run, Workspace
from loops.services import delivery as service
from loops.services import retention
from loops.services.access import NotAllowed
from loops.services.forks import fork_run
from loops.services.steering import NotPossible
from loops.tools.file_assertions import Assertion
from loops.tools.snapshots import FOLDER, NOTHING, file_state, hash_of
from loops.workspaces import delivery
from tests import factories as make
from tests.decisions import decide
from tests.integration.rollback.world import WORK, Story, look
from tests.integration.runs.test_patch import client_of

pytestmark = pytest.mark.django_db(transaction=True)
Calls = list[tuple[str, dict[str, Any]]]
NAME = "0" * 32
DONE = ("task_completion", {"result": "Done."})


@pytest.fixture
def story(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Story:
    """Jobs are done when they are handed over."""
    monkeypatch.setattr(
        "loops.storage.dispatch.dispatch",
        lambda job, after=0, **given: jobs.deliver(**given) if job == "loops.deliver" else None,
    )
    return Story(tmp_path, settings, monkeypatch)


def commit(story: Story, calls: Calls = WORK, *, in_place: bool = False) -> Run:
    story.calls([*calls, DONE])
    Workspace.objects.update(copy_for_each_run=not in_place)
    assert story.drive() == "gate:final_review"
    gate = Gate.objects.get(run=story.run, status="open")
    decide(actor=story.boss, gate_id=gate.pk, verdict="approve", digest=gate.digest)
    assert story.drive() == "ended"
    assert story.run.status == "completed"
    return story.run


@pytest.mark.spec("T3")
def test_whoever_watched_it_is_told_how_to_take_it_over(story: Story) -> None:
    story.calls([*WORK, DONE])
    watched, out = Run.objects.get(pk=story.run.pk), io.StringIO()
    assert story.drive() == "gate:final_review"
    gate = Gate.objects.get(run=story.run, status="open")
    decide(actor=story.boss, gate_id=gate.pk, verdict="approve", digest=gate.digest)
    story.drive()
    RunFollower(watched, story.boss, out, as_json=False).follow()
    line = f"agentops commit {story.run.pk}"
    assert ("take it over" in out.getvalue(), line in out.getvalue()) == (True, True)
    order(story)
    out = io.StringIO()
    RunFollower(watched, story.boss, out, as_json=False).follow()
    assert line not in out.getvalue(), "it was"


def nobody_hears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loops.storage.dispatch.dispatch", lambda *_, **__: None)


def order(story: Story, actor: Any = None) -> Delivery:
    actor = actor or story.boss
    digest = service.preview(actor, story.run).plan.digest
    made = service.apply_result(actor=actor, run=story.run, digest=digest)
    made.refresh_from_db()
    return made


def written(steps: Any, folder: Path, contents: dict[str, bytes], *, anew: bool = False) -> str:
    with delivery.held(str(folder), NAME) as workspace:
        return delivery.write(steps, workspace, contents, anew=anew).why_not


def heard(kind: str) -> list[Any]:
    return list(AuditEvent.objects.filter(kind=kind).values_list("actor__username", "detail"))


@pytest.mark.spec("R4")
def test_the_folder_becomes_as_the_run_left_its_copy(story: Story) -> None:
    commit(story)
    (story.origin / "old/mine").write_text("in a folder that the run deleted")
    (story.origin / "a.txt").chmod(0o664)
    made = order(story)
    assert (made.state, made.why_not) == ("applied", "")
    (story.origin / "old/mine").unlink()
    (story.origin / "old").rmdir()
    now = look(story.origin)
    assert now.pop("a.txt") == (b"newer a\n", 0o664), "the person's permissions stay"
    assert now == {name: state for name, state in look(story.folder).items() if name != "a.txt"}
    assert [(who, detail["files"]) for who, detail in heard("run.applied")] == [("ana", made.files)]
    with pytest.raises(NotPossible, match="Nothing is left to apply"):
        order(story)


@pytest.mark.spec("R4", "I7")
def test_nothing_of_git_goes_back_into_the_folder(story: Story) -> None:
    """What a run set in the repository of its copy would act when the person uses theirs."""
    subprocess.run(["git", "init", "-q", "."], cwd=story.origin, check=True)
    before = (story.origin / ".git/config").read_bytes()
    hook = "printf 'touch planted' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit"
    line = f"git config user.name somebody; {hook}; git init -q inner; echo work > by_command"
    commit(story, [("run_command", {"command": line})])
    assert (story.folder / ".git/config").exists(), "control: the copy has a repository"
    assert order(story).state == "applied"
    assert (story.origin / "by_command").read_text() == "work\n"
    assert (story.origin / ".git/config").read_bytes() == before
    assert not (story.origin / ".git/hooks/pre-commit").exists()
    assert not (story.origin / "inner/.git").exists()


@pytest.mark.spec("R4", "X5")
@pytest.mark.parametrize(
    ("meanwhile", "path", "why"),
    [
        (lambda folder: (folder / "a.txt").write_text("mine"), "a.txt", delivery.OTHERS),
        (lambda folder: (folder / "d.txt").unlink() or (folder / "d.txt").mkdir(), "d.txt", delivery.OTHERS),
        (lambda folder: (folder / "e.txt").unlink(), "e.txt", delivery.GONE),
        (lambda folder: (folder / "by_command").write_text("mine"), "by_command", delivery.OTHERS),
        (lambda folder: os.link(folder / "a.txt", folder.parent / "other"), "a.txt", delivery.LINKED),
        (lambda folder: (folder / "a.txt").chmod(0o4755), "a.txt", delivery.SPECIAL),
    ],
)
def test_nothing_is_written_where_a_person_changed_something(
    story: Story, meanwhile: Callable[[Path], Any], path: str, why: str
) -> None:
    commit(story)
    meanwhile(story.origin)
    was = look(story.origin)
    assert {one for one, _ in service.preview(story.boss, story.run).plan.conflicts} == {path}
    with pytest.raises(NotPossible) as refused:
        order(story)
    said = str(refused.value)
    assert heard("run.apply_refused") == [("ana", {"why": said})]
    assert f"{path}: " in said
    assert why in said
    assert look(story.origin) == was


@pytest.mark.spec("R4")
def test_what_changed_since_it_was_shown_is_not_applied(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(story)
    digest = service.preview(story.boss, story.run).plan.digest
    (story.origin / "d.txt").unlink()
    with pytest.raises(NotPossible, match="changed since this was shown"):
        service.apply_result(actor=story.boss, run=story.run, digest=digest)
    nobody_hears(monkeypatch)
    late = order(story)
    (story.origin / "a.txt").write_text("mine")
    was = look(story.origin)
    assert service.carry_out(late.pk) == "refused"
    late.refresh_from_db()
    assert f"a.txt: {delivery.OTHERS}" in late.why_not
    assert look(story.origin) == was


def begin_and_die(story: Story, monkeypatch: pytest.MonkeyPatch) -> tuple[list[dict[str, Any]], Delivery]:
    """An order that is not handed over at first; then a worker dies when a part of it is written. Returns what is
    handed over from now on, and the order."""
    commit(story)
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(jobs, "hand_over", lambda job, **given: asked.append({"job": job, **given}))
    nobody_hears(monkeypatch)
    made = order(story)
    with pytest.raises(NotPossible, match="being applied already"):
        service.apply_result(actor=story.boss, run=story.run, digest=made.digest)
    monkeypatch.setattr(jobs, "UNHEARD_S", 600)
    assert jobs.sweep() == 0
    assert not asked, "a worker may be on its way"
    monkeypatch.setattr(jobs, "UNHEARD_S", -1)

    class Killed(BaseException):
        pass

    whole, left = Assertion.make, 4

    def make_some(one: Assertion, *given: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise Killed
        whole(one, *given)

    monkeypatch.setattr(Assertion, "make", make_some)
    with pytest.raises(Killed):
        service.carry_out(made.pk)
    monkeypatch.setattr(Assertion, "make", whole)
    assert look(story.origin) not in (story.was, look(story.folder))
    return asked, made


@pytest.mark.spec("J4", "R4")
def test_what_a_person_changes_while_it_is_written_stays_theirs(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    _, made = begin_and_die(story, monkeypatch)
    (story.origin / "e.txt").write_text("mine")
    assert service.carry_out(made.pk) == "refused"
    made.refresh_from_db()
    assert made.why_not == "e.txt: somebody else changed it since"
    assert (story.origin / "e.txt").read_text() == "mine"
    now = look(story.origin)
    assert {name for name in now | story.was if now.get(name) != story.was.get(name)} == {"e.txt"}


@pytest.mark.spec("J4", "R4")
def test_a_worker_that_is_lost_is_followed_by_another(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, made = begin_and_die(story, monkeypatch)
    jobs.sweep()
    assert asked == [{"job": "loops.deliver", "delivery": str(made.pk)}]
    assert jobs.deliver(str(made.pk)) == "applied"
    assert look(story.origin) == look(story.folder)
    jobs.sweep()
    assert len(asked) == 1


def test_a_folder_that_had_to_come_first_goes_with_what_is_put_back(tmp_path: Path) -> None:
    """The run wrote into a folder that is not here any more."""
    state = file_state(b"x", 0o644)
    changes = tuple(service.patch.FileChange(path, NOTHING, state) for path in ("gone/too/a", "gone/too/b"))
    found = service.patch.Portable(changes, (), {hash_of(state): 1})
    steps = delivery.plan(found, str(tmp_path)).steps
    assert [one.path for one in steps] == ["gone", "gone/too", "gone/too/a", "gone/too/b"]
    (tmp_path / "gone/too").mkdir(parents=True)
    (tmp_path / "gone/too/b").write_text("mine")
    assert "gone/too/b: " in written(steps, tmp_path, {hash_of(state): b"x"})
    assert look(tmp_path) == {"gone": "folder", "gone/too": "folder", "gone/too/b": (b"mine", 0o644)}
    (tmp_path / "gone/too/b").unlink()
    assert "gone/too/a: its contents" in written(steps, tmp_path, {})
    assert look(tmp_path) == {}


@pytest.mark.spec("R4", "X5")
def test_the_disk_is_full_half_way_and_all_is_put_back(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(story)
    whole = Assertion.make

    def full(one: Assertion, *given: Any) -> None:
        if one.path == "moved/c.txt":
            raise OSError(28, "No space left on device", one.path)
        whole(one, *given)

    monkeypatch.setattr(Assertion, "make", full)
    made = order(story)
    assert made.state == "refused"
    assert "moved/c.txt: [Errno 28] No space left" in made.why_not
    assert "put back" not in made.why_not
    assert look(story.origin) == story.was
    assert heard("run.not_applied")[0][1]["why"] == made.why_not


def test_who_may(story: Story, settings: Any) -> None:
    """Whoever may change the folder through a run that works in it; reading it through a copy is less."""
    commit(story)
    settings.WORKSPACE_ROOTS = []
    operator, reviewer = make.user("olga"), make.user("rita")
    for person, role in ((operator, "operator"), (reviewer, "reviewer")):
        Membership.objects.create(user=person, project=story.project, role=role)
    workspace = Workspace.objects.get()
    workspace.allowed_by, workspace.allowed_path = story.boss, str(story.origin)
    workspace.save()
    with pytest.raises(NotAllowed):
        order(story, reviewer)
    with pytest.raises(NotPossible, match="lies outside the workspace roots"):
        order(story, operator)
    assert look(story.origin) == story.was
    workspace.allowed_in_place = True
    workspace.save()
    story.run = Run.objects.get(pk=story.run.pk)
    digest = service.preview(operator, story.run).plan.digest
    Membership.objects.filter(user=operator).delete()
    with pytest.raises(NotAllowed):
        service.apply_result(actor=operator, run=story.run, digest=digest)
    Membership.objects.create(user=operator, project=story.project, role="operator")
    assert order(story, operator).state == "applied"


@pytest.mark.parametrize("lost", ["role", "folder"])
def test_what_was_allowed_when_it_was_ordered_is_asked_again(
    story: Story, settings: Any, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    commit(story)
    settings.WORKSPACE_ROOTS = []
    operator = make.user("olga")
    Membership.objects.create(user=operator, project=story.project, role="operator")
    given = {"allowed_by": story.boss, "allowed_path": str(story.origin), "allowed_in_place": True}
    Workspace.objects.update(**given)
    nobody_hears(monkeypatch)
    made = order(story, operator)
    if lost == "role":
        Membership.objects.filter(user=operator).delete()
    else:
        Workspace.objects.update(allowed_in_place=False)
    assert service.carry_out(made.pk) == "refused"
    assert look(story.origin) == story.was


def test_only_a_committed_result_of_a_copy_is_applied(story: Story) -> None:
    story.begin()
    with pytest.raises(NotPossible, match="Only the result of a completed run"):
        service.preview(story.boss, story.run)
    client = client_of(story.boss)
    assert b"Apply to folder" not in client.get(f"/runs/{story.run.pk}/files/").content


def test_there_is_nothing_to_apply_where_a_run_worked_in_the_folder(story: Story) -> None:
    commit(story, in_place=True)
    with pytest.raises(NotPossible, match="worked in the folder itself"):
        service.preview(story.boss, story.run)


@pytest.mark.spec("I7", "X5")
def test_links_out_are_not_applied_and_none_is_followed(story: Story, tmp_path: Path) -> None:
    commit(story, [("run_command", {"command": "ln -s a.txt within; mkdir d; echo x > d/f"})])
    for target in ("../secret", "/etc/passwd", "d/../../secret"):
        link = service.patch.FileChange("out", NOTHING, f"link:{target}")
        plan = delivery.plan(service.patch.Portable((link,), (), {}), str(story.origin))
        assert [path for path, _ in plan.conflicts] == ["out"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (story.origin / "d").symlink_to(elsewhere)
    plan = service.preview(story.boss, story.run).plan
    assert {path for path, _ in plan.conflicts} == {"d", "d/f"}
    assert list(elsewhere.iterdir()) == []


@pytest.mark.spec("I7")
def test_the_folder_itself_became_a_link(story: Story, tmp_path: Path) -> None:
    commit(story)
    story.origin.rename(tmp_path / "aside")
    story.origin.symlink_to(tmp_path / "aside")
    with pytest.raises(NotPossible, match="link"):
        order(story)
    assert look(tmp_path / "aside") == story.was


@pytest.mark.spec("R4", "T2", "T3")
def test_page_api_and_terminal_show_the_same_and_order_the_same(story: Story) -> None:
    commit(story)
    client, name = client_of(story.boss), f"/runs/{story.run.pk}/apply/"
    page = client.get(name).content.decode()
    plan = service.preview(story.boss, story.run).plan
    assert all(file.path in page for file in plan.files)
    assert f'value="{plan.digest}"' in page
    shown = client.get(f"/api/v1{name}").json()
    assert shown["digest"] == plan.digest
    assert [(one["path"], one["what"], one["source"]) for one in shown["files"]] == [
        (file.path, file.what, file.source) for file in plan.files
    ]
    assert shown["latest"] is None
    said = io.StringIO()
    with pytest.raises(CommandError, match="Nothing was written"):
        call_command("agentops", "apply", str(story.run.pk), stdout=said)
    assert "deleted  d.txt" in said.getvalue()
    assert look(story.origin) == story.was
    wrong = client.post(f"/api/v1{name}", json.dumps({"digest": "0" * 64}), content_type="application/json")
    assert wrong.status_code == 409
    call_command("agentops", "apply", str(story.run.pk), "--yes", stdout=said)
    assert f"Applied to {story.origin}" in said.getvalue()
    assert look(story.origin) == look(story.folder)
    told = client.get(f"/api/v1{name}").json()
    assert (told["latest"]["state"], told["digest"]) == ("applied", None)
    assert told["why_not"] == service.NOTHING_LEFT
    assert "Applied to" in client.get(f"/runs/{story.run.pk}/files/").content.decode()


@pytest.mark.spec("R4")
def test_the_button_of_the_page_orders_what_it_shows(story: Story) -> None:
    commit(story)
    client, name = client_of(story.boss), f"/runs/{story.run.pk}/apply/"
    stale = client.post(name, {"digest": "0" * 64}, follow=True)
    assert "Look at it again" in stale.content.decode()
    assert look(story.origin) == story.was
    done = client.post(name, {"digest": service.preview(story.boss, story.run).plan.digest}, follow=True)
    assert "Applied to" in done.content.decode()
    assert look(story.origin) == look(story.folder)


def test_what_programs_obey_on_sight_stands_above_the_button(story: Story) -> None:
    commit(story)
    found = service.patch.portable(story.run)
    change = service.patch.FileChange(".envrc", NOTHING, file_state(b"rm -rf ~", 0o644))
    plan = delivery.plan(service.patch.Portable((*found.changes, change), (), found.sizes), str(story.origin))
    assert plan.obeyed == (".envrc",)


# --- links, alike files, two workers, folders that are away ----------------------------------------------------------


@dataclass(frozen=True)
class Before:
    """A folder as the run found it, and what it made of it: path -> (before, after)."""

    folder: Path
    bytes_of: dict[str, bytes]

    def file(self, path: str, body: str = "same") -> str:
        """Write it, and its state."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(body)
        (self.folder / path).chmod(0o644)
        return self.state(body)

    def state(self, body: str) -> str:
        state = file_state(body.encode(), 0o644)
        self.bytes_of[hash_of(state)] = body.encode()
        return state

    def plan(self, changes: dict[str, tuple[str, str]]) -> delivery.Plan:
        listed = tuple(service.patch.FileChange(path, *states) for path, states in changes.items())
        return delivery.plan(service.patch.Portable(listed, (), {}), str(self.folder))

    def apply(self, changes: dict[str, tuple[str, str]], times: int = 2) -> None:
        plan = self.plan(changes)
        assert plan.conflicts == ()
        for number in range(times):
            assert written(plan.steps, self.folder, self.bytes_of, anew=number == 0) == ""


@pytest.fixture
def before(tmp_path: Path) -> Before:
    (tmp_path / "theirs").mkdir()
    return Before(tmp_path / "theirs", {})


def test_a_folder_that_becomes_a_link_takes_nothing_from_where_it_leads(before: Before) -> None:
    """Twice, as after a worker that was lost when all was written."""
    same = before.file("d/f")
    before.file("e/f")
    before.apply({"d": (FOLDER, "link:e"), "d/f": (same, NOTHING)})
    assert look(before.folder) == {"d": "-> e", "e": "folder", "e/f": (b"same", 0o644)}


def test_a_link_that_becomes_a_folder_has_its_files(before: Before) -> None:
    same = before.file("e/f")
    (before.folder / "d").symlink_to("e")
    before.apply({"d": ("link:e", FOLDER), "d/f": (NOTHING, same)})
    assert look(before.folder)["d/f"] == (b"same", 0o644)
    assert (before.folder / "e/f").exists()


def test_a_file_becomes_a_folder_and_a_folder_a_file(before: Before) -> None:
    was, inside = before.file("one"), before.file("two/f")
    changes = {"one": (was, FOLDER), "one/f": (NOTHING, inside), "two": (FOLDER, was), "two/f": (inside, NOTHING)}
    before.apply(changes)
    assert look(before.folder) == {"one": "folder", "one/f": (b"same", 0o644), "two": (b"same", 0o644)}


@pytest.mark.spec("I7")
def test_a_link_may_not_lead_out_by_way_of_another_one(before: Before) -> None:
    (before.folder / "a/b").mkdir(parents=True)
    (before.folder / "a/b/up").symlink_to("../..")
    found = before.plan({"leak": (NOTHING, "link:a/b/up/../outside"), "two": (NOTHING, "link:a/b/up/theirs")})
    assert found.conflicts == (("leak", delivery.LEADS_OUT), ("two", delivery.LEADS_OUT))
    assert before.plan({"good": (NOTHING, "link:a/b")}).conflicts == ()
    odd = os.fsdecode(b"link:\xff")
    assert before.plan({"odd": (NOTHING, odd)}).conflicts == (("odd", delivery.NO_TEXT),)


def test_what_a_person_made_alike_meanwhile_is_not_taken_away(before: Before) -> None:
    new = before.state("same")
    plan = before.plan({"a": (NOTHING, new), "b": (NOTHING, new), "z": (NOTHING, new)})
    before.file("a")
    before.file("z", "something else")
    assert "z: somebody else changed it" in written(plan.steps, before.folder, before.bytes_of, anew=True)
    assert set(look(before.folder)) == {"a", "z"}


def test_permissions_that_another_umask_gave_a_new_file_are_no_conflict(before: Before) -> None:
    new = before.file("new")
    (before.folder / "new").chmod(0o664)
    plan = before.plan({"new": (NOTHING, new)})
    assert (plan.steps, plan.conflicts) == ((), ())


@pytest.mark.spec("J4", "X5")
def test_no_transaction_is_open_while_files_are_written(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database ends one that rests for seconds, and the lock of the order with it."""
    commit(story)
    whole, seen = Assertion.make, list[bool]()

    def make(one: Assertion, *given: Any) -> None:
        seen.append(connection.in_atomic_block)
        whole(one, *given)

    monkeypatch.setattr(Assertion, "make", make)
    assert order(story).state == "applied"
    assert seen
    assert not any(seen)


@pytest.mark.spec("J4")
def test_one_worker_at_a_time_writes_into_a_folder(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(story)
    nobody_hears(monkeypatch)
    made = order(story)
    with delivery.held(str(story.origin), NAME):
        assert service.carry_out(made.pk) == ""
    other = Delivery.objects.create(
        run=make.run(story.project), folder=made.folder, digest="d", state="writing", plan=[], ordered_by=story.boss
    )
    assert service.carry_out(made.pk) == "waiting", "a half written folder is no ground for a plan"
    assert service.carry_out(other.pk) == "applied"
    assert service.carry_out(made.pk) == "applied"


@pytest.mark.spec("J4", "X5")
def test_what_was_begun_waits_for_its_folder(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    _, made = begin_and_die(story, monkeypatch)
    aside = story.origin.with_name("aside")
    story.origin.rename(aside)
    assert service.carry_out(made.pk) == "writing"
    made.refresh_from_db()
    assert "No such file" in made.why_not
    assert "No such file" in client_of(story.boss).get(f"/runs/{story.run.pk}/apply/").content.decode()
    aside.rename(story.origin)
    assert service.carry_out(made.pk) == "applied"
    assert look(story.origin) == look(story.folder)


@pytest.mark.spec("J4", "X5")
def test_a_disk_that_is_full_on_the_way_back_too_is_waited_for(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(story)
    nobody_hears(monkeypatch)
    made, whole = order(story), Assertion.make
    full = {"e.txt"}

    def make(one: Assertion, *given: Any) -> None:
        if one.path in full:
            full.add("a.txt")
            raise OSError(28, "No space left on device", one.path)
        whole(one, *given)

    monkeypatch.setattr(Assertion, "make", make)
    assert service.carry_out(made.pk) == "writing"
    page = client_of(story.boss).get(f"/runs/{story.run.pk}/apply/").content.decode()
    assert "Undoing what was written" in page
    assert look(story.origin) != story.was
    full.clear()
    assert service.carry_out(made.pk) == "refused"
    assert look(story.origin) == story.was
    made.refresh_from_db()
    assert "e.txt: [Errno 28]" in made.why_not


def test_an_order_is_about_the_folder_that_was_copied(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(story)
    nobody_hears(monkeypatch)
    made = order(story)
    other = tmp_path / "other"
    shutil.copytree(story.origin, other, symlinks=True)
    Workspace.objects.update(path=str(other))
    story.run = Run.objects.get(pk=story.run.pk)
    with pytest.raises(NotPossible, match="another folder since"):
        service.preview(story.boss, story.run)
    assert service.carry_out(made.pk) == "refused"
    assert look(story.origin) == look(other) == story.was
    same = [delivery.Plan(folder, (), (), (), ()).digest for folder in ("/a", "/b")]
    assert same[0] != same[1]


def test_an_order_that_nobody_began_can_be_taken_back(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(story)
    nobody_hears(monkeypatch)
    made, client = order(story), client_of(story.boss)
    name = f"/runs/{story.run.pk}/apply/"
    assert "Cancel this request" in client.get(name).content.decode()
    client.post(name, {"cancel": "1"})
    made.refresh_from_db()
    assert (made.state, made.why_not) == ("refused", "Taken back by ana.")
    assert service.carry_out(made.pk) == ""
    assert look(story.origin) == story.was
    assert not service.cancel(actor=story.boss, run=story.run)
    assert order(story).state == "waiting"


def test_what_fails_for_another_reason_is_given_up_where_nothing_was_begun(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(story)
    nobody_hears(monkeypatch)
    made = order(story)

    def wrong(*_: Any) -> None:
        raise ValueError("of ours")

    monkeypatch.setattr(service, "_changed_since", wrong)
    said = {service.carry_out(made.pk) for _ in range(service.MOST_TRIES)}
    assert said == {"waiting", "refused"}
    made.refresh_from_db()
    assert "of ours" in made.why_not


@pytest.mark.spec("K3")
def test_a_fork_does_not_apply_what_its_review_did_not_show(story: Story) -> None:
    commit(story)
    parent = story.run
    story.run = fork_run(actor=story.boss, run=parent, step=2, message="", model="", limits={}).run
    story.drive()
    Run.objects.filter(pk=story.run.pk).update(status="completed")
    story.run.refresh_from_db()
    with pytest.raises(NotPossible, match="took over changes"):
        service.preview(story.boss, story.run)


def test_retention_waits_for_an_open_order(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(story)
    nobody_hears(monkeypatch)
    order(story)
    held = retention.HELD["is being applied to its workspace"]
    assert Run.objects.filter(held, pk=story.run.pk).exists()


CALLS = ("open", "rename", "mkdir", "unlink", "rmdir", "symlink", "fsync")


@pytest.mark.spec("J4", "R4")
def test_killed_before_any_of_its_calls_it_is_finished_and_nothing_of_ours_stays(tmp_path: Path) -> None:
    """Kill -9 before the first call of the system that writes, before the second ... until there is none left."""
    for trial in range(1, 1_000):
        folder = tmp_path / str(trial)
        steps, contents, wanted = _steps(folder)
        child = os.fork()
        if not child:
            _die_before(trial)
            try:
                os._exit(bool(written(steps, folder, contents)))
            finally:
                os._exit(2)
        _, ended = os.waitpid(child, 0)
        if not os.WIFSIGNALED(ended):
            assert ended == 0
            break
        assert written(steps, folder, contents) == ""
        assert look(folder) == wanted
        shutil.rmtree(folder)
    assert look(folder) == wanted
    assert trial > 50


def _die_before(number: int) -> None:
    counted = itertools.count(1)

    def counting(call: Any) -> Any:
        def made(*given: Any, **more: Any) -> Any:
            if next(counted) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*given, **more)

        return made

    for name in CALLS:
        setattr(os, name, counting(getattr(os, name)))


def _steps(folder: Path) -> tuple[list[Assertion], dict[str, bytes], dict[str, Any]]:
    """(what is to be done in ``folder``, the contents of files, what is there when it is done)."""
    (folder / "old").mkdir(parents=True)
    for name in ("old/gone", "mine", "changed", "becomes_folder"):
        (folder / name).write_text(name)
        (folder / name).chmod(0o644)
    (folder / "link").symlink_to("changed")
    contents, steps = dict[str, bytes](), list[Assertion]()
    wanted: dict[str, Any] = {"mine": (b"mine", 0o644), "link": "-> mine"}

    def was(name: str) -> str:
        return file_state(name.encode(), 0o644)

    files = {"changed": was("changed"), "becomes_folder/f": NOTHING, **{f"new/{n}": NOTHING for n in range(8)}}
    for path, before in files.items():
        body = f"{path}\n".encode() * 50
        state = file_state(body, 0o640)
        contents[hash_of(state)] = body
        steps.append(Assertion(path, state, before))
        wanted |= {path: (body, 0o640)}
    steps += [Assertion("new", FOLDER, NOTHING), Assertion("becomes_folder", FOLDER, was("becomes_folder"))]
    steps += [Assertion("old/gone", NOTHING, was("old/gone")), Assertion("old", NOTHING, FOLDER)]
    steps += [Assertion("link", "link:mine", "link:changed")]
    return delivery.in_order(steps), contents, wanted | {"new": "folder", "becomes_folder": "folder"}
