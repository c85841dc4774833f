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


def accepted_for_ever(world: World) -> tuple[int, str]:
    """(reviews that were opened, why it stopped) where each of them is accepted at once."""
    for _ in range(50):
        why = world.drive()
        if why != "gate:final_review":
            break
        world.decide("approve")
    return len([gate for gate in world.gatekeeper.opened if gate.kind == "final_review"]), why


@pytest.mark.spec("Q5", "A6")
def test_a_result_whose_workspace_never_rests_ends_by_the_bound_on_repairs() -> None:
    world = play([OPEN], "unless_verified", {"limits": {"max_repairs": 2}})
    world.tools.tree, world.gatekeeper.void = "t" * 64, "a clock changed"
    assert accepted_for_ever(world) == (9, "gate:limit_reached")
    world.decide("reject", reason="enough")
    assert world.drive() == "ended"
    assert world.state.end_reason == "repair_budget"
    assert world.archive.committed == []
    assert not world.gatekeeper.consumed


@pytest.mark.spec("Q5")
def test_a_review_that_binds_the_workspace_is_used_up_with_the_end() -> None:
    world = play([OPEN], "unless_verified", {})
    world.tools.tree = "t" * 64
    assert accepted_for_ever(world) == (1, "ended")
    (gate,) = world.gatekeeper.opened
    assert gate.subject["workspace"] == {"tree": "t" * 64}
    assert gate.view["workspace_tree"] == "t" * 64
    assert world.gatekeeper.consumed == [gate.id]


@pytest.mark.spec("Q5")
def test_a_review_that_cannot_bind_the_workspace_says_so_and_is_accepted_as_it_is() -> None:
    world = play([OPEN], "unless_verified", {})
    world.gatekeeper.void = "nothing is used up"
    assert accepted_for_ever(world) == (1, "ended")
    assert world.gatekeeper.opened[0].view["workspace_why_not"]
    assert world.state.end_reason == "accepted"
