"""Each guard at its boundary, warnings once, extensions by people, and nonsense granted by nobody."""

from __future__ import annotations

import itertools
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine.decide import decide
from loops.engine.effects import CallModel, End
from loops.engine.measures import limits as guards
from loops.engine.measures.extensions import least, limit_gate, suggested
from loops.engine.measures.limits import LimitHit, answer_tokens, extended, reached, tokens_left, usage, warnings
from loops.engine.state.lifecycle import Event, Phase
from loops.engine.state.limits import Limits
from loops.engine.state.recovery import RecoveryState
from loops.engine.state.run import RunState
from loops.engine.state.thresholds import OFF
from loops.engine.values import Usage
from loops.engine.verification.diagnosis import repair_budget
from tests.fakes import World, done, says, spec
from tests.unit.engine.effort import examples

BOUNDS = Limits(max_steps=10, max_seconds=100, max_failures=3, max_tokens=10_000, max_cost_microusd=1_000)
LOOK = ("look", {"at": "it"})


def state(**changes: Any) -> RunState:
    return replace(RunState(spec=spec(), limits=BOUNDS), **changes)


GUARDS = [
    ("max_seconds", {"active_us": 99_999_999}, {"active_us": 100_000_000}, 100),
    ("max_steps", {"step": 9}, {"step": 10}, 10),
    ("max_steps", {"step": 19, "step_base": 10}, {"step": 20, "step_base": 10}, 10),
    ("max_failures", {"failures_in_row": 2}, {"failures_in_row": 3}, 3),
    ("max_tokens", {"tokens": 10_000 - 256}, {"tokens": 10_000 - 255}, 10_000 - 255),
    ("max_tokens", {"tokens": 5_000, "context_tokens": 4_744}, {"tokens": 5_000, "context_tokens": 4_745}, 5_000),
    ("max_cost_usd", {"cost_microusd": 999}, {"cost_microusd": 1_000}, 1_000),
    ("max_backtracks", {"recovering": RecoveryState(backtracks=4)}, {"recovering": RecoveryState(backtracks=5)}, 5),
]


@pytest.mark.spec("D1")
@pytest.mark.parametrize(("name", "below", "at", "used"), GUARDS)
def test_a_guard_holds_at_its_bound_and_not_before(
    name: str, below: dict[str, Any], at: dict[str, Any], used: int
) -> None:
    assert reached(state(**below)) is None
    hit = reached(state(**at))
    assert hit is not None
    assert (hit.limit, hit.used) == (name, used)


@pytest.mark.spec("D1", "J4")
@pytest.mark.parametrize("asking", [{"requested": True}, {"model_attempt": 2}])
def test_the_last_step_can_be_asked_for_again(asking: dict[str, Any]) -> None:
    """A step counts when it has an answer: a lost worker or a failed call does not use it up."""
    assert reached(state(step=10, **asking)) is None
    assert reached(state(step=11, **asking)) is not None
    assert usage(state(step=0, step_base=0, **asking))["max_steps"] == (0, 10)


@pytest.mark.spec("D1")
def test_guards_are_asked_in_their_order() -> None:
    everything = state(active_us=10**9, step=99, failures_in_row=9, tokens=10**6, cost_microusd=10**6)
    assert reached(everything) == LimitHit("max_seconds", 1000, 100)


def test_every_limit_has_a_label_and_a_guard() -> None:
    assert set(guards.LABELS) == set(usage(state()))
    assert len(guards.GUARDS) == len(guards.LABELS) - 1, "repairs are asked about where they begin"
    assert {name for name, *_ in GUARDS} == guards.LABELS.keys() - {"max_repairs"}
    assert all(_used_up(name, 1, 0, 0) for name in guards.LABELS)


@pytest.mark.spec("D3")
@pytest.mark.parametrize(
    ("below", "at", "name"),
    [
        ({"step": 7}, {"step": 8}, "max_steps"),
        ({"active_us": 79_999_999}, {"active_us": 80_000_000}, "max_seconds"),
        ({"tokens": 7_999}, {"tokens": 8_000}, "max_tokens"),
        ({"cost_microusd": 799}, {"cost_microusd": 800}, "max_cost_usd"),
    ],
)
def test_warnings_come_at_eighty_percent_and_once(below: dict[str, Any], at: dict[str, Any], name: str) -> None:
    assert warnings(state(**below)) == ()
    assert [hit.limit for hit in warnings(state(**at))] == [name]
    assert warnings(state(**at, warned=frozenset({name}))) == ()


@pytest.mark.spec("D3")
def test_failures_are_no_budget_to_warn_of() -> None:
    assert warnings(state(failures_in_row=3)) == ()


@pytest.mark.spec("D3")
def test_a_run_warns_once_and_again_after_an_extension() -> None:
    world = World(lambda request: says("", LOOK), limits={"max_steps": 5, "circles": OFF})
    world.drive()
    assert [fact.bound for fact in world.journal.of(_warned())] == [5]
    world.decide("extend", max_steps=10)
    world.drive()
    assert [(fact.used, fact.bound) for fact in world.journal.of(_warned())] == [(4, 5), (8, 10)]


