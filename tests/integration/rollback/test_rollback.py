"""A run undone on the real parts: Postgres, journal, TAS, files, gates; only the model is scripted (SPEC O1-O3)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gates.models import Decision, Gate
from gates.services.expiry import expire_due
from gates.services.refusals import DecisionRefused
from loops.models import Run
from loops.services import steering
from loops.services.access import NotAllowed
from loops.services.demo import submit_all
from loops.services.rollback import preview, roll_back_run
from loops.services.steering import NotPossible
from loops.storage import chain, journal
from loops.storage.rebuild import rebuild
from loops.workspaces.snapshots import fill, states_at
from tests import factories as make
from tests.decisions import decide
from tests.integration.rollback.world import WORK, Story, look, work_on
from tests.stack import PATIENCE_S, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def story(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Story:
    return Story(tmp_path, settings, monkeypatch)


@pytest.mark.spec("O1", "O2", "O3", "Q1", "Q3")
def test_a_failed_run_asks_and_everything_is_put_back_in_reverse_order(story: Story) -> None:
    story.begin()
    assert story.fail() == "gate:rollback_choice"
    assert look(story.folder) != story.was
    gate = story.gate()
    assert {one["path"] for one in gate.view["files"]} >= {
        "a.txt",
        "c.txt",
        "d.txt",
        "e.txt",
        "old/f.txt",
        "by_command",
    }
    assert "-newer a\n+the first a.txt" in gate.view["diff"]
    assert not any(one["why_not"] for one in gate.view["files"])
    assert gate.view["failure"] == "demo-scripted: no key", "what its provider said"
    assert story.say("roll_back") == "ended"
    assert look(story.folder) == story.was
    begun = [fact.undoes for fact in story.facts("CompensationIntended")]
    done = [fact.call_id for fact in story.facts("ToolCompleted")]
    assert begun == done[::-1]
    assert [fact.outcome for fact in story.facts("CompensationCompleted")] == ["undone"] * len(WORK)
    assert (story.run.status, story.run.phase) == ("failed", "FAIL")
    assert story.report["kind"] == "FailureReport"
    assert story.report["rollback"]["by"] == "ana"
    assert len(story.report["rollback"]["undone"]) == len(WORK)
    assert story.report["rollback"]["not_undone"] == []
    assert chain.verify(story.run.pk).ok
    assert rebuild(story.run.pk).differences == []


@pytest.mark.spec("O3", "K1")
def test_a_stopped_run_asks_too_and_keeping_changes_nothing(story: Story) -> None:
    story.begin()
    assert story.stop() == "gate:rollback_choice"
    assert (story.run.status, story.run.waiting_on) == ("interrupted", "rollback_choice")
    left = look(story.folder)
    assert story.say("keep") == "ended"
    assert look(story.folder) == left
    assert not story.facts("CompensationIntended")
    assert "rollback" not in story.report


@pytest.mark.spec("O3", "Q7")
def test_time_keeps_and_never_rolls_back(story: Story) -> None:
    story.begin()
    story.stop()
    left = look(story.folder)
    gate = story.gate()
    Gate.objects.filter(pk=gate.pk).update(expires_at=gate.opened_at)
    assert expire_due() == 1
    assert Decision.objects.get(gate=gate).verdict == "expire"
    assert story.drive() == "ended"
    assert look(story.folder) == left
    assert not story.facts("CompensationIntended", "RollbackEnded")


@pytest.mark.spec("O3", "K2")
def test_continuing_goes_on_and_a_later_end_undoes_the_whole_run(story: Story) -> None:
    story.begin()
    story.fail()
    assert story.say("continue") == "gate:rollback_choice"  # the model refuses again
    assert story.run.status == "failed"
    assert story.say("roll_back") == "ended"
    assert look(story.folder) == story.was


@pytest.mark.spec("O2", "O3")
@pytest.mark.parametrize("touched", ["a.txt", "by_command", "old/f.txt", None])
def test_what_somebody_changed_since_stays_and_is_named(story: Story, touched: str | None) -> None:
    """``None`` is the control: untouched, the same files are put back."""
    story.begin()
    story.fail()
    if touched:
        (story.folder / touched).parent.mkdir(exist_ok=True)
        (story.folder / touched).write_text("theirs\n")
    story.say("roll_back")
    now = look(story.folder)
    if touched is None:
        assert now == story.was
        return
    assert now.pop(touched)[0] == b"theirs\n"
    assert now.items() <= story.was.items() | {("old", "folder")}
    assert set(story.was) - set(now) <= {touched, "old/link"}
    left = story.report["rollback"]["not_undone"]
    assert {path for one in left for path in one["paths"]} >= {touched}
    assert any("somebody else" in one["why"] for one in left)


@pytest.mark.spec("O2")
def test_a_change_from_outside_is_seen_before_it_is_ordered(story: Story) -> None:
    story.begin()
    story.stop()
    shown = preview(story.run)
    (story.folder / "a.txt").write_text("theirs\n")
    with pytest.raises(NotPossible, match="changed since"):
        roll_back_run(actor=story.boss, run=story.run, digest=shown.digest)
    again = preview(story.run)
    assert [one["path"] for one in again.view["files"] if one["why_not"]] == ["a.txt"]
    roll_back_run(actor=story.boss, run=story.run, digest=again.digest)
    first = story.gate()
    assert story.drive() == "gate:rollback_choice"  # about what is left
    first.refresh_from_db()
    assert first.status == "void"
    assert "somebody else" in story.gate().reasons[0]
    assert (story.folder / "a.txt").read_text() == "theirs\n"
    assert (story.folder / "d.txt").exists()


@pytest.mark.spec("O2")
def test_a_failing_compensation_is_named_and_tried_again_when_a_person_asks_again(story: Story) -> None:
    story.begin()
    story.stop()
    (story.folder / "d.txt").mkdir()  # where the deleted file was
    story.say("roll_back")
    was = {name: what for name, what in story.was.items() if name != "d.txt"}
    assert {name: what for name, what in look(story.folder).items() if name != "d.txt"} == was
    outcomes = {fact.outcome for fact in story.facts("CompensationCompleted")}
    assert outcomes == {"undone", "failed"}
    (lost,) = story.report["rollback"]["not_undone"]
    assert lost["what"] == "delete_file d.txt"
    assert story.gate().title.startswith("Rolled back, except 1 folder.")
    assert "delete_file d.txt: " in story.gate().reasons[0]
    (story.folder / "d.txt").rmdir()
    roll_back_run(actor=story.boss, run=story.run, digest=preview(story.run).digest)
    assert story.drive() == "ended"
    assert look(story.folder) == story.was
    keys = [fact.idempotency_key for fact in story.facts("CompensationIntended") if fact.undoes.startswith("c5")]
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert story.report["rollback"]["not_undone"] == []
    with pytest.raises(NotPossible, match="nothing that could be undone"):
        preview(story.run)


@pytest.mark.spec("O2", "J4")
def test_lost_at_every_commit_of_a_rollback_it_still_undoes_each_effect_once(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after each commit, so with the effect in the world and not in the journal too."""
    story.begin()
    story.fail()
    gate = story.gate()
    decide(actor=story.boss, gate_id=gate.pk, verdict="roll_back", digest=gate.digest)
    losses = lose_at_every_commit(monkeypatch, "CompensationIntended", "CompensationCompleted", "RollbackEnded")
    while True:
        try:
            assert story.drive() == "ended"
            break
        except Lost:
            Run.objects.filter(pk=story.run.pk).update(lease_until=None)
    assert len(losses) >= 4 * len(WORK)
    assert look(story.folder) == story.was
    done = story.facts("CompensationCompleted")
    assert [fact.undoes for fact in done] == [fact.call_id for fact in story.facts("ToolCompleted")][::-1]
    assert {fact.outcome for fact in done} == {"undone"}
    for undoes in {fact.undoes for fact in done}:
        intents = [fact for fact in story.facts("CompensationIntended") if fact.undoes == undoes]
        assert len({fact.idempotency_key for fact in intents}) == 1
        assert [fact.attempt for fact in intents] == list(range(1, len(intents) + 1))
    assert chain.verify(story.run.pk).ok


