"""A fork begins with the history of another run, executes nothing of it, and inherits no permission (SPEC K3)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext

from gates.models import Gate
from loops.engine import apply, prompts
from loops.engine import facts as f
from loops.engine.encoding import canonical
from loops.engine.forks.reducers import forked as as_forked
from loops.engine.state.lifecycle import Event, Phase
from loops.models import Checkpoint, Fact, Fork, ModelCall, Policy, ProvenanceRecord, Run, Step, ToolCallRecord
from loops.runs import forks as runs_forks
from loops.services.access import NotAllowed
from loops.services.forks import ForkConflict, fork_run, point_of
from loops.services.submission import InvalidTask
from loops.storage import chain, journal, reader
from loops.storage.rebuild import rebuild
from loops.workspaces.folder_copy import WorkspaceElsewhere
from tests import factories as make
from tests import fakes
from tests.integration.services.world import closing_connections
from tests.integration.storage import forks, owned
from tests.integration.storage.forks import Ledger, forked
from tests.integration.storage.test_tampering import tampered

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("K3")]


@pytest.fixture(autouse=True)
def folders(settings: Any, tmp_path: Path) -> Path:
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    return tmp_path


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def parent(folders: Path, ledger: Ledger) -> owned.Owned:
    """Four steps, the fourth of which handed in the result; committed."""
    mine = forks.parent_in(folders / "parent")
    turns = [fakes.says(f"step {number}", ("act", {"at": number})) for number in (1, 2, 3)]
    assert mine.drive([*turns, fakes.done("all done")], ledger.tools()) == "ended"
    return mine


@pytest.fixture
def waiting(folders: Path, ledger: Ledger) -> owned.Owned:
    """One step done, and in the second a payment that waits for its approval."""
    mine = forks.parent_in(folders / "parent")
    answers = [fakes.says("one", ("act", {"at": 1})), fakes.says("two", ("pay", {"at": 2}))]
    assert mine.drive(answers, ledger.tools("pay")) == "gate:tool_approval"
    return mine


def reads(run: Run) -> str:
    """The conversation as the model of the run gets it."""
    return canonical.encode(reader.conversation(run.pk)).decode()


class TestHistory:
    def test_is_reused_and_nothing_of_it_executed(self, parent: owned.Owned, ledger: Ledger) -> None:
        before = ledger.of(parent.run)
        mine = forked(parent, step=2, message="Look twice")
        assert (ledger.of(parent.run), ledger.of(mine.run)) == (before, {})

        why = mine.drive([fakes.says("on", ("look", {"at": 9})), fakes.done("otherwise")], ledger.tools())
        mine.run.refresh_from_db()
        assert (why, mine.run.status) == ("ended", "completed")
        assert (ledger.of(parent.run), ledger.of(mine.run)) == (before, {"look 9": 1})
        assert [step.step_number for step in Step.objects.filter(execution=mine.run)] == [1, 2, 3, 4]
        assert "Look twice" in reads(mine.run)

    def test_is_whole_by_itself_the_others_bytes_under_a_chain_of_its_own(self, parent: owned.Owned) -> None:
        mine = forked(parent, step=2)
        facts = Fact.objects.filter(seq__range=(2, mine.run.fork.seq)).order_by("seq")
        theirs, ours = (
            [(bytes(body), bytes(hash)) for body, hash in facts.filter(run=run).values_list("body", "hash")]
            for run in (parent.run, mine.run)
        )
        assert [body for body, _ in ours] == [body for body, _ in theirs]
        assert not {hash for _, hash in ours} & {hash for _, hash in theirs}
        assert chain.verify(mine.run.pk).problems == []
        first, *_, last = reader.history(mine.run.pk)
        assert isinstance(first, f.RunStarted)
        assert isinstance(last, f.Forked)
        assert first.forked_from == f.Origin(str(parent.run.pk), last.seq, 2, theirs[-1][1].hex())
        assert first.spec.run_id == str(mine.run.pk)

    def test_rows_are_those_of_the_facts(self, parent: owned.Owned, ledger: Ledger) -> None:
        mine = forked(parent, step=3)
        assert rebuild(mine.run.pk).differences == []
        mine.drive([fakes.says("on", ("look", {})), fakes.done()], ledger.tools())
        assert rebuild(mine.run.pk).differences == []
        assert chain.verify(mine.run.pk).problems == []

    def test_resumes_like_any_other(self, parent: owned.Owned) -> None:
        mine = forked(parent, step=2, message="Go on")
        loaded = journal.load(mine.run.pk)
        assert loaded is not None
        assert loaded.state == mine.state
        assert Checkpoint.objects.filter(run=mine.run).exists()

    @pytest.mark.spec("J4")
    def test_a_beginning_that_was_interrupted_is_completed(
        self, parent: owned.Owned, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(runs_forks, "BATCH", 5)
        parent.run.refresh_from_db()
        run = fork_run(actor=parent.run.task.created_by, run=parent.run, step=3, message="hello").run
        first = owned.own(run)
        append, calls = first.journal.append, iter(range(2))

        def dies(*args: Any) -> None:
            if next(calls, None) is None:
                raise ZeroDivisionError
            append(*args)

        monkeypatch.setattr(first.journal, "append", dies)
        fork = runs_forks.fork_of(run)
        assert fork is not None
        with pytest.raises(ZeroDivisionError):
            runs_forks.take_over(run, fork, first.journal)
        half = journal.load(run.pk)
        assert half is not None
        assert (half.state.seq, half.state.reusing) == (10, str(parent.run.pk))
        owned.lapse(run)

        mine = forks.begin(run)
        whole = forked(parent, step=3, message="hello")
        assert chain.verify(run.pk).problems == []
        assert rebuild(run.pk).differences == []
        assert mine.run.head_seq == whole.run.head_seq
        assert mine.state is not None
        assert not mine.state.reusing

    def test_costs_the_asker_the_same_however_long_it_is(self, parent: owned.Owned, folders: Path) -> None:
        long = forks.parent_in(folders / "long")
        turns = [fakes.says(f"step {number}", ("act", {"at": number})) for number in range(120)]
        long.drive([*turns, fakes.done()], Ledger().tools())
        counts = []
        for mine in (parent, long):
            mine.run.refresh_from_db()
            with CaptureQueriesContext(connection) as queries:
                fork_run(actor=mine.run.task.created_by, run=mine.run, step=3)
            counts.append(len(queries))
        assert counts[0] == counts[1] <= 32

    @pytest.mark.spec("U3")
    def test_what_was_taken_over_reads_as_it_did_there(self, folders: Path, ledger: Ledger) -> None:
        older = prompts.of_journal({"goal": "# Older words\n{{goal}}\n"})
        mine = forks.parent_in(folders / "parent", wording=older.contents())
        assert mine.drive([fakes.says("look", ("look", {})), fakes.done()], ledger.tools()) == "ended"
        ours = forked(mine)
        taken = reader.conversation(ours.run.pk)
        assert len(taken) > 2
        assert "# Older words" in str(taken[1])
        assert taken == reader.conversation(mine.run.pk)[: len(taken)]
        (first,) = reader.history(ours.run.pk, until=1)
        assert isinstance(first, f.RunStarted)
        assert first.prompts["goal"] == older.templates["goal"].sha256
        assert first.prompts["no_tool_call"] == prompts.TODAY.templates["no_tool_call"].sha256


class TestPermission:
    @pytest.mark.spec("Q5")
    def test_an_open_gate_is_not_copied_and_the_call_is_asked_for_anew(
        self, waiting: owned.Owned, ledger: Ledger
    ) -> None:
        mine = forked(waiting)
        assert not Gate.objects.filter(run=mine.run).exists()
        call = ToolCallRecord.objects.get(run=mine.run, tool="pay")
        assert (call.state, call.gate_id) == ("PROPOSED", None)

        assert mine.drive([], ledger.tools("pay")) == "gate:tool_approval"
        theirs, ours = (Gate.objects.get(run=run, status="open") for run in (waiting.run, mine.run))
        assert (theirs.digest != ours.digest, theirs.pk != ours.pk) == (True, True)

        forks.approve(mine.run)
        assert mine.drive([fakes.done()], ledger.tools("pay")) == "ended"
        assert ledger.of(mine.run) == {"pay 2": 1}
        assert ledger.of(waiting.run) == {"act 1": 1}
        theirs.refresh_from_db()
        assert theirs.status == "open"

    @pytest.mark.spec("Q5")
    def test_an_approval_that_was_not_used_authorises_nothing(self, waiting: owned.Owned, ledger: Ledger) -> None:
        approved = approved_in(waiting)
        mine = forked(waiting)
        assert mine.drive([], ledger.tools("pay")) == "gate:tool_approval"
        assert ledger.of(mine.run) == {}
        approved.refresh_from_db()
        assert (approved.status, approved.consumed_at) == ("approved", None)

    @pytest.mark.spec("Q5")
    def test_control_without_the_rule_it_would_have_been_used(
        self, waiting: owned.Owned, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Negative control: the fork is stopped by the engine's rule, not by luck."""

        def keeping(state: Any, fact: f.Forked) -> Any:
            return replace(as_forked(state, fact), calls=state.calls)

        approved = approved_in(waiting)
        monkeypatch.setitem(apply.HANDLERS, f.Forked, (keeping,))
        mine = forked(waiting)
        assert mine.drive([fakes.done()], ledger.tools("pay")) == "ended"
        assert ledger.of(mine.run) == {"pay 2": 1}
        approved.refresh_from_db()
        assert approved.consumed_at is not None

    def test_a_call_that_was_approved_and_ran_is_history_and_the_next_one_asks(
        self, waiting: owned.Owned, ledger: Ledger
    ) -> None:
        forks.approve(waiting.run)
        assert waiting.drive([fakes.done()], ledger.tools("pay")) == "ended"
        mine = forked(waiting, step=2)
        again = [fakes.says("again", ("pay", {"at": 2}))]
        assert mine.drive(again, ledger.tools("pay")) == "gate:tool_approval"
        assert ledger.of(mine.run) == {}
        assert "pay: done" in reads(mine.run)

    def test_a_final_review_of_the_other_run_accepts_nothing_here(self, folders: Path, ledger: Ledger) -> None:
        mine = forks.parent_in(folders / "parent", final_review="always")
        mine.run.task.final_review = "always"
        mine.run.task.save(update_fields=["final_review"])
        assert mine.drive([fakes.done("good")], ledger.tools()) == "gate:final_review"
        forks.approve(mine.run)
        assert mine.drive([], ledger.tools()) == "ended"
        decided = Fact.objects.get(run=mine.run, kind="GateDecided")
        ours = forked(mine, seq=decided.seq)
        assert ours.drive([], ledger.tools()) == "gate:final_review"
        assert Gate.objects.get(run=ours.run).status == "open"

    @pytest.mark.spec("J2")
    def test_a_call_under_way_is_not_begun_again_and_the_model_is_told(self, folders: Path, ledger: Ledger) -> None:
        mine = forks.parent_in(folders / "parent")
        assert mine.drive([fakes.says("pay", ("pay", {"at": 1})), fakes.done()], ledger.tools()) == "ended"
        intent = Fact.objects.get(run=mine.run, kind="ToolIntended")
        ours = forked(mine, seq=intent.seq)
        assert ToolCallRecord.objects.get(run=ours.run).state == "ABORT"
        assert ours.drive([fakes.says("anew", ("pay", {"at": 1})), fakes.done()], ledger.tools()) == "ended"
        assert prompts.fill("call_before_fork") in reads(ours.run)
        assert ledger.of(ours.run) == {"pay 1": 1}
        assert len(set(ledger.keys)) == 2
        assert chain.verify(ours.run.pk).problems == []

    @pytest.mark.spec("J1")
    def test_the_same_call_has_another_key_in_a_fork(self, parent: owned.Owned, ledger: Ledger) -> None:
        keys = set(ledger.keys)
        mine = forked(parent, step=0)
        mine.drive([fakes.says("step 1", ("act", {"at": 1})), fakes.done()], ledger.tools())
        theirs, ours = (ToolCallRecord.objects.get(run=run, call_id="c1.0") for run in (parent.run, mine.run))
        assert (theirs.tool, theirs.arguments, theirs.call_id) == (ours.tool, ours.arguments, ours.call_id)
        assert ours.idempotency_key not in keys


