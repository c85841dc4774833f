"""How a circle is broken: rung by rung, on record, and at last by a person (SPEC F3)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from loops.engine import facts as f
from loops.engine.effects import OpenGate
from loops.engine.encoding.fingerprints import mark, result_mark
from loops.engine.loop_detection import guard
from loops.engine.ports import Signal
from loops.engine.state.loop_escalation import LEFT_AFTER, EscalationStep, LoopEscalation
from loops.engine.state.measures import StepSeen
from loops.engine.state.run import PendingCall
from loops.engine.state.step_window import Seen
from loops.engine.state.thresholds import OFF
from loops.engine.values import Compensation, ModelRole, ToolCall, ToolResult
from tests.fakes import Tools, World, done, says

pytestmark = pytest.mark.spec("F3")
LOOK = ("look", {"at": "it"})
FREE = {"max_failures": 99, "max_steps": 99, "reflect_after": 0, "max_attempts": 99}
"""What others would do about failures is not looked at here."""


def stubborn(request: Any) -> Any:
    return says("", LOOK)


def world(models: Any = stubborn, tools: Tools | None = None, **more: Any) -> World:
    return World(models, tools, **{"limits": FREE, **more})


def tell(run: World, payload: dict[str, Any]) -> None:
    """As the monitor does."""
    run.journal.inbox.append(Signal(f"m{len(run.journal.inbox)}", "detected", payload, ""))


def rungs(run: World) -> list[tuple[str, bool]]:
    return [(fact.rung, bool(fact.skipped)) for fact in run.journal.of(f.LoopBroken)]


def test_every_rung_is_tried_in_its_order_before_a_person_is_asked() -> None:
    run = world()
    assert run.drive() == "gate:loop_detected"
    assert rungs(run) == [(rung.value, rung is EscalationStep.ANOTHER_MODEL) for rung in EscalationStep]
    assert run.journal.of(f.LoopDetected)[0].steps == (1, 2, 3)
    assert run.journal.of(f.LoopDetected)[0].method == "repeated_result"
    gate = run.gatekeeper.opened[-1]
    assert gate.kind == "loop_detected"
    assert gate.view["steps"]


def test_the_model_is_told_something_else_on_every_rung() -> None:
    run = world()
    run.drive()
    told = [fact.text for fact in run.journal.of(f.Reminded) if fact.reason == "loop"]
    assert len(set(told)) == len(told) == 3
    read = str(run.models.requests[-1].messages)
    assert all(text[:40] in read for text in told)


@pytest.mark.parametrize(("since", "counts"), [(1, False), (2, True)])
def test_what_was_told_gets_two_steps_to_help(since: int, counts: bool) -> None:
    circle = LoopEscalation(rung=1, broken_at=3, steps=(1, 2, 3))
    again = tuple(Seen(step, action=mark("read a"), outcome=result_mark("alpha")) for step in range(1, 4 + since))
    state = replace(world().state, recent=again, circle=circle, step=3 + since)
    assert (guard.look(state) is not None) is counts


def test_the_call_that_went_in_circles_is_refused() -> None:
    run = world()
    run.drive()
    assert len(run.tools.ran) == 3
    assert {fact.why for fact in run.journal.of(f.ToolRefused)} == {"circle"}


def test_another_call_is_not_refused() -> None:
    answers = [says("", LOOK)] * 3 + [says("", ("look", {"at": "else"})), done()]
    run = world(answers)
    assert run.drive() == "ended"
    assert len(run.tools.ran) == 4
    assert run.journal.of(f.ToolRefused) == []


def test_after_a_change_it_may_be_tried_again() -> None:
    tools = Tools({"look": lambda a: "seen", "write": lambda a: "written"})
    tools.undo["write"] = Compensation(tool="write", arguments={})
    answers = [says("", LOOK)] * 3 + [says("", ("write", {"x": 1})), says("", LOOK), done()]
    run = world(answers, tools)
    assert run.drive() == "ended"
    assert [call.name for call in tools.ran] == ["look"] * 3 + ["write", "look"]


def test_a_configured_fallback_takes_over_on_its_rung() -> None:
    run = world()
    start = run.journal.facts[0]
    run.journal.facts[0] = replace(start, spec=replace(start.spec, models={"actor": "big", "fallback": "other"}))
    assert run.drive() == "gate:loop_detected"
    assert rungs(run)[-1] == (EscalationStep.ANOTHER_MODEL.value, False)
    asked = [fact.model for fact in run.journal.of(f.ModelRequested)]
    assert asked[0] == "big"
    assert asked[-1] == "other"
    assert run.journal.of(f.ModelRequested)[-1].role is ModelRole.FALLBACK


def test_a_circle_that_was_left_starts_the_ladder_anew() -> None:
    elsewhere = [says("", ("look", {"at": n})) for n in range(LEFT_AFTER + 1)]
    tools = Tools({"look": lambda a: f"seen {a['at']} " * 5})
    run = world([says("", LOOK)] * 3 + elsewhere + [says("", LOOK)] * 3 + [done()], tools)
    assert run.drive() == "ended"
    assert rungs(run) == [(EscalationStep.ANOTHER_APPROACH.value, False)] * 2


def test_progress_takes_a_run_off_the_ladder() -> None:
    passed = iter([1, 1, 1, 2, 2, 2, 2])
    results: Callable[[Any], ToolResult] = lambda a: ToolResult(  # noqa: E731
        ok=True, content="same", data={"passed": next(passed), "failed": 2}
    )
    tools = Tools({"test": results, "look": lambda a: "seen"})
    turns = [says("", ("test", {}))] * 3 + [says("", ("test", {"all": True}))] + [says("", LOOK)] * 3 + [done()]
    run = world(turns, tools)
    assert run.drive() == "ended"
    assert rungs(run) == [(EscalationStep.ANOTHER_APPROACH.value, False)] * 2


@pytest.mark.spec("X6")
def test_the_question_says_what_repeats_and_keeps_its_measures_below() -> None:
    exact = world()
    assert exact.drive() == "gate:loop_detected"
    assert exact.gatekeeper.opened[-1].title == "Looping: the same error ended 3 steps in a row"
    found = "the last 4 steps are alike: 62% of word pairs in what they did, 71% in what they got"
    circle = LoopEscalation(rung=9, method="semantic", steps=(1, 2, 3, 4))
    seen = tuple(StepSeen(step, True, tools=("look",)) for step in range(5))
    state = replace(exact.state, gate=None, loop_found=found, circle=circle)
    for latest, said in (
        (seen, "Looping: the last 4 steps repeat `look`"),
        ((*seen, StepSeen(4, True, tools=("find",))), "Looping: the last 4 steps are alike"),
        ((), "Looping: the last 4 steps are alike"),
    ):
        gate = guard.break_or_ask(replace(state, confidence=replace(state.confidence, latest=latest)))
        assert isinstance(gate, OpenGate)
        assert (gate.title, gate.reasons) == (said, (found,))


def test_a_person_starts_everything_anew() -> None:
    run = world()
    assert run.drive() == "gate:loop_detected"
    before = len(run.tools.ran)
    run.decide("respond", answer="look again")
    assert run.drive() == "gate:loop_detected"
    assert len(run.tools.ran) == before + 3


@pytest.mark.spec("A6")
def test_a_person_lets_it_go_on_only_so_often() -> None:
    run, asked = world(limits={**FREE, "max_extensions": 2}), 0
    while run.drive() == "gate:loop_detected" and asked < 9:
        asked += 1
        run.decide("respond", answer="go on")
    assert (asked, run.state.end_reason) == (3, "loop_detected")


def test_without_detection_nothing_is_broken() -> None:
    run = world(limits={**FREE, "circles": OFF, "max_steps": 20})
    assert run.drive() == "gate:limit_reached"
    assert run.journal.of(f.LoopDetected) == []


@pytest.mark.spec("F2")
def test_what_the_monitor_saw_becomes_a_fact_and_is_broken() -> None:
    run = world([says("", ("ask_question", {"question": "?"})), done()])
    assert run.drive() == "gate:question"
    seen = {"evidence": "again", "steps": [1], "confidence": 0.7, "by": "monitor"}
    tell(run, {**seen, "kind": "loop", "method": "semantic"})
    tell(run, {**seen, "kind": "stall", "method": "silent"})
    run.decide("respond", answer="yes")
    assert run.drive() == "ended"
    found, stall = run.journal.of(f.LoopDetected)[0], run.journal.of(f.StallDetected)[0]
    assert (found.method, found.evidence, found.steps, found.by) == ("semantic", "again", (1,), "monitor")
    assert (stall.method, stall.by) == ("silent", "monitor")


@pytest.mark.spec("F2")
@pytest.mark.parametrize(
    "payload", [{}, {"kind": "loop", "steps": "x", "confidence": "y"}, {"kind": 7, "steps": [None]}]
)
def test_mail_of_any_shape_is_read(payload: dict[str, Any]) -> None:
    run = world([says("", ("ask_question", {"question": "?"})), done()])
    run.drive()
    tell(run, payload)
    run.decide("respond", answer="yes")
    assert run.drive() == "ended"


def test_a_result_that_fails_alike_is_a_round_that_went_in_circles() -> None:
    tools = Tools({"run_command": lambda a: ToolResult(ok=False, content="1 failed", exit_code=1, error="exit 1")})
    run = World(
        lambda request: done("42"), tools, criteria=[("tests pass", "pytest")], limits={**FREE, "max_repairs": 3}
    )
    assert run.drive() == "gate:limit_reached"
    assert run.state.reached == "max_repairs"
    assert run.journal.of(f.LoopDetected)[0].method == "repeated_round"
    assert rungs(run)[0] == (EscalationStep.ANOTHER_APPROACH.value, False)


LONG = "the quick brown fox jumps over the lazy dog and reads every file of the project once more for number"


def _looks(at: str) -> Callable[[Any], Any]:
    numbers = itertools.count()
    return lambda request: says("", ("look", {"at": at.format(next(numbers))}))


def _finds(found: str) -> Tools:
    numbers = itertools.count()
    return Tools({"look": lambda a: found.format(next(numbers))})


def _by_turns(*places: str) -> Callable[[Any], Any]:
    turns = itertools.cycle(places)
    return lambda request: says("", ("look", {"at": next(turns)}))


CIRCLES: dict[str, tuple[str, Callable[[Any], Any], Tools]] = {
    "the same error": (
        "repeated_result",
        _looks("{}"),
        Tools({"look": lambda a: ToolResult(ok=False, content="", error=f"no file at {a['at']}")}),
    ),
    "the same call": ("repeated_result", stubborn, _finds("alpha")),
    "the same call without a word": ("repeated_result", stubborn, _finds("")),
    "one call and another": (
        "repeated_result",
        _by_turns("here", "there"),
        Tools({"look": lambda a: f"seen {a['at']}"}),
    ),
    "the same result": ("repeated_result", _looks("place {}"), _finds("no such thing")),
    "nearly the same": ("semantic", _looks(f"{LONG} {{}}"), _finds(f"{LONG} {{}}")),
}


@pytest.mark.spec("F1", "F2")
@pytest.mark.parametrize("circle", CIRCLES)
def test_each_kind_of_circle_stops_a_run_that_is_in_it(circle: str) -> None:
    method, models, tools = CIRCLES[circle]
    run = world(models, tools)
    assert run.drive() == "gate:loop_detected"
    assert run.journal.of(f.LoopDetected)[0].method == method


def _is_done(printed: str) -> ToolResult:
    """As the tool for commands says it."""
    data = {"stdout_bytes": len(printed), "stderr_bytes": 0}
    content = f"exit code 0 (0.1 s)\n[stdout]\n{printed}" if printed else "exit code 0 (0.1 s)"
    return ToolResult(ok=True, content=content, exit_code=0, data=data)


SILENT = ("git add -A", "mkdir build", "cp a.py build", "ruff check -q", "rm build/a.py", "git commit -qm all")
WORK: dict[str, tuple[list[tuple[str, str]], list[str]]] = {
    "commands that print nothing": ([(command, "") for command in SILENT], []),
    "the same command that prints nothing": ([("ruff check -q", "")] * 3, ["repeated_result"]),
    "other commands that print the same": (
        [(command, "no such remote") for command in SILENT[:3]],
        ["repeated_result"],
    ),
    "the same output after each change": ([("git status", "clean"), ("write", "")] * 4, []),
}


@pytest.mark.spec("F1")
@pytest.mark.parametrize("work", WORK)
def test_commands_that_print_the_same_are_a_circle_and_silent_work_is_none(work: str) -> None:
    calls, found = WORK[work]
    printed = iter([said for command, said in calls if command != "write"])
    tools = Tools({"run_command": lambda a: _is_done(next(printed)), "write": lambda a: "written"})
    tools.undo["write"] = Compensation(tool="write", arguments={})
    asked = [says("", ("write", {}) if c == "write" else ("run_command", {"command": c})) for c, _ in calls]
    run = world([*asked, done()], tools)
    assert run.drive() == "ended"
    assert [fact.method for fact in run.journal.of(f.LoopDetected)] == found


@pytest.mark.spec("F1", "J2")
def test_calls_that_were_cut_off_are_no_circle() -> None:
    """What a person says of an interrupted call is no outcome the agent could have learnt from."""
    cut = PendingCall(call=ToolCall("c1.0", "pay", {"amount": 5}), status="done", ok=False, since=1, error="unknown")
    learnt = replace(cut, said="no such account")
    for call, has_marks in ((cut, False), (learnt, True)):
        marks = guard.marks(replace(world().state, calls=(call,)))
        assert (bool(marks.action), bool(marks.outcome)) == (has_marks, has_marks)


def test_a_command_that_worked_lets_what_went_round_be_tried_again() -> None:
    """A command says nothing of what it changed: the test that failed three times may be run after it."""
    looks = [says("I look once more at what there is.", LOOK)] * 3
    tools = Tools({"look": lambda a: "the same", "write": lambda a: ToolResult(ok=True, content="", exit_code=0)})
    for may_change, why in ((True, []), (False, ["circle"])):
        tools.undo = {"write": Compensation(tool="write", arguments={})} if may_change else {}
        run = world([*looks, says("Now I write.", ("write", {"at": "it"})), *looks[:1], done()], tools)
        run.drive()
        assert [fact.why for fact in run.journal.of(f.ToolRefused)] == why


@pytest.mark.spec("Q4", "F3")
def test_a_person_who_extends_the_failures_lets_everything_be_tried_again() -> None:
    outcomes = iter([ToolResult(ok=False, content="", error="no such file")])
    tools = Tools({"look": lambda a: next(outcomes, "found")})
    run = World([*[says("", LOOK)] * 4, done()], tools, limits=FREE | {"max_failures": 3, "circles": OFF})
    assert run.drive() == "gate:limit_reached"
    run.decide("extend", max_failures=9)
    assert run.drive() == "ended"
    assert [fact.why for fact in run.journal.of(f.ToolRefused)] == ["identical"] * 2
    assert [call.name for call in run.tools.ran] == ["look"] * 2