class Lost(BaseException):
    """The worker is gone at this point: nothing it would still have written is."""


def lose_at_every_commit(monkeypatch: pytest.MonkeyPatch, *kinds: str) -> set[tuple[str, str]]:
    """Each commit with one of these facts is lost once before and once after it is made."""
    lost: set[tuple[str, str]] = set()
    append = journal.PgJournal.append

    def losing(self: journal.PgJournal, entries: Any, within: Any = ()) -> None:
        names = [f"{type(fact).__name__} {getattr(fact, 'undoes', '')}" for fact, _ in entries]
        concerned = [name for name in names if name.split(" ")[0] in kinds]
        for when in ("before", "after"):
            if when == "after":
                append(self, entries, within)
            if concerned and (concerned[0], when) not in lost:
                lost.add((concerned[0], when))
                raise Lost

    monkeypatch.setattr(journal.PgJournal, "append", losing)
    return lost


@pytest.mark.spec("O3", "S4")
@pytest.mark.parametrize(("role", "may"), [("viewer", False), ("operator", True), ("reviewer", True), ("admin", True)])
def test_who_may_answer_and_who_may_order(story: Story, role: str, may: bool) -> None:
    person = make.user(**{role: story.project})
    story.begin()
    story.stop()
    gate = story.gate()
    assert (gate in Gate.objects.waiting_for(person)) is may
    if not may:
        with pytest.raises(DecisionRefused):
            decide(actor=person, gate_id=gate.pk, verdict="roll_back", digest=gate.digest)
        assert not Decision.objects.filter(gate=gate).exists()
    shown = preview(story.run)
    if role in ("operator", "admin"):
        assert roll_back_run(actor=person, run=story.run, digest=shown.digest).kind == "rollback"
    else:
        with pytest.raises(NotAllowed):
            roll_back_run(actor=person, run=story.run, digest=shown.digest)
    if may and role != "operator":
        decide(actor=person, gate_id=gate.pk, verdict="keep", digest=gate.digest)