class TestBudget:
    def test_what_the_other_run_paid_is_not_paid_again(self, parent: owned.Owned, ledger: Ledger) -> None:
        mine = forked(parent, step=3)
        assert (mine.run.total_cost_usd, mine.run.total_tokens) == (0, 0)
        assert ModelCall.objects.filter(run=mine.run).aggregate(all=Sum("cost_microusd"))["all"] == 0
        last = reader.history(mine.run.pk)[-1]
        assert isinstance(last, f.Forked)
        assert (last.tokens, last.cost_microusd) == (3 * 120, 3 * 50)
        step = Step.objects.get(execution=mine.run, step_number=3)
        assert step.action is not None
        assert (step.cost_usd, step.action["reused"]) == (0, {"tokens": 120, "cost_microusd": 50})

        mine.drive([fakes.done()], ledger.tools())
        mine.run.refresh_from_db()
        assert mine.run.total_cost_usd == Decimal("0.0001")  # 50 microdollars, rounded to the column
        assert mine.run.total_tokens == 120
        report = reader.report(mine.run.pk)
        assert report is not None
        assert (report["usage"]["steps"], report["usage"]["model_calls"]) == (1, 1)

    def test_limits_count_from_the_fork_on(self, parent: owned.Owned, ledger: Ledger) -> None:
        mine = forked(parent, step=3, limits={"max_steps": 1})
        assert mine.drive([fakes.says("on", ("look", {}))], ledger.tools()) == "gate:limit_reached"
        mine.run.refresh_from_db()
        assert (mine.run.total_steps, mine.run.max_steps) == (4, 4)

    def test_other_limits_model_and_instructions_hold_from_the_fork_on(self, parent: owned.Owned) -> None:
        other = make.model(name="other")
        Policy.objects.filter(project=parent.run.project_id).update(task_limits={"max_steps": 1000})
        mine = forked(
            parent, step=1, limits={"max_tokens": 77_000}, model=other.name, instructions="Speak like a sailor."
        )
        assert mine.state is not None
        assert (mine.state.limits.max_tokens, mine.state.limits.max_steps) == (77_000, 1000)
        assert mine.state.spec.model_for("actor") == "other"
        first, *_, last = reader.history(mine.run.pk)
        assert isinstance(first, f.RunStarted)
        assert isinstance(last, f.Forked)
        assert "Speak like a sailor." in first.system
        assert last.changed == ("model", "instructions", "limits")


