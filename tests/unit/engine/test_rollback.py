"""Which compensations, in which order, and what is left: on a small world of files that Hypothesis makes up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.apply import ImpossibleFact, apply
from loops.engine.effects import AskRollback, Rest, RollBack
from loops.engine.rollback import plan as rb
from loops.engine.state.lifecycle import Phase
from loops.engine.values import Access, Compensation, ToolResult
from tests.fakes import Tools, World, done, says
from tests.unit.engine.effort import examples

pytestmark = pytest.mark.spec("O2")
PATHS = ("a", "b", "c", "d/e", "d/f")
World_ = dict[str, str]


def intended(call_id: str, compensation: Compensation | None, tool: str = "write_file", **more: Any) -> f.ToolIntended:
    return f.ToolIntended(
        call_id=call_id, tool=tool, arguments={"path": "x"}, idempotency_key=call_id, compensation=compensation, **more
    )


def completed(call_id: str, *, ok: bool = True, learnt: Compensation | None = None) -> f.ToolCompleted:
    return f.ToolCompleted(
        call_id=call_id, tool="t", result=ToolResult(ok=ok, content="", error="" if ok else "no"), compensation=learnt
    )


def change(path: str, before: str, after: str) -> rb.FileChange:
    return rb.FileChange(path, before, after)


def asserted(world: World_, compensation: Compensation) -> tuple[list[str], list[str]]:
    """restore_files on a world of paths and words: (restored, left)."""
    restored, left = [], []
    for one in reversed(rb.files(compensation)):
        now = world.get(one.path, "")
        if now == one.before:
            continue
        if now != one.after:
            left.append(one.path)
            continue
        restored.append(one.path)
        if one.before:
            world[one.path] = one.before
        else:
            world.pop(one.path, None)
    return restored, left


def undo(
    world: World_, history: list[f.Fact], crashes: Sequence[bool] = (), order: list[str] | None = None
) -> tuple[rb.Undo, ...]:
    """What the driver does; where ``crashes`` says so, the worker is lost after the effect and before its outcome."""
    lost = iter(crashes)
    while found := rb.next_undo(rb.ledger(history)):
        undos = rb.ledger(history)
        outcome, why = rb.obstacle(found, undos)
        left: list[str] = []
        if not outcome:
            compensation, held = rb.to_perform(found, undos)
            history.append(
                f.CompensationIntended(
                    undoes=found.id, tool="t", arguments={}, idempotency_key="", attempt=found.begun + 1
                )
            )
            if order is not None and not found.begun:
                order.append(found.id)
            restored, left = asserted(world, compensation)
            if next(lost, False):
                continue
            left += held
            outcome = ("partly" if restored else "failed") if left else "undone"
        history.append(
            f.CompensationCompleted(undoes=found.id, tool="t", outcome=outcome, message=why or "no", left=tuple(left))
        )
    return rb.ledger(history)


effects = st.lists(
    st.lists(
        st.tuples(st.sampled_from(PATHS), st.sampled_from(["", "1", "2", "3"])),
        min_size=1,
        max_size=3,
        unique_by=lambda write: write[0],
    ),
    min_size=1,
    max_size=8,
)


def happen(world: World_, made: list[list[tuple[str, str]]]) -> list[f.Fact]:
    """Effects one after the other, each recorded as the tools record it."""
    history: list[f.Fact] = []
    for number, writes in enumerate(made):
        changes = []
        for path, after in writes:
            changes.append(change(path, world.get(path, ""), after))
            if after:
                world[path] = after
            else:
                world.pop(path, None)
        history += [intended(f"c{number}.0", rb.restoring(changes)), completed(f"c{number}.0")]
    return history


@examples(usual=100, full=2000)
@given(effects, st.lists(st.booleans(), max_size=30))
def test_undoing_everything_gives_the_world_back_whatever_is_lost_in_between(
    made: list[list[tuple[str, str]]], crashes: list[bool]
) -> None:
    world: World_ = {"a": "0", "d/e": "0"}
    history, order = happen(world, made), []
    undos = undo(world, history, crashes, order)
    assert world == {"a": "0", "d/e": "0"} or any("lost" in one.why for one in undos)
    assert order == [f"c{number}.0" for number in reversed(range(len(made)))]


@examples(usual=100, full=2000)
@given(effects, st.sampled_from(PATHS))
def test_what_somebody_else_wrote_since_is_never_overwritten(made: list[list[tuple[str, str]]], path: str) -> None:
    world: World_ = {"a": "0", "d/e": "0"}
    history = happen(world, made)
    touched = {name for writes in made for name, _ in writes}
    world[path] = "theirs"
    undos = undo(world, history)
    assert world[path] == "theirs"
    expected = {"a": "0", "d/e": "0", path: "theirs"}
    assert world == expected
    if path in touched:
        assert {name for one in undos for name in one.left} == {path}


@examples(usual=100, full=2000)
@given(effects)
def test_the_shown_net_change_is_what_undoing_does(made: list[list[tuple[str, str]]]) -> None:
    world: World_ = {"a": "0", "d/e": "0"}
    history = happen(world, made)
    shown = {one.path: (one.after, one.before) for one in rb.net(rb.ledger(history))}
    now = dict(world)
    undo(world, history)
    paths = now.keys() | world.keys()
    really = {one: (now.get(one, ""), world.get(one, "")) for one in paths if now.get(one, "") != world.get(one, "")}
    assert shown == really


@examples(usual=100, full=2000)
@given(effects)
@pytest.mark.spec("K3", "O3")
def test_the_workspace_after_any_call_is_told_by_the_journal(made: list[list[tuple[str, str]]]) -> None:
    world: World_ = {"a": "0"}
    history = happen(world, made)
    assert rb.workspace_after({"a": "0"}, history) == world


def test_a_failed_compensation_holds_only_what_depends_on_it() -> None:
    history: list[f.Fact] = [
        intended("c1.0", rb.restoring([change("a", "0", "1")])),
        intended("c2.0", rb.restoring([change("b", "0", "1"), change("a", "1", "2")])),
        intended("c3.0", rb.restoring([change("a", "2", "3")])),
        f.CompensationCompleted(undoes="c3.0", tool="t", outcome="failed", message="disk full", left=("a",)),
    ]
    undos = rb.ledger(history)
    found = rb.next_undo(undos)
    assert found is not None
    assert rb.to_perform(found, undos) == (rb.restoring([change("b", "0", "1")]), ("a",))
    history.append(f.CompensationCompleted(undoes="c2.0", tool="t", outcome="partly", message="no", left=("a",)))
    undos = rb.ledger(history)
    assert rb.obstacle(undos[0], undos)[0] == "blocked"


@pytest.mark.parametrize(
    ("compensation", "ok", "outcome"),
    [
        (Compensation(why_not="too large"), True, "by_hand"),
        (Compensation(tool=rb.RESTORE, arguments={"snapshot": "5a"}), None, "by_hand"),
        (Compensation(tool="cancel", arguments={}), False, "nothing"),
        (Compensation(tool="cancel", arguments={}), True, ""),
    ],
)
def test_what_is_not_to_be_performed_says_why(compensation: Compensation, ok: bool | None, outcome: str) -> None:
    history: list[f.Fact] = [intended("c1.0", compensation)]
    if ok is not None:
        history.append(completed("c1.0", ok=ok))
    undos = rb.ledger(history)
    found, why = rb.obstacle(undos[0], undos)
    assert found == outcome
    assert bool(why) == bool(outcome)


def test_a_command_that_changed_nothing_is_no_effect() -> None:
    planned = Compensation(tool=rb.RESTORE, arguments={"snapshot": "5a"})
    history = [intended("c1.0", planned, "run_command"), completed("c1.0", learnt=rb.restoring([]))]
    assert rb.ledger(history) == ()


def test_a_call_begun_again_is_undone_once() -> None:
    first = rb.restoring([change("a", "0", "1")])
    history = [intended("c1.0", first), intended("c1.0", first, attempt=2), completed("c1.0")]
    assert [one.id for one in rb.ledger(history)] == ["c1.0"]


def test_asked_again_only_what_is_left_is_tried_again() -> None:
    history: list[f.Fact] = [
        *(intended(f"c{n}.0", rb.restoring([change(str(n), "0", "1")])) for n in (1, 2)),
        f.CompensationCompleted(undoes="c2.0", tool="t", outcome="undone"),
        f.CompensationCompleted(undoes="c1.0", tool="t", outcome="failed", message="disk full", left=("1",)),
    ]
    assert rb.next_undo(rb.ledger(history)) is None
    assert [one.id for one in rb.pending(rb.ledger([*history, f.RollbackRequested()]))] == ["c1.0"]
    decided = f.GateDecided(gate="g", kind="rollback_choice", verdict="roll_back")
    assert [one.id for one in rb.pending(rb.ledger([*history, decided]))] == ["c1.0"]


@pytest.mark.spec("K3")
def test_what_another_run_did_before_the_fork_is_not_undone_here() -> None:
    history: list[f.Fact] = [
        intended("c1.0", rb.restoring([change("a", "0", "1")])),
        f.Forked(run_id="r", seq=3, step=1),
        intended("c2.0", rb.restoring([change("b", "0", "1")])),
    ]
    assert [one.id for one in rb.ledger(history)] == ["c2.0"]


def test_the_key_is_stable_over_attempts_and_differs_from_call_to_call() -> None:
    undos = rb.ledger([intended(f"c{n}.0", rb.restoring([change("a", "0", "1")])) for n in (1, 2)])
    key = rb.idempotency_key("run", undos[0])
    assert key == rb.idempotency_key("run", undos[0])
    assert len({key, rb.idempotency_key("run", undos[1]), rb.idempotency_key("other", undos[0])}) == 3


# --- the run ----------------------------------------------------------------------------------------------------------


def failed_world(*orders: str, **limits: Any) -> World:
    """A run that placed these orders and then failed; each is undone by cancelling it, once."""
    book: list[str] = []

    def place(arguments: Any) -> str:
        book.append(f"+{arguments['id']}")
        return "placed"

    def cancel(arguments: Any) -> str:
        book.append(f"-{arguments['id']}")
        return "cancelled"

    tools = Tools({"place": place, "cancel": cancel})
    answers = [says("", ("place", {"id": name})) for name in orders]
    tools.undo["place"] = Compensation(tool="cancel", arguments={"id": "?"})
    world = World([*answers, says("", ("ask_question", {"question": "Go on?"}))], tools, limits=limits)
    world.book = book  # type: ignore[attr-defined]
    return world


@pytest.mark.spec("O3", "K1")
def test_a_stopped_run_that_did_something_asks_and_the_end_stays_the_end() -> None:
    world = failed_world("1")
    assert world.drive() == "gate:question"
    world.send("stop")
    assert world.drive() == "gate:rollback_choice"
    assert world.state.phase is Phase.HALT
    gate = world.gatekeeper.opened[-1]
    assert gate.view["choices"] == ["roll_back", "keep", "continue"]
    assert gate.recommended == "keep"
    assert world.gatekeeper.withdrawn == ["operator_stop"]


@pytest.mark.spec("O3")
@pytest.mark.parametrize(("verdict", "book"), [("keep", ["+1"]), ("expire", ["+1"]), ("roll_back", ["+1", "-?"])])
def test_each_verdict_does_what_it_says_and_time_keeps(verdict: str, book: list[str]) -> None:
    world = failed_world("1")
    world.drive()
    world.send("stop")
    world.drive()
    world.decide(verdict)
    assert world.drive() == "ended"
    assert world.book == book  # type: ignore[attr-defined]
    assert world.state.phase is Phase.HALT
    assert rb.is_settled(world.state)


@pytest.mark.spec("O3", "K2")
def test_continue_goes_on_where_it_was() -> None:
    world = failed_world("1")
    world.drive()
    world.send("stop")
    world.drive()
    world.decide("continue")
    assert world.drive() == "gate:question"
    world.decide("respond", answer="yes")
    world.models._next = lambda request: done()
    assert world.drive() == "ended"
    assert world.state.phase is Phase.COMMIT
    assert world.book == ["+1"]  # type: ignore[attr-defined]


def test_a_resume_without_an_answer_withdraws_the_question() -> None:
    world = failed_world("1")
    world.drive()
    world.send("stop")
    world.drive()
    world.send("resume")
    assert world.drive() == "gate:question"
    assert "somebody acted without answering" in world.gatekeeper.withdrawn
    assert "Continue" not in world.journal.kinds()


def test_a_resume_after_a_rollback_tells_the_model() -> None:
    world = failed_world("1")
    world.drive()
    world.send("stop")
    world.drive()
    world.decide("roll_back")
    world.drive()
    world.send("resume")
    world.drive()
    assert [fact.reason for fact in world.journal.of(f.Reminded)] == ["rolled_back"]


@pytest.mark.spec("A5", "E7")
def test_the_report_says_what_was_undone_and_by_whose_order() -> None:
    world = failed_world("1", "2")
    world.drive()
    world.send("stop")
    world.drive()
    world.send("rollback", by="bo")
    assert world.drive() == "ended"
    first, last = world.journal.of(f.RunEnded)
    assert (first.amends, last.amends) == (False, True)
    assert last.report["kind"] == "HaltRecord"
    assert last.report["rollback"] == {
        "outcome": "undone",
        "by": "bo",
        "undone": ["place", "place"],
        "not_undone": [],
    }
    assert world.book == ["+1", "+2", "-?", "-?"]  # type: ignore[attr-defined]


def test_a_failing_compensation_is_recorded_and_the_others_go_on() -> None:
    world = failed_world("1", "2", "3")
    world.drive()
    world.send("stop")
    world.drive()
    cancelled: list[str] = []

    def cancel(arguments: Any) -> ToolResult:
        cancelled.append("x")
        return ToolResult(ok=len(cancelled) != 2, content="", error="the shop is closed" if len(cancelled) == 2 else "")

    world.tools.functions["cancel"] = cancel
    world.decide("roll_back")
    world.drive()
    outcomes = [(fact.undoes, fact.outcome) for fact in world.journal.of(f.CompensationCompleted)]
    assert outcomes == [("c3.0", "undone"), ("c2.0", "failed"), ("c1.0", "undone")]
    left = world.journal.of(f.RunEnded)[-1].report["rollback"]["not_undone"]
    assert left == [{"what": "place", "why": "the shop is closed", "paths": []}]
    assert world.journal.of(f.RollbackEnded)[-1].left == 1


def test_a_compensation_that_may_have_happened_is_not_made_again() -> None:
    world = failed_world("1")
    world.drive()
    world.send("stop")
    world.drive()
    world.decide("roll_back")

    def lost(arguments: Any) -> str:
        world.journal.lost = True
        return "cancelled"

    world.tools.functions["cancel"] = lost
    assert world.drive() == "lost"
    world.journal.lost = False
    world.tools.functions["cancel"] = lambda arguments: pytest.fail("made twice")
    world.drive()
    (came,) = world.journal.of(f.CompensationCompleted)
    assert (came.outcome, "nobody can say" in came.message) == ("failed", True)


def test_what_a_committed_run_did_is_its_result() -> None:
    world = failed_world("1")
    answers = iter([says("", ("place", {"id": "1"})), done()])
    world.models._next = lambda request: next(answers)
    assert world.drive() == "ended"
    assert world.state.phase is Phase.COMMIT
    world.send("rollback")
    assert world.drive() == "ended"
    assert not world.journal.of(f.RollbackRequested)


def test_after_the_end_nothing_but_the_undoing_happens() -> None:
    world = failed_world("1")
    world.drive()
    world.send("stop")
    world.drive()
    state = world.state
    with pytest.raises(ImpossibleFact):
        apply(state, f.CompensationIntended(undoes="c1.0", tool="t", arguments={}, idempotency_key=""))
    with pytest.raises(ImpossibleFact):
        apply(state, f.ToolIntended(call_id="c1.0", tool="t", arguments={}, idempotency_key=""))
    world.decide("keep")
    world.drive()
    with pytest.raises(ImpossibleFact):
        apply(world.state, f.GateOpened(gate="g", kind="question", title="?"))


def test_a_run_that_did_nothing_asks_nothing() -> None:
    world = World([says("", ("look", {})), says("", ("ask_question", {"question": "?"}))])
    world.drive()
    world.send("stop")
    assert world.drive() == "ended"


def test_the_next_effect_of_an_ended_run_follows_from_two_fields() -> None:
    world = failed_world("1")
    world.drive()
    state = replace(world.state, gate=None, phase=Phase.HALT)
    assert isinstance(rb.after_the_end(state), AskRollback)
    assert isinstance(rb.after_the_end(replace(state, rollback="wanted")), RollBack)
    assert rb.after_the_end(replace(state, rollback="settled")) == Rest("ended")
    assert rb.after_the_end(replace(state, phase=Phase.COMMIT)) == Rest("ended")


async def shows_a_file(call: Any, context: Any) -> p.Judgement:
    view = {"files": [{"path": "a", "what": "change back", "folder": False, "why_not": ""}]}
    return p.Judgement(call.id, Access.ALLOW, view=view)


def test_a_compensation_that_says_nothing_of_what_it_left_holds_all_its_paths() -> None:
    world = failed_world("1", "2")
    shared = [change("a", "0", "1")]
    world.tools.undo["place"] = rb.restoring(shared)
    world.tools.functions[rb.RESTORE] = lambda arguments: ToolResult(ok=False, content="", error="disk full")
    world.drive()
    world.tools.judge = shows_a_file  # type: ignore[method-assign]
    world.send("stop")
    world.drive()
    world.decide("roll_back")
    world.drive()
    came = [(fact.undoes, fact.outcome, fact.left) for fact in world.journal.of(f.CompensationCompleted)]
    assert came == [("c2.0", "failed", ("a",)), ("c1.0", "blocked", ("a",))]


@pytest.mark.spec("O2", "X5")
def test_what_is_left_is_counted_where_not_all_of_it_is_named() -> None:
    world = failed_world(*map(str, range(23)), max_steps=99)
    world.tools.functions["cancel"] = lambda arguments: ToolResult(ok=False, content="", error="closed")
    world.drive()
    world.send("stop")
    world.drive()
    world.decide("roll_back")
    assert world.drive() == "gate:rollback_choice"
    reasons = world.gatekeeper.opened[-1].reasons
    assert reasons[:-1] == ("place: closed",) * 20
    assert reasons[-1] == "3 more could not be undone: they are below, and on the page Roll back"


@pytest.mark.spec("O2", "Q1")
def test_what_is_left_is_asked_about_until_a_person_has_seen_it() -> None:
    world = failed_world("1")
    world.tools.functions["cancel"] = lambda arguments: ToolResult(ok=False, content="", error="closed")
    world.drive()
    world.send("stop")
    world.drive()
    world.decide("roll_back")
    assert world.drive() == "gate:rollback_choice"
    assert world.gatekeeper.opened[-1].reasons == ("place: closed",)
    assert world.gatekeeper.opened[-1].view["again"]
    world.decide("keep")
    assert world.drive() == "ended"