def _warned() -> type[Any]:
    from loops.engine.facts import LimitWarned

    return LimitWarned


@pytest.mark.spec("A4")
@examples(usual=60, full=1000)
@given(tokens=st.integers(0, 12_000), context=st.integers(0, 12_000))
def test_an_answer_never_gets_more_than_is_left(tokens: int, context: int) -> None:
    asked = state(tokens=tokens, context_tokens=context)
    if reached(asked) is None:
        assert guards.SMALLEST_ANSWER <= answer_tokens(asked) <= guards.LARGEST_ANSWER
        assert tokens + context + answer_tokens(asked) <= BOUNDS.max_tokens
    else:
        assert tokens_left(asked) < guards.SMALLEST_ANSWER


@pytest.mark.spec("A4")
def test_no_request_asks_for_more_than_is_left() -> None:
    spent = itertools.count(1)
    world = World(
        lambda request: says("", ("look", {"at": next(spent)}), usage=_usage(700)), limits={"max_tokens": 4_000}
    )
    assert world.drive() == "gate:limit_reached"
    asked = [request.max_tokens for request in world.models.requests]
    assert all(700 * number + most <= 4_000 for number, most in enumerate(asked)), asked
    assert asked == sorted(asked, reverse=True)


@pytest.mark.spec("D3")
@examples(usual=60, full=1000)
@given(
    name=st.sampled_from(sorted(guards.LABELS)),
    bound=st.integers(1, 10**9),
    over=st.integers(0, 10**6),
    context=st.integers(0, 10**6),
)
def test_what_is_suggested_and_the_least_let_the_run_go_on(name: str, bound: int, over: int, context: int) -> None:
    """Whoever grants it is not asked again at once."""
    reached_it = state(**_used_up(name, bound, over, context))
    field = {"max_cost_usd": "max_cost_microusd"}.get(name, name)
    reached_it = replace(reached_it, limits=replace(Limits(), **{field: bound}))
    hit = LimitHit(name, *usage(reached_it)[name])
    for granted in (least(reached_it, hit), suggested(reached_it, hit)):
        after = replace(reached_it, limits=replace(reached_it.limits, **{field: granted}))
        assert granted > bound
        assert name not in {found.limit for guard in guards.GUARDS if (found := guard(after))}
        assert not repair_budget(after)


def _used_up(name: str, bound: int, over: int, context: int) -> dict[str, Any]:
    return {
        "max_steps": {"step": bound + over},
        "max_seconds": {"active_us": (bound + over) * 1_000_000},
        "max_failures": {"failures_in_row": bound + over},
        "max_tokens": {"tokens": bound + over, "context_tokens": context},
        "max_cost_usd": {"cost_microusd": bound + over},
        "max_repairs": {"repairs": bound + over, "phase": Phase.CRITIQUE},
        "max_backtracks": {"recovering": RecoveryState(backtracks=bound + over)},
    }[name]


@pytest.mark.spec("D3")
@pytest.mark.parametrize(
    ("payload", "field", "value"),
    [
        ({"max_steps": 30}, "max_steps", 30),
        ({"max_steps": 30.9}, "max_steps", 30),
        ({"max_cost_usd": 0.5}, "max_cost_microusd", 500_000),
        ({"max_seconds": 900}, "max_seconds", 900),
        ({"max_tokens": 2**53}, "max_tokens", 2**53),
    ],
)
def test_people_extend_limits(payload: dict[str, Any], field: str, value: int) -> None:
    assert extended(BOUNDS, payload) == replace(BOUNDS, **{field: value})


NONSENSE = [0, -1, 0.5, True, None, "30", [], {}, float("nan"), float("inf"), float("-inf"), 1e300, 10**400, 2**53 + 1]


@pytest.mark.spec("D3")
@pytest.mark.parametrize("name", ["max_steps", "max_seconds", "max_failures", "max_tokens"])
@pytest.mark.parametrize("value", NONSENSE, ids=lambda value: str(value)[:8])
def test_nonsense_grants_nothing(name: str, value: Any) -> None:
    assert extended(BOUNDS, {name: value}) == BOUNDS


@pytest.mark.parametrize("value", [0, -1, None, "1", float("nan"), float("inf"), 1e300])
def test_nonsense_grants_no_money(value: Any) -> None:
    assert extended(BOUNDS, {"max_cost_usd": value}) == BOUNDS


def test_only_limits_that_exist_are_granted() -> None:
    everything = {field.name: 77 for field in fields(Limits)} | {"spec": 1, "": 2}
    granted = extended(BOUNDS, everything)
    untouched = (
        "max_model_attempts",
        "max_extensions",
        "calls_per_reply",
        "warn_at",
    )
    assert [getattr(granted, name) for name in untouched] == [getattr(BOUNDS, name) for name in untouched]
    assert (granted.max_steps, granted.max_repairs, granted.max_backtracks) == (77, 77, 77)


