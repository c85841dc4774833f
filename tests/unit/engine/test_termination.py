"""Whatever models, tools, people and crashing workers do: every run ends within its bound, with a reason and a report.

What is promised of tokens: ``state.tokens`` never passes the largest ``max_tokens`` granted, provided that the model
obeys ``max_tokens`` of its request and the provider counts no more tokens than the engine's cautious estimate (three
characters a token, and the provider's own count as soon as there is one).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given

from loops.driver import interrupts
from loops.engine.encoding.codec import from_plain, to_plain
from loops.engine.measures import limits as limits_guards
from loops.engine.ports import Verified
from loops.engine.state.limits import Limits
from loops.engine.state.run import RunState
from loops.engine.state.thresholds import OFF
from loops.engine.strategies import call_cycle
from tests.unit.engine.adversary import Answer, Endless, Killed, Plan, World, check_end, plans
from tests.unit.engine.effort import examples

FAR = Limits(
    max_steps=40,
    max_seconds=10**6,
    max_failures=10**6,
    max_tokens=10**9,
    max_cost_microusd=10**12,
    circles=OFF,
)


@pytest.fixture(scope="module", autouse=True)
def _looking_all_the_time() -> Iterator[None]:
    """The mailbox is looked at whenever something awaits, so that people interrupt at any moment."""
    patch = pytest.MonkeyPatch()
    patch.setattr(interrupts, "LOOK_EVERY_S", 0)
    yield
    patch.undo()


def check(plan: Plan) -> RunState:
    world = World(plan)
    state = world.live()
    check_end(world, state)
    return state


@pytest.mark.spec("A4", "A5", "A6", "D1", "J2", "J4")
@examples(usual=200, full=2000)
@given(plans)
def test_every_run_ends_within_its_bound(plan: Plan) -> None:
    state = check(plan)
    assert from_plain(RunState, to_plain(state)) == state


# --- negative controls: without its guard, the check finds the run that passes the bound ------------------------------

LOOKS = Answer(calls=(0,))
BINDING: dict[str, Plan] = {
    "max_seconds": Plan([replace(LOOKS, seconds=20.0)], limits=replace(FAR, max_seconds=30)),
    "max_steps": Plan([LOOKS], limits=replace(FAR, max_steps=3)),
    "max_failures": Plan([LOOKS], outcomes=["fail"], limits=replace(FAR, max_failures=2)),
    "max_tokens": Plan([replace(LOOKS, tokens=400)], limits=replace(FAR, max_tokens=4_000)),
    "max_cost_usd": Plan([LOOKS], limits=replace(FAR, max_cost_microusd=120)),
}
"""For each guard a run that nothing else would stop so early."""


@pytest.mark.spec("A6", "D1")
@pytest.mark.parametrize("name", BINDING)
def test_each_guard_stops_the_run_that_only_it_can_stop(name: str) -> None:
    assert check(BINDING[name]).end_reason == name


@pytest.mark.parametrize("name", BINDING)
def test_the_check_notices_when_a_guard_is_gone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    position = list(BINDING).index(name)
    guards = limits_guards.GUARDS[:position] + limits_guards.GUARDS[position + 1 :]
    monkeypatch.setattr(limits_guards, "GUARDS", guards)
    with pytest.raises(AssertionError, match="max_"):
        check(BINDING[name])


def test_without_guards_a_model_that_never_stops_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_guards, "GUARDS", ())
    monkeypatch.setattr("tests.unit.engine.adversary.Models._within_limits", lambda self, request: None)
    with pytest.raises(Endless):
        check(Plan([LOOKS], limits=replace(FAR, max_steps=3)))


def test_the_check_notices_endless_repairs(monkeypatch: pytest.MonkeyPatch) -> None:
    never_right = Plan([Answer(calls=(5,))], outcomes=["fail"], checked=True, limits=replace(FAR, max_repairs=2))
    assert check(never_right).end_reason == "repair_budget"
    monkeypatch.setattr(limits_guards, "GUARDS", ())
    monkeypatch.setattr("tests.unit.engine.adversary.Models._within_limits", lambda self, request: None)
    with pytest.raises(Endless):
        check(replace(never_right, limits=replace(FAR, max_repairs=10**6, max_steps=5)))


def test_the_check_notices_endless_voids(monkeypatch: pytest.MonkeyPatch) -> None:
    """An approval that is void each time is asked for again only so often."""
    always_void = Plan([Answer(calls=(2,))], verdicts=[("approve", {})], voids=[True], limits=replace(FAR, max_steps=2))
    world = World(always_void)
    world.live()
    assert (
        len([gate for gate in world.gatekeeper.opened if gate.tool])
        == always_void.limits.max_steps * call_cycle.VOIDED_AT_MOST
    )
    monkeypatch.setattr(call_cycle, "VOIDED_AT_MOST", 10**6)
    with pytest.raises(Endless):
        check(always_void)


def test_the_cap_over_everything_holds_when_people_extend_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_guards, "HARD_CAP_MODEL_CALLS", 12)
    assert check(Plan([LOOKS], limits=FAR)).end_reason == "global_cap"


# --- found by the property, kept for good -----------------------------------------------------------------------------


@pytest.mark.spec("J2", "K1")
def test_a_call_in_doubt_stays_in_doubt_over_a_stop() -> None:
    """Killed after the effect, stopped while a person was asked, resumed: the call may not run again."""
    verdicts = [("respond", {"outcome": "done"})]
    plan = Plan([Answer(calls=(1,)), Answer(calls=(5,))], verdicts=verdicts, crashes=frozenset({7}))
    world = World(plan)
    with pytest.raises(Killed):
        world.drive()
    assert world.effects
    assert world.drive() == "gate:in_doubt"
    world.send("stop")
    assert world.drive() == "ended"
    world.send("resume")
    assert world.drive() == "gate:in_doubt"
    world.live()
    assert list(world.effects.values()) == [1]


@pytest.mark.spec("J4")
@pytest.mark.parametrize("tick", range(1, 30))
def test_a_crash_anywhere_changes_nothing_in_how_the_run_ends(tick: int) -> None:
    """The last step allowed is the one that completes: asking for it twice may not use it up."""
    plan = Plan(
        [LOOKS, Answer(calls=(0, 0)), Answer(calls=(5,))],
        worlds=[Verified.DONE],
        steady=True,
        limits=Limits(max_steps=3),
    )
    assert check(replace(plan, crashes=frozenset({tick}))).end_reason == "no_criteria"
