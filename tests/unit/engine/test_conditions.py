"""Every condition that ends a run: a world in which it comes true, and the same world without it (SPEC D1, E4, D4)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from loops.engine import limits
from loops.engine.conditions import CONDITIONS, END_EVENTS, Condition, as_markdown
from loops.engine.detection.thresholds import OFF
from loops.engine.exits import REASONS, REPORT_KINDS
from loops.engine.lifecycle import Event, Phase, transition
from loops.engine.state import RunState
from loops.engine.values import FailureKind, ToolResult, Usage
from tests.fakes import Tools, World, done, says

DOCUMENT = Path(__file__).parents[3] / "agentops" / "docs" / "termination.md"
FREE = {"max_failures": 99, "circles": OFF, "reflect_after": 0, "identical_errors": 0, "max_steps": 30}
"""Nothing else ends these worlds so early."""
UNCHECKED: dict[str, Any] = {"criteria": [("it reads well", "")], "final_review": "unless_verified"}


def _different_looks() -> Callable[[Any], Any]:
    places = itertools.count()
    return lambda request: says("", ("look", {"at": next(places)}))


def _fails(kind: FailureKind | None = None, error: str = "no such file") -> Tools:
    return Tools({"look": lambda a: ToolResult(ok=False, content="", error=error, kind=kind)})


def _spends(tokens: int, micro: int) -> Callable[[Any], Any]:
    return lambda request: says("", ("look", {}), usage=Usage(tokens, 0, cost_microusd=micro))


@dataclass(frozen=True)
class Case:
    """``without`` is what has to change for the condition not to come true."""

    models: Callable[[], Any]
    without: dict[str, Any]
    limits: dict[str, Any] = field(default_factory=dict)
    tools: Callable[[], Tools] | None = None
    spec: dict[str, Any] = field(default_factory=dict)
    mail: str = ""
    verdict: str = "reject"


CASES: dict[str, Case] = {
    "criteria_met": Case(
        lambda: lambda request: done(),
        {"tools": lambda: Tools({"run_command": lambda a: ToolResult(ok=False, content="", error="exit 1")})},
        tools=lambda: Tools({"run_command": lambda a: "ok"}),
        spec={"criteria": [("it works", "check")]},
    ),
    "accepted": Case(
        lambda: lambda request: done(), {"spec": {"final_review": "never"}}, spec=UNCHECKED, verdict="approve"
    ),
    "no_criteria": Case(lambda: lambda request: done(), {"spec": {"criteria": [("it reads well", "")]}}),
    "unproven": Case(
        lambda: lambda request: done(),
        {"spec": {"final_review": "unless_verified"}, "verdict": "approve"},
        spec=UNCHECKED | {"final_review": "never"},
    ),
    "checks_not_run": Case(
        lambda: lambda request: done(),
        {"tools": lambda: Tools({"run_command": lambda a: ToolResult(ok=True, content="ok", exit_code=0)})},
        tools=lambda: Tools({"run_command": lambda a: ToolResult(ok=False, content="", error="x", exit_code=127)}),
        spec={"criteria": [("it works", "check")]},
    ),
    "max_steps": Case(
        lambda: [*(says("", ("look", {"at": place})) for place in range(4)), done()],
        {"limits": {"max_steps": 99}},
        {"max_steps": 3},
    ),
    "max_seconds": Case(_different_looks, {"limits": {"max_seconds": 9999}}, {"max_seconds": 0}),
    "max_cost_usd": Case(
        lambda: _spends(10, 100), {"limits": {"max_cost_microusd": 10**9}}, {"max_cost_microusd": 250}
    ),
    "max_tokens": Case(lambda: _spends(2000, 1), {"limits": {"max_tokens": 10**9}}, {"max_tokens": 6000}),
    "max_failures": Case(_different_looks, {"limits": {"max_failures": 99}}, {"max_failures": 2}, _fails),
    "loop_detected": Case(
        _different_looks, {"limits": {"identical_errors": 0}}, {"identical_errors": 3, "max_backtracks": 99}, _fails
    ),
    "escalated": Case(_different_looks, {"tools": None}, tools=lambda: _fails(FailureKind.CRITICAL)),
    "no_tool_call": Case(lambda: lambda request: says(" "), {"models": lambda: lambda request: says("the result")}),
    "operator_stop": Case(_different_looks, {"mail": ""}, mail="stop"),
    "user_stop": Case(_different_looks, {"mail": ""}, mail="message"),
    "global_cap": Case(_different_looks, {"cap": 20_000}),
    "depth_cap": Case(_different_looks, {"spec": {"depth": 3}}, spec={"depth": 4}),
    "unrecoverable": Case(
        _different_looks, {"tools": None}, tools=lambda: _fails(FailureKind.UNRECOVERABLE, "it is gone")
    ),
    "too_many_backtracks": Case(_different_looks, {"limits": {"max_backtracks": 99}}, {"max_backtracks": 2}, _fails),
    "not_confirmed": Case(_different_looks, {"limits": {"confirm_after": 0}}, {"confirm_after": 3}),
    "repair_budget": Case(
        lambda: lambda request: done(),
        {"limits": {"max_repairs": 99}},
        {"max_repairs": 1},
        lambda: Tools({"run_command": lambda a: ToolResult(ok=False, content="", error="exit 1", exit_code=1)}),
        {"criteria": [("it works", "check")]},
    ),
}
BY_REASON = {condition.reason: condition for condition in CONDITIONS}


def _play(case: Case, **changed: Any) -> World:
    """Until it has ended; whoever is asked says the verdict of the case."""
    limits_of_it = FREE | case.limits | changed.get("limits", {})
    tools = changed.get("tools", case.tools)
    world = World(
        changed.get("models", case.models)(),
        tools() if tools else None,
        limits=limits_of_it,
        **{**case.spec, **changed.get("spec", {})},
    )
    if mail := changed.get("mail", case.mail):
        world.send(mail, **({"text": "please stop"} if mail == "message" else {}))
    for _ in range(60):
        if world.drive() == "ended":
            return world
        world.decide(changed.get("verdict", case.verdict), reason="no")
    raise AssertionError("it did not end")


def _noticed(world: World, condition: Condition) -> bool:
    return any(condition.guard(state) for state in _states(world))


def _states(world: World) -> list[RunState]:
    from loops.engine.fold import apply, initial

    first, *rest = world.journal.facts
    return list(itertools.accumulate(rest, apply, initial=initial(first)))  # type: ignore[arg-type]


@pytest.mark.spec("D1", "D4", "E4", "A5", "E7", "X5")
@pytest.mark.parametrize("reason", CASES)
def test_each_condition_ends_the_run_with_its_own_reason_fact_and_event(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    condition = BY_REASON[reason]
    if reason == "global_cap":
        monkeypatch.setattr(limits, "HARD_CAP_MODEL_CALLS", 4)
    world = _play(CASES[reason])
    assert world.state.end_reason == reason
    ended = world.journal.of(_kind("RunEnded"))[-1]
    entered = world.journal.of(_kind("PhaseEntered"))[-1]
    assert entered.event is condition.event
    assert ended.report["explanation"] == condition.words
    assert ended.report_kind == REPORT_KINDS[world.state.phase]
    assert world.journal.of(_kind(condition.fact))
    gates = {gate.kind for gate in world.gatekeeper.opened}
    assert gates == ({condition.gate} if condition.gate else set())
    assert _noticed(world, condition), "its guard never saw it"


@pytest.mark.spec("D1", "D4", "E4")
@pytest.mark.parametrize("reason", CASES)
def test_without_the_condition_the_same_run_ends_otherwise(reason: str) -> None:
    """The control: what stops the run is this condition and nothing else."""
    case = CASES[reason]
    without = dict(case.without)
    without.pop("cap", None)
    world = _play(case, **without)
    assert world.state.end_reason != reason
    assert not _noticed(world, BY_REASON[reason])


@pytest.mark.spec("D1")
def test_every_condition_has_a_case_words_and_an_event_of_the_table() -> None:
    assert set(CASES) == set(BY_REASON) == set(END_EVENTS)
    assert set(BY_REASON) <= set(REASONS)
    ends = {Event.BUDGET_EXCEEDED: Phase.FAIL, Event.TIMEOUT: Phase.FAIL, Event.ERROR: Phase.FAIL}
    for condition in CONDITIONS:
        end = ends.get(condition.event) or {Event.HALTED: Phase.HALT}.get(condition.event, Phase.COMMIT)
        phase = Phase.VERIFY if end is Phase.COMMIT else Phase.ACT
        assert transition(phase, condition.event) is end


@pytest.mark.spec("D1")
def test_words_of_reasons_are_all_different() -> None:
    assert len(set(REASONS.values())) == len(REASONS)


@pytest.mark.spec("D1")
def test_the_documentation_holds_the_table() -> None:
    assert as_markdown() in DOCUMENT.read_text()


def _kind(name: str) -> type[Any]:
    from loops.engine.facts import KINDS

    return KINDS[name]