@pytest.mark.spec("D1", "D3")
@pytest.mark.parametrize("value", [float("nan"), 1e300, 2**53 + 1, 0], ids=lambda value: str(value)[:8])
def test_nonsense_at_the_gate_asks_again_and_only_so_often(value: float) -> None:
    world = World(lambda request: says("", LOOK), limits={"max_steps": 1, "max_extensions": 3})
    asked = 0
    while (why := world.drive()) == "gate:limit_reached" and asked < 9:
        asked += 1
        world.decide("extend", max_steps=value)
    assert (why, asked, world.state.end_reason) == ("ended", 4, "max_steps")
    assert world.state.step == 1


@pytest.mark.spec("D3")
def test_a_large_limit_is_written_out_for_people() -> None:
    world = World(lambda request: says("", LOOK, usage=_usage(1_234_567)), limits={"max_tokens": 1_300_000})
    world.drive()
    assert world.gatekeeper.opened[0].title == "Limit reached: 1,234,567 of 1,300,000 tokens"


@pytest.mark.spec("A6")
def test_nobody_can_grant_more_answers_than_the_cap() -> None:
    """Twenty thousand, written out: whoever changes the figure is to mean it."""
    most = Limits(
        **dict.fromkeys(("max_steps", "max_seconds", "max_tokens", "max_cost_microusd"), guards.LARGEST_BOUND)
    )
    assert isinstance(decide(state(limits=most, phase=Phase.ACT, model_calls=19_999)), CallModel)
    assert decide(state(limits=most, phase=Phase.ACT, model_calls=20_000)) == End(Event.BUDGET_EXCEEDED, "global_cap")


def _usage(tokens: int) -> Any:
    from loops.engine.values import Usage

    return Usage(tokens, 0, cost_microusd=50)


@pytest.mark.spec("D2", "X5")
class TestAModelWithoutAPrice:
    """Found under way, where a person set the limit: the run asks instead of spending without a bound."""

    strict = replace(BOUNDS, allow_unknown_cost=0)

    def test_is_put_before_a_person(self) -> None:
        met = state(limits=self.strict, cost_unknown=True, cost_microusd=10)
        assert reached(met) == LimitHit("max_cost_usd", 10, 1_000)
        gate = limit_gate(replace(met, reached="max_cost_usd"))
        assert gate.kind == "no_price"
        assert gate.title.startswith("No price known: at least ")
        assert any("without a known price" in reason for reason in gate.reasons)

    def test_is_asked_about_once(self) -> None:
        met = state(limits=self.strict, cost_unknown=True, cost_microusd=10)
        granted = extended(met.limits, {"max_cost_usd": 0.002}, unpriced=True)
        assert reached(replace(met, limits=granted)) is None
        assert granted.max_cost_microusd == 2_000

    def test_an_extension_for_another_reason_confirms_nothing(self) -> None:
        assert extended(self.strict, {"max_cost_usd": 0.002}).allow_unknown_cost == 0
        assert extended(self.strict, {"max_steps": 30}, unpriced=True).allow_unknown_cost == 0

    def test_is_put_before_a_person_whatever_else_they_granted(self) -> None:
        world = World(
            lambda request: says("", LOOK, usage=Usage(1, 1, cost_microusd=None)),
            limits={"max_steps": 1, "allow_unknown_cost": 0},
        )
        assert world.drive() == "gate:limit_reached"
        assert world.gatekeeper.opened[-1].view["limit"] == "max_steps"
        world.decide("extend", max_steps=9)
        assert world.drive() == "gate:no_price"
        assert world.gatekeeper.opened[-1].title.startswith("No price known: at least ")
        assert len(world.models.requests) == 1

    def test_a_person_lets_it_go_on_without_a_bound_once_and_no_extension_is_used(self) -> None:
        answers = iter([says("", LOOK, usage=Usage(1, 1, cost_microusd=None))] * 3)
        world = World(lambda request: next(answers, done("3")), limits={"allow_unknown_cost": 0})
        assert world.drive() == "gate:no_price"
        world.decide("approve")
        assert world.drive() == "ended"
        assert (world.state.end_reason, world.state.extensions) == ("no_criteria", 0)
        assert len(world.gatekeeper.opened) == 1

    def test_a_person_ends_it_by_the_limit_that_cannot_bind(self) -> None:
        world = World(
            lambda request: says("", LOOK, usage=Usage(1, 1, cost_microusd=None)), limits={"allow_unknown_cost": 0}
        )
        assert world.drive() == "gate:no_price"
        world.decide("reject", reason="too dear")
        assert world.drive() == "ended"
        assert world.state.end_reason == "max_cost_usd"

    def test_what_is_known_of_its_cost_stays_bound(self) -> None:
        met = state(limits=self.strict, cost_unknown=True, cost_microusd=1_000, reached="max_cost_usd")
        assert limit_gate(met).kind == "no_price"
        confirmed = replace(met, limits=replace(self.strict, allow_unknown_cost=1))
        assert reached(confirmed) == LimitHit("max_cost_usd", 1_000, 1_000)
        assert limit_gate(confirmed).kind == "limit_reached"

    def test_binds_nobody_who_was_asked_before_or_set_no_limit(self) -> None:
        assert reached(state(cost_unknown=True)) is None, "journals of before mean the same"
        assert reached(state(limits=self.strict)) is None
