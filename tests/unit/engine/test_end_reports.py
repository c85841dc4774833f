"""Every way to end leaves a whole artifact: cause, checks with their output, counts within their bounds, what there is
of a result (SPEC A5, E7, X5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loops.engine.ends.reasons import EXPLANATIONS
from loops.engine.ends.reports import report
from loops.engine.facts import RunEnded
from loops.engine.measures import limits as guards
from loops.engine.state.lifecycle import Phase
from loops.engine.state.run import RunState
from loops.engine.values import ToolResult
from tests.fakes import Tools, World, done, says
from tests.unit.engine.test_end_reasons import CASES, _play

OUTPUT = "collected 4 items\n" + "x" * 9000 + "\nFAILED test_it.py::test_sum - assert 3 == 4"


def checked(answers: Any, **more: Any) -> World:
    """A run whose criterion fails with much output."""
    failed = ToolResult(ok=False, content=OUTPUT, error="exit code 1", exit_code=1)
    tools = Tools({"run_command": lambda a: failed, "look": lambda a: "seen"})
    return World(answers, tools, criteria=[("the sums are right", "pytest")], **more)


def after_a_failed_verification(limits: dict[str, Any], mail: tuple[str, ...] = ()) -> World:
    """The result is not accepted, and the run ends in its repair, in the middle of chatter."""
    answers = iter([done("3")])
    later = says("Let me have a look at that.", ("look", {}))
    world = checked(lambda request: next(answers, later), limits=limits)
    for _ in range(5):
        if (why := world.drive()) == "ended":
            return world
        for kind in mail:
            world.send(kind)
        if not mail:
            world.decide("reject", reason="enough")
    raise AssertionError(why)


BY_SERVICES = {"workspace_unusable", "could_not_begin", "loop_failed", "journal_unreadable", "internal_error"}
"""Ended from outside of the engine: tested with their services, and below with the state they have at least."""


def ended(reason: str) -> World:
    return _play(CASES[reason])


def whole(body: dict[str, Any]) -> None:
    """What every report has."""
    assert body["kind"] in {"AgentResult", "FailureReport", "HaltRecord"}
    assert body["explanation"] == EXPLANATIONS[body["reason"]]
    assert isinstance(body["checks"], list)
    for name in ("max_repairs", "max_backtracks", "max_steps"):
        assert 0 <= body["limits"][name]["used"] <= body["limits"][name]["bound"], name
    assert body["usage"]["repairs"] <= body["limits"]["max_repairs"]["bound"]
    if body["kind"] == "AgentResult":
        assert body["evidence"]
        return
    assert len(body["diagnosis"]) > 10
    assert body["causes"]
    assert body["not_done"]
    assert body["done"]
    assert bool(body["partial_output"]) == (body["partial_output_is"] != "nothing")
    assert body["checkpoint" if body["kind"] == "FailureReport" else "resume"]["phase"]


@pytest.mark.spec("A5", "E7", "X5")
@pytest.mark.parametrize("reason", sorted(set(EXPLANATIONS) - BY_SERVICES))
def test_every_end_leaves_a_whole_report(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason == "global_cap":
        monkeypatch.setattr(guards, "HARD_CAP_MODEL_CALLS", 4)
    world = ended(reason)
    assert world.state.end_reason == reason
    whole(world.journal.of(RunEnded)[-1].report)


@pytest.mark.spec("A5")
@pytest.mark.parametrize("reason", sorted(BY_SERVICES))
def test_an_end_from_outside_leaves_a_whole_report(reason: str) -> None:
    body = report(Phase.FAIL, World().state, reason, "the disk is full")
    whole(body)
    assert body["diagnosis"] == "the disk is full"


ENDS_IN_REPAIR = {
    "repair_budget": ({"max_repairs": 0}, ()),
    "max_steps": ({"max_steps": 2}, ()),
    "operator_stop": ({"max_steps": 2}, ("stop",)),
}


@pytest.mark.spec("A5", "E7", "L2")
@pytest.mark.parametrize("reason", ENDS_IN_REPAIR)
def test_after_a_failed_verification_the_report_holds_what_failed(reason: str) -> None:
    world = after_a_failed_verification(*ENDS_IN_REPAIR[reason])
    body = world.journal.of(RunEnded)[-1].report
    assert body["reason"] == reason
    whole(body)
    (check,) = body["checks"]
    assert (check["text"], check["status"], check["command"]) == ("the sums are right", "failed", "pytest")
    assert check["detail"].startswith("exit code 1")
    assert check["detail"].endswith("FAILED test_it.py::test_sum - assert 3 == 4")
    assert body["causes"] == ["LOGIC_ERROR"]
    assert body["not_done"][0] == "the sums are right (failed)"
    assert (body["partial_output"], body["partial_output_is"]) == ("3", "a result that was not accepted")
    assert body["usage"]["repairs"] == (0 if reason == "repair_budget" else 1)
    assert not body["checks_of_earlier_result"]


@pytest.mark.spec("E7")
def test_checks_of_an_earlier_result_are_called_that() -> None:
    world = after_a_failed_verification({"max_steps": 2})
    later = replace(world.state, result="4", checks=None)
    body = report(Phase.FAIL, later, "max_seconds")
    assert body["checks_of_earlier_result"]
    assert (body["partial_output"], body["partial_output_is"]) == ("4", "a result that was not checked")


@pytest.mark.spec("E7", "Q4")
def test_a_person_who_sent_the_result_back_is_in_the_report() -> None:
    world = World(
        lambda request: done("short"),
        criteria=[("it reads well", "")],
        final_review="always",
        limits={"max_repairs": 0},
    )
    assert world.drive() == "gate:final_review"
    world.decide("reject", reason="too short")
    assert world.drive() == "gate:limit_reached"
    world.decide("reject", reason="enough")
    assert world.drive() == "ended"
    body = world.journal.of(RunEnded)[-1].report
    assert [check["detail"] for check in body["checks"] if check["method"] == "review"] == ["too short"]
    assert body["causes"] == ["INCOMPLETENESS"]
    assert "Review by a person: failed" in body["diagnosis"]


@pytest.mark.spec("A5")
def test_a_repair_that_earlier_versions_began_beyond_the_bound_is_not_counted() -> None:
    state: RunState = replace(World().state, phase=Phase.REPAIR, repairs=4)
    assert report(Phase.FAIL, state, "repair_budget")["usage"]["repairs"] == 3