class TestPoints:
    @pytest.mark.parametrize("step", [0, 1, 2, 3, 4, None])
    def test_every_step_of_an_ended_run_is_one(self, parent: owned.Owned, ledger: Ledger, step: int | None) -> None:
        mine = forked(parent, step=step, message="Once more")
        assert mine.state is not None
        assert (mine.state.step, mine.state.phase) == (4 if step is None else step, Phase.ACT)
        assert mine.drive([fakes.done("again")], ledger.tools()) == "ended"
        mine.run.refresh_from_db()
        assert mine.run.status == "completed"
        assert chain.verify(mine.run.pk).problems == []

    def test_a_result_is_checked_again_without_a_message(self, parent: owned.Owned, ledger: Ledger) -> None:
        mine = forked(parent)
        assert mine.drive([], ledger.tools()) == "ended"
        assert reader.report(mine.run.pk)["result"] == "all done"  # type: ignore[index]

    def test_every_fact_is_one(self, waiting: owned.Owned, ledger: Ledger) -> None:
        """Whatever the run was doing: it goes on, its chain is whole, and nothing of the other run is repeated."""
        forks.approve(waiting.run)
        assert waiting.drive([fakes.done()], ledger.tools("pay")) == "ended"
        before = ledger.of(waiting.run)
        waiting.run.refresh_from_db()
        for seq in range(1, waiting.run.head_seq + 1):
            mine = forked(waiting, seq=seq, message="On")
            assert mine.run.fork.seq <= seq
            why = mine.drive([fakes.done("again")], ledger.tools("pay"))
            if why == "gate:tool_approval":
                forks.approve(mine.run)
                why = mine.drive([fakes.done("again")], ledger.tools("pay"))
            assert why == "ended", seq
            assert chain.verify(mine.run.pk).problems == [], seq
            assert rebuild(mine.run.pk).differences == [], seq
        assert ledger.of(waiting.run) == before

    def test_a_stopped_run_is_forked_where_it_acted(self, folders: Path, ledger: Ledger) -> None:
        mine = forks.parent_in(folders / "parent")
        mine.drive([fakes.says("one", ("look", {})), fakes.says("", ("converse", {"message": "Yes?"}))], ledger.tools())
        mine.append(
            f.StopRequested(by="ana"),
            f.PhaseEntered(phase=Phase.HALT, event=Event.HALTED, came_from=Phase.ACT),
            f.RunEnded(phase=Phase.HALT, reason="operator_stop", report={}, report_kind="HaltRecord"),
        )
        ours = forked(mine, message="Go on")
        assert ours.state is not None
        assert (ours.state.phase, ours.state.stop_requested) == (Phase.ACT, False)
        assert ours.drive([fakes.done()], ledger.tools()) == "ended"

    @pytest.mark.parametrize("wish", [{"step": 5}, {"step": -1}, {"seq": 0}, {"seq": 10_000}])
    def test_what_is_no_point_is_refused(self, parent: owned.Owned, wish: dict[str, int]) -> None:
        parent.run.refresh_from_db()
        with pytest.raises(InvalidTask, match="no such point"):
            point_of(parent.run, **wish)

    def test_a_run_that_has_not_begun_has_none(self) -> None:
        with pytest.raises(InvalidTask, match="not begun"):
            point_of(owned.new_run())