@pytest.mark.spec("O1")
def test_what_is_too_large_to_keep_is_asked_as_irreversible_before_it_runs(story: Story) -> None:
    (story.origin / "a.txt").write_bytes(b"x" * (5 << 20))
    story.calls([("move_file", {"path": "a.txt", "target": "z.txt"})])
    assert story.drive() == "gate:irreversible_action"
    gate = Gate.objects.get(run=story.run, status="open")
    assert "cannot be undone" in " ".join(gate.reasons)
    assert gate.view["reversibility"] == "IRREVERSIBLE"
    decide(actor=story.boss, gate_id=gate.pk, verdict="approve", digest=gate.digest, payload={"confirm": "move_file"})
    assert story.drive() == "gate:question"
    assert story.facts("ToolIntended")[0].reversibility == "IRREVERSIBLE"
    story.fail()
    gate = story.gate()
    assert [(one["path"], one["what"], one["why_not"]) for one in gate.view["files"]] == [
        ("a.txt", "make again", ""),
        ("z.txt", "remove", ""),
    ], "found in the folder, whatever the call recorded of it"
    assert "not kept" in gate.view["others"][0]["why_not"]
    story.say("roll_back")
    assert look(story.folder) == look(story.origin), "moved back: what nobody kept is never deleted"
    (left,) = story.report["rollback"]["not_undone"]
    assert left["what"] == "move_file a.txt"
    assert story.gate().recommended == "keep"
    assert story.say("keep") == "ended"


