"""Whoever goes in circles is put before a person for that, by the limits that tasks have by default (ADR 0022)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from loops.engine import facts as f
from loops.engine.apply import apply
from loops.engine.confidence.score import due
from loops.engine.state.loop_escalation import EscalationStep, LoopEscalation, is_helped
from loops.engine.state.recovery import RecoveryState
from loops.engine.state.run import RunState
from loops.engine.state.spec import ConfidenceTerms
from loops.engine.values import ModelReply, ModelRequest, ToolResult
from tests.fakes import Tools, World, says

pytestmark = pytest.mark.spec("D2", "F1", "F3")
BY_DEFAULT = import_module("loops.migrations.0002_complexity_profiles").PROFILES
PROFILES = {
    name: {"max_steps": bounds["max_steps"], "max_failures": bounds["max_failures"], "confirm_after": 20}
    for name, bounds in BY_DEFAULT.items()
}
JUDGED = ConfidenceTerms(every_steps=5)
HERE, THERE = ("look", {"at": "here"}), ("look", {"at": "there"})
WORDS = "I look once more: it has to be somewhere in there, for it always was."
MISSING = ToolResult(ok=False, content="", error="no such file")
Answers = Callable[[ModelRequest], ModelReply]


def round_and_round(*calls: tuple[str, dict[str, Any]], text: str = "") -> Answers:
    turns = itertools.cycle(calls)
    return lambda request: says(text, next(turns))


def in_other_words() -> Answers:
    numbers = itertools.count()
    return lambda request: says("", ("look", {"at": "the settings of the whole shop", "take": next(numbers)}))


AGENTS: dict[str, Callable[[], Answers]] = {
    "the same call": lambda: round_and_round(HERE),
    "the same call, with words": lambda: round_and_round(HERE, text=WORDS),
    "one and the other": lambda: round_and_round(HERE, THERE),
    "nearly the same call": in_other_words,
}
RESULTS: dict[str, Callable[[Any], Any]] = {"that works": lambda a: "nothing there", "that fails": lambda a: MISSING}


@pytest.mark.spec("Q1", "G2")
@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("profile", PROFILES)
def test_every_rung_is_tried_and_then_a_person_asked_about_the_circle(profile: str, agent: str, result: str) -> None:
    tools = Tools({"look": RESULTS[result]})
    run = World(AGENTS[agent](), tools, limits=PROFILES[profile], confidence=JUDGED)
    assert run.drive() == "gate:loop_detected"
    assert [fact.rung for fact in run.journal.of(f.LoopBroken)] == list(EscalationStep)
    assert [gate.kind for gate in run.gatekeeper.opened] == ["loop_detected"]


@pytest.mark.parametrize("profile", PROFILES)
def test_what_fails_in_ever_other_ways_meets_the_limit(profile: str) -> None:
    places = itertools.count()
    answers = lambda request: says(WORDS, ("look", {"at": next(places)}))  # noqa: E731
    errors = itertools.count()
    words = ("gone", "locked up", "too large to be read", "a folder", "written in no known way", "not yours", "empty")
    tools = Tools({"look": lambda a: ToolResult(ok=False, content="", error=words[next(errors) % len(words)])})
    run = World(answers, tools, limits=PROFILES[profile])
    assert run.drive() == "gate:limit_reached"
    assert run.gatekeeper.opened[-1].view["limit"] == "max_failures"


@pytest.mark.spec("E3")
def test_what_a_rung_says_does_not_leave_with_the_approach_that_is_given_up() -> None:
    run = World(round_and_round(HERE), Tools({"look": RESULTS["that fails"]}), limits=PROFILES["simple"])
    run.drive()
    assert run.journal.of(f.Backtracked)
    read = str(run.models.requests[-1].messages)
    assert all(fact.text[:40] in read for fact in run.journal.of(f.Reminded) if fact.reason == "loop")


def in_a_circle(**changes: Any) -> RunState:
    state = World(round_and_round(HERE)).state
    return replace(state, **{"step": 6, "failures_in_row": 3, "recovering": RecoveryState(failed_steps=2)} | changes)


@pytest.mark.spec("J5")
def test_a_rung_of_an_older_journal_means_what_it_meant() -> None:
    rung = {"rung": EscalationStep.ANOTHER_APPROACH, "method": "repeated_result", "steps": (4, 5, 6)}
    then = apply(in_a_circle(), f.LoopBroken(**rung))
    now = apply(in_a_circle(), f.LoopBroken(**rung, anew=True))
    assert (then.failures_in_row, then.recovering.failed_steps) == (3, 2)
    assert (now.failures_in_row, now.recovering.failed_steps) == (1, 0)


@pytest.mark.parametrize(("most", "left"), [(1, 0), (2, 0), (3, 1), (5, 1)])
def test_what_was_told_has_its_two_steps_before_the_limit(most: int, left: int) -> None:
    state = in_a_circle()
    state = replace(state, limits=replace(state.limits, max_failures=most))
    rung = f.LoopBroken(rung=EscalationStep.OTHER_WORDS, method="repeated_result", steps=(4, 5, 6), anew=True)
    assert apply(state, rung).failures_in_row == left


@pytest.mark.spec("G2")
@pytest.mark.parametrize(("step", "judged"), [(5, False), (6, False), (7, True)])
def test_confidence_waits_until_what_was_told_had_its_steps(step: int, judged: bool) -> None:
    state = in_a_circle(step=step, circle=LoopEscalation(rung=1, broken_at=5))
    state = replace(state, spec=replace(state.spec, confidence=JUDGED))
    assert bool(due(state)) is judged
    assert bool(due(replace(state, confidence=replace(state.confidence, asked=True))))
    assert is_helped(state.circle, state.step) is not judged