class TestLineage:
    def test_a_fork_of_a_fork_names_both(self, parent: owned.Owned, ledger: Ledger) -> None:
        child = forked(parent, step=2, message="A")
        child.drive([fakes.says("mine", ("look", {"at": 3})), fakes.done()], ledger.tools())
        grandchild = forked(child, step=3, message="B")
        grandchild.drive([fakes.done("end")], ledger.tools())
        assert chain.verify().problems == []
        assert rebuild(grandchild.run.pk).differences == []
        body = canonical.decode(bytes(ProvenanceRecord.objects.get(run=grandchild.run).body))
        assert [(origin["run"], origin["step"]) for origin in body["forked_from"]] == [
            (str(child.run.pk), 3),
            (str(parent.run.pk), 2),
        ]
        own = canonical.decode(bytes(ProvenanceRecord.objects.get(run=parent.run).body))
        assert own["forked_from"] == []

    def test_a_fork_before_the_fork_leaves_it_out(self, parent: owned.Owned, ledger: Ledger) -> None:
        child = forked(parent, step=2, message="A")
        child.drive([fakes.done()], ledger.tools())
        grandchild = forked(child, step=1)
        assert [fact.run_id for fact in reader.history(grandchild.run.pk) if isinstance(fact, f.Forked)] == [
            str(child.run.pk)
        ]

    @pytest.mark.spec("N1")
    @pytest.mark.parametrize(
        ("statement", "named"),
        [
            ("UPDATE loops_fork SET head = '\\x00'", "another history"),
            ("UPDATE loops_fork SET parent_id = run_id", "another history"),
            ("UPDATE loops_fork SET seq = seq - 1", "another history"),
            (
                "DELETE FROM loops_fact WHERE seq = 4 AND run_id IN (SELECT parent_id FROM loops_fork)",
                "is not that of",
            ),
        ],
    )
    def test_a_forged_origin_is_found(self, parent: owned.Owned, statement: str, named: str) -> None:
        mine = forked(parent, step=2)
        with tampered(statement):
            assert named in "\n".join(chain.verify(mine.run.pk).problems)


