"""Every condition that ends a run: a world in which it comes true, and the same world without it (SPEC D1, E4, D4)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from loops.engine import facts as f
from loops.engine.apply import apply
from loops.engine.decide import decide
from loops.engine.effects import End
from loops.engine.ends import reasons as end_reasons
from loops.engine.ends.reasons import END_REASONS, EXPLANATIONS, When, as_markdown
from loops.engine.ends.reports import REPORT_KINDS
from loops.engine.ports import ModelError
from loops.engine.state.lifecycle import HOPELESS, RETRIABLE, Event, Phase, transition
from loops.engine.state.spec import ConfidenceTerms
from loops.engine.state.thresholds import OFF, THRESHOLDS
from loops.engine.values import FailureKind, StopReason, ToolResult, Usage
from tests.fakes import Tools, World, done, says

DOCUMENT = Path(__file__).parents[3] / "agentops" / "docs" / "termination.md"
FREE = {"max_failures": 99, "circles": OFF, "reflect_after": 0, "max_steps": 30}
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
        _different_looks, {"limits": {"circles": OFF}}, {"circles": THRESHOLDS, "max_backtracks": 99}, _fails
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
    "model_unavailable": Case(
        lambda: [ModelError("no", kind=FailureKind.UNRECOVERABLE, code="bad_key")],
        {"models": lambda: lambda request: done()},
    ),
    "refused": Case(
        lambda: lambda request: says("I will not.", stop=StopReason.REFUSAL),
        {"models": lambda: lambda request: done()},
    ),
    "context_exceeded": Case(
        lambda: lambda request: says("", stop=StopReason.CONTEXT_EXCEEDED), {"models": lambda: lambda request: done()}
    ),
    "low_confidence": Case(_different_looks, {}, tools=_fails, spec={"confidence": ConfidenceTerms(1, 0.99)}),
}
BY_CODE = {reason.code: reason for reason in END_REASONS}


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


@pytest.fixture(autouse=True)
def small_cap(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "global_cap" in request.node.name:
        monkeypatch.setattr("loops.engine.measures.limits.HARD_CAP_MODEL_CALLS", 4)


@pytest.mark.spec("D1", "D4", "E4", "A5", "E7", "X5")
@pytest.mark.parametrize("code", CASES)
def test_each_reason_ends_the_run_by_its_own_fact_gate_and_event(code: str) -> None:
    reason, world = BY_CODE[code], _play(CASES[code])
    assert world.state.end_reason == code
    ended = world.journal.of(_kind("RunEnded"))[-1]
    entered = world.journal.of(_kind("PhaseEntered"))[-1]
    assert entered.event is reason.event
    assert ended.report["explanation"] == reason.explanation
    assert ended.report_kind == REPORT_KINDS[world.state.phase]
    assert world.journal.of(_kind(reason.fact))
    assert {gate.kind for gate in world.gatekeeper.opened} == ({reason.gate} if reason.gate else set())


@pytest.mark.spec("D1", "D4", "E4")
@pytest.mark.parametrize("code", CASES)
def test_without_the_cause_the_same_run_ends_otherwise(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: what stops the run is this cause and nothing else."""
    without = dict(CASES[code].without)
    if cap := without.pop("cap", None):
        monkeypatch.setattr("loops.engine.measures.limits.HARD_CAP_MODEL_CALLS", cap)
    if code == "low_confidence":
        without["spec"] = {"confidence": ConfidenceTerms()}
    assert _play(CASES[code], **without).state.end_reason != code


@pytest.mark.spec("D1")
@pytest.mark.parametrize("code", CASES)
def test_without_the_row_the_same_run_ends_otherwise(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table decides: nothing else would end it by this reason."""
    rows = tuple(reason for reason in END_REASONS if reason.code != code)
    monkeypatch.setattr(end_reasons, "END_REASONS", rows)
    world = _play(CASES[code])
    assert world.state.end_reason != code
    assert world.state.end_reason == "internal_error" or BY_CODE[code].when in {When.CAP, When.FAILURE}


@pytest.mark.spec("D1")
def test_every_reason_has_a_case_and_an_event_of_the_lifecycle() -> None:
    assert len(BY_CODE) == len(END_REASONS)
    assert set(CASES) == {reason.code for reason in END_REASONS if reason.when is not When.ELSEWHERE}
    ends = {Event.BUDGET_EXCEEDED: Phase.FAIL, Event.TIMEOUT: Phase.FAIL, Event.ERROR: Phase.FAIL}
    for reason in END_REASONS:
        end = ends.get(reason.event) or {Event.HALTED: Phase.HALT}.get(reason.event, Phase.COMMIT)
        phase = Phase.VERIFY if end is Phase.COMMIT else Phase.ACT
        assert transition(phase, reason.event) is end


@pytest.mark.spec("D1")
def test_explanations_are_all_different() -> None:
    assert len(set(EXPLANATIONS.values())) == len(EXPLANATIONS) == len(END_REASONS)


@pytest.mark.spec("E6")
@pytest.mark.parametrize("code", [code for code in CASES if code in RETRIABLE or BY_CODE[code].event is Event.HALTED])
def test_a_run_that_goes_on_is_not_ended_by_the_same_at_once(code: str) -> None:
    assert not isinstance(decide(apply(_play(CASES[code]).state, f.RunResumed(by="ana"))), End)


@pytest.mark.spec("D1")
def test_what_a_person_may_do_about_an_end_is_said_of_ends_that_there_are() -> None:
    assert EXPLANATIONS.keys() >= HOPELESS | RETRIABLE
    assert not HOPELESS & RETRIABLE
    assert {row.code for row in END_REASONS if row.when is When.CAP} <= HOPELESS, "caps that nobody raises"


def test_the_documentation_holds_the_table() -> None:
    assert as_markdown() in DOCUMENT.read_text()


def _kind(name: str) -> type[Any]:
    from loops.engine.facts import KINDS

    return KINDS[name]