@pytest.mark.spec("O1")
def test_a_small_file_is_no_such_question(story: Story) -> None:
    story.begin([("write_file", {"path": "a.txt", "content": "small\n"})])
    assert not Gate.objects.filter(run=story.run, kind="irreversible_action").exists()
    (intent,) = story.facts("ToolIntended")
    assert intent.reversibility == "REVERSIBLE"


@pytest.mark.spec("O3")
def test_a_command_that_changed_nothing_is_nothing_to_ask_about(story: Story) -> None:
    story.begin([("run_command", {"command": "cat a.txt; ls -R > /dev/null"})])
    assert story.fail() == "ended"
    assert not Gate.objects.filter(run=story.run, kind="rollback_choice").exists()


@pytest.mark.spec("O3", "K3")
def test_the_journal_tells_the_workspace_after_any_step(story: Story, tmp_path: Path) -> None:
    story.begin()
    run = story.run
    start = states_at(run, 1)
    assert start is not None
    (tmp_path / "start").mkdir()
    assert fill(tmp_path / "start", start)
    assert look(tmp_path / "start") == story.was
    now = states_at(run, Run.objects.get(pk=run.pk).head_seq)
    assert now is not None
    (tmp_path / "now").mkdir()
    assert fill(tmp_path / "now", now)
    assert look(tmp_path / "now") == look(story.folder)


@pytest.mark.spec("O3")
def test_a_committed_run_is_not_undone(story: Story) -> None:
    story.begin()
    Run.objects.filter(pk=story.run.pk).update(status="completed")
    story.run.refresh_from_db()
    with pytest.raises(NotPossible, match="completed"):
        preview(story.run)


@pytest.mark.spec("O2", "K1")
def test_a_command_that_was_stopped_in_the_middle_is_undone_as_far_as_it_came(story: Story) -> None:
    story.calls([("run_command", {"command": "echo x > made; rm d.txt; sleep 60; echo y > late"})])
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work_on, str(story.run.pk))
        wait_until(lambda: story.workspace_has("made"), "the command to begin")
        steering.stop_run(actor=story.boss, run=story.run)
        assert working.result(PATIENCE_S) == "gate:rollback_choice"
    story.run.refresh_from_db()
    assert {one["path"] for one in story.gate().view["files"]} == {"made", "d.txt"}
    story.say("roll_back")
    assert look(story.folder) == story.was


@pytest.mark.spec("O2", "J2")
def test_a_command_whose_worker_was_lost_is_undone_too(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    story.calls([("run_command", {"command": "echo x > made; rm d.txt"})])
    with monkeypatch.context() as losing:
        lose_at_every_commit(losing, "ToolCompleted")
        with pytest.raises(Lost):
            story.drive()
    Run.objects.filter(pk=story.run.pk).update(lease_until=None)
    assert story.drive() == "gate:in_doubt"
    (learnt,) = story.facts("UndoLearnt")
    assert {one["path"] for one in learnt.compensation.arguments["files"]} == {"made", "d.txt"}
    assert story.stop() == "gate:rollback_choice"
    story.say("roll_back")
    assert look(story.folder) == story.was


@pytest.mark.spec("O3")
def test_the_demonstration_shows_it(story: Story) -> None:
    submission = next(one for one in submit_all(story.boss) if one.run.agent.name == "Gives up half-way")
    story.run = submission.run
    assert story.drive() == "gate:rollback_choice"
    gate = story.gate()
    assert gate.title == "Failed. Roll back 4 changed files, keep them, or continue?"
    assert gate.view["choices"] == ["roll_back", "keep", "continue"]
    story.say("roll_back")
    assert (story.folder / "invoices/printing.py").exists()
    assert not (story.folder / "invoices/paper").exists()
    assert not (story.folder / "NOTES.md").exists()