class TestFolder:
    def test_is_a_copy_of_its_own_and_sure_when_nothing_ran_since(self, waiting: owned.Owned, folders: Path) -> None:
        mine = forked(waiting)
        mine.run.refresh_from_db()
        copy = Path(mine.run.workspace_path)
        (copy / "notes").write_text("two")
        assert (folders / "parent" / "notes").read_text() == "one"
        assert last_of(mine.run).workspace == ""

    def test_that_may_have_changed_since_is_said(self, parent: owned.Owned) -> None:
        assert last_of(forked(parent, step=1).run).workspace == runs_forks.NOT_KEPT

    def test_is_sure_when_only_reading_came_after(self, folders: Path) -> None:
        mine = forks.parent_in(folders / "parent")
        tools = fakes.Tools({"read_file": lambda arguments: "one"})
        mine.drive([fakes.says("a", ("read_file", {})), fakes.says("b", ("read_file", {})), fakes.done()], tools)
        assert last_of(forked(mine, step=1).run).workspace == ""

    def test_that_is_elsewhere_is_waited_for(self, parent: owned.Owned, folders: Path) -> None:
        (folders / "parent").rename(folders / "elsewhere")
        parent.run.refresh_from_db()
        run = fork_run(actor=parent.run.task.created_by, run=parent.run, step=1).run
        fork = runs_forks.fork_of(run)
        assert fork is not None
        with pytest.raises(WorkspaceElsewhere, match="is not on worker"):
            runs_forks.take_over(run, fork, owned.own(run).journal)
        assert not Fact.objects.filter(run=run).exists()


