"""An extension that a person granted is never taken back, and beyond the bound none is taken (SPEC A6, D3, X5)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from gates.policy.payloads import LIMITS, Invalid, cleaned, extensions_left
from loops.engine import facts as f
from loops.engine.measures.limits import LABELS
from loops.engine.state.thresholds import OFF
from loops.engine.values import ToolResult, Usage
from tests.fakes import Tools, World, done, says

FREE = {"max_failures": 99, "circles": OFF, "reflect_after": 0, "max_steps": 99}
FREE_OF_CHARGE = Usage()


def different_looks(usage: Usage = FREE_OF_CHARGE) -> Callable[[Any], Any]:
    places = itertools.count()
    return lambda request: says("", ("look", {"at": next(places)}), usage=usage)


def fails(name: str = "look") -> Tools:
    return Tools({name: lambda a: ToolResult(ok=False, content="", error=f"exit 1 {a}", exit_code=1)})


CASES: dict[str, Callable[[dict[str, Any]], World]] = {
    "max_steps": lambda more: World(different_looks(), limits={**FREE, "max_steps": 1} | more),
    "max_failures": lambda more: World(different_looks(), fails(), limits={**FREE, "max_failures": 1} | more),
    "max_tokens": lambda more: World(different_looks(Usage(900, 0)), limits={**FREE, "max_tokens": 2_500} | more),
    "max_cost_usd": lambda more: World(
        different_looks(Usage(1, 0, cost_microusd=100)), limits={**FREE, "max_cost_microusd": 90} | more
    ),
    "max_repairs": lambda more: World(
        lambda request: done(), fails("run_command"), limits={**FREE, "max_repairs": 1} | more,
        criteria=[("it works", "check")],
    ),
    "max_backtracks": lambda more: World(different_looks(), fails(), limits={**FREE, "max_backtracks": 1} | more),
}  # fmt: skip


def decided(world: World, verdict: str, payload: dict[str, Any]) -> None:
    """What every door does: clean what was sent, by what the gate shows, and only then tell the run."""
    gate = world.gatekeeper.opened[-1]
    kept = cleaned(kind=gate.kind, verdict=verdict, tool=gate.tool, reason="", payload=payload, view=gate.view)
    world.decide(verdict, **kept)


@pytest.mark.spec("D3", "A6", "X5")
@pytest.mark.parametrize("name", CASES)
def test_what_was_granted_holds_and_beyond_the_bound_nothing_is_taken(name: str) -> None:
    world = CASES[name]({"max_extensions": 3})
    for number in range(3):
        assert world.drive() == "gate:limit_reached"
        view = world.gatekeeper.opened[-1].view
        assert (view["limit"], view["extensions_used"], view["extensions_allowed"]) == (name, number, 3)
        before = world.state.model_calls
        decided(world, "extend", {name: view["least"]})
        world.drive()
        assert world.state.model_calls > before, "it was granted, and the run did nothing with it"
    assert not world.state.is_ended
    assert extensions_left(world.gatekeeper.opened[-1].view) == 0
    with pytest.raises(Invalid, match="all 3 extensions that its limits allow are used"):
        decided(world, "extend", {name: view["suggested"] * 9})
    assert world.drive() == "gate:limit_reached"
    world.decide("reject", reason="enough")
    world.drive()
    assert world.state.is_ended


@pytest.mark.spec("F3", "A6", "X5")
def test_a_loop_is_let_go_on_only_so_often() -> None:
    world = World(lambda request: says("", ("look", {"at": "it"})), limits={"max_steps": 99, "max_extensions": 1})
    assert world.drive() == "gate:loop_detected"
    decided(world, "respond", {"answer": "look elsewhere"})
    assert world.drive() == "gate:loop_detected"
    with pytest.raises(Invalid, match="all 1 extensions"):
        decided(world, "respond", {"answer": "look elsewhere"})


@pytest.mark.spec("D3")
def test_a_bound_that_would_stop_it_again_at_once_is_refused() -> None:
    world = CASES["max_tokens"]({})
    assert world.drive() == "gate:limit_reached"
    view = world.gatekeeper.opened[-1].view
    with pytest.raises(Invalid, match="it would stop again at once"):
        decided(world, "extend", {"max_tokens": view["least"] - 1})


@pytest.mark.spec("D3")
def test_every_limit_that_asks_can_be_extended() -> None:
    assert set(LIMITS) == set(LABELS)


@pytest.mark.spec("O3", "M6")
def test_who_has_a_failed_verification_continue_gets_the_repair() -> None:
    """The gate of its rollback says "continue": that is a decision, and no second question follows it."""
    from loops.engine.values import Compensation

    tools = Tools({"look": lambda a: "seen", "run_command": lambda a: ToolResult(False, "", "exit 1", exit_code=1)})
    tools.undo["look"] = Compensation(tool="look", arguments={})
    answers = [says("", ("look", {"at": 1}))]
    world = World(
        lambda request: answers.pop() if answers else done(), tools, limits={**FREE, "max_repairs": 1},
        criteria=[("it works", "check")],
    )  # fmt: skip
    assert world.drive() == "gate:limit_reached"
    world.decide("reject", reason="enough")
    assert world.drive() == "gate:rollback_choice"
    world.decide("continue")
    assert world.drive() == "gate:limit_reached"
    assert len(world.journal.of(f.DiagnosisMade)) == 2
