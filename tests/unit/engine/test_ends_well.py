"""How a run that ends well is called: by its weakest evidence, never by more than was proven (SPEC C6, X4, X5)."""

from __future__ import annotations

from typing import Any

import pytest

from loops.engine.ends.reasons import EXPLANATIONS
from loops.engine.state.lifecycle import Phase
from loops.engine.values import ToolResult
from loops.storage.status import final_status
from tests.fakes import Tools, World, done

PROVEN, OPEN = ("the tests pass", "pytest"), ("it reads well", "")
JSON = {"output_schema": {"type": "string"}}
ENDS: dict[str, tuple[list[tuple[str, str]], str, dict[str, Any], str, str, str]] = {
    # criteria, final review, more: gate, reason, evidence
    "all proven": ([PROVEN], "unless_verified", {}, "", "criteria_met", "proved"),
    "all proven, nobody asked": ([PROVEN], "never", {}, "", "criteria_met", "proved"),
    "all proven, and accepted": ([PROVEN], "always", {}, "final_review", "criteria_met", "proved"),
    "one of two proven": ([PROVEN, OPEN], "unless_verified", {}, "final_review", "accepted", "accepted"),
    "none proven": ([OPEN], "unless_verified", {}, "final_review", "accepted", "accepted"),
    "nothing to prove": ([], "unless_verified", {}, "final_review", "accepted", "accepted"),
    "a word that nobody knows asks": ([OPEN], "nevr", {}, "final_review", "accepted", "accepted"),
    "one of two proven, nobody asked": ([PROVEN, OPEN], "never", {}, "", "unproven", "claimed"),
    "none proven, nobody asked": ([OPEN], "never", {}, "", "unproven", "claimed"),
    "nothing to prove, nobody asked": ([], "never", {}, "", "no_criteria", "claimed"),
    "the form is no proof": ([], "never", JSON, "", "no_criteria", "claimed"),
    "the form is no proof of a criterion": ([OPEN], "never", JSON, "", "unproven", "claimed"),
}


def play(criteria: list[tuple[str, str]], review: str, more: dict[str, Any]) -> World:
    tools = Tools({"run_command": lambda arguments: ToolResult(ok=True, content="3 passed", exit_code=0)})
    return World(lambda request: done('"it"'), tools, criteria=criteria, final_review=review, **more)


@pytest.mark.spec("C6", "X4", "X5", "A5")
@pytest.mark.parametrize("name", ENDS)
def test_a_run_that_ends_well_is_called_by_its_weakest_evidence(name: str) -> None:
    criteria, review, more, gate, reason, evidence = ENDS[name]
    world = play(criteria, review, more)
    if gate:
        assert world.drive() == f"gate:{gate}"
        world.decide("approve")
    assert world.drive() == "ended"
    assert (world.state.phase, world.state.end_reason) == (Phase.COMMIT, reason)
    (report,) = world.archive.committed
    assert (report["reason"], report["evidence"], report["explanation"]) == (reason, evidence, EXPLANATIONS[reason])
    assert final_status(world.state) == ("finished" if evidence == "claimed" else "success")


@pytest.mark.spec("X5")
@pytest.mark.parametrize("reason", ["accepted", "no_criteria", "unproven"])
def test_only_proof_is_called_met(reason: str) -> None:
    assert " met" not in EXPLANATIONS[reason]


@pytest.mark.spec("C6", "X5")
def test_a_result_that_a_person_sent_back_is_asked_about_again() -> None:
    world = play([OPEN], "unless_verified", {})
    assert world.drive() == "gate:final_review"
    world.decide("reject", reason="not yet")
    assert world.drive() == "gate:final_review"
    world.decide("approve")
    assert world.drive() == "ended"
    assert world.state.end_reason == "accepted"