class TestAsking:
    def test_the_same_key_is_the_same_fork(self, parent: owned.Owned) -> None:
        parent.run.refresh_from_db()
        wish: dict[str, Any] = {"actor": parent.run.task.created_by, "run": parent.run, "idempotency_key": "k"}
        first, again = fork_run(step=1, **wish), fork_run(step=1, **wish)
        assert (first.created, again.created, again.run) == (True, False, first.run)
        with pytest.raises(ForkConflict):
            fork_run(step=2, **wish)

    def test_twelve_at_once_with_one_key_make_one_fork(self, parent: owned.Owned) -> None:
        parent.run.refresh_from_db()
        actor = parent.run.task.created_by
        ask = closing_connections(lambda _: fork_run(actor=actor, run=parent.run, step=1, idempotency_key="k"))
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(ask, range(12)))
        assert len({forking.run.pk for forking in found}) == sum(forking.created for forking in found) == 1
        assert Fork.objects.count() == 1

    @pytest.mark.parametrize("role", ["reviewer", "viewer", "nobody"])
    def test_who_may_not_operate_may_not_fork(self, parent: owned.Owned, role: str) -> None:
        parent.run.refresh_from_db()
        person = make.user(**({} if role == "nobody" else {role: parent.run.project}))
        with pytest.raises(NotAllowed):
            fork_run(actor=person, run=parent.run, step=1)
        assert not Fork.objects.exists()

    def test_an_agent_that_is_switched_off_begins_nothing(self, parent: owned.Owned) -> None:
        parent.run.agent.is_active = False
        parent.run.agent.save(update_fields=["is_active"])
        with pytest.raises(InvalidTask, match="switched off"):
            forked(parent, step=1)

    @pytest.mark.parametrize(
        ("wish", "field"),
        [
            ({"message": "x" * 20_001}, "message"),
            ({"message": "a\0b"}, "message"),
            ({"instructions": "\ud800"}, "instructions"),
            ({"model": "no-such-model"}, "model"),
            ({"limits": {"max_steps": 0}}, "limits.max_steps"),
            ({"limits": {"nonsense": 1}}, "limits.nonsense"),
        ],
    )
    def test_faults_are_named(self, parent: owned.Owned, wish: dict[str, Any], field: str) -> None:
        parent.run.refresh_from_db()
        with pytest.raises(InvalidTask) as caught:
            fork_run(actor=parent.run.task.created_by, run=parent.run, step=1, **wish)
        assert field in caught.value.errors


def approved_in(mine: owned.Owned) -> Gate:
    """The gate of the run, approved on record, its call not begun."""
    gate = forks.approve(mine.run)
    mine.append(f.GateDecided(gate=str(gate.pk), kind=gate.kind, verdict="approve", call_id=gate.call_id, by="ana"))
    gate.refresh_from_db()
    return gate


def last_of(run: Run) -> f.Forked:
    last = reader.history(run.pk)[-1]
    assert isinstance(last, f.Forked)
    return last
