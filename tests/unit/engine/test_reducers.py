"""What facts mean: folded the same way every time, and refused when they cannot have happened."""

from __future__ import annotations

import itertools
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine import facts as f
from loops.engine.apply import HANDLERS, ImpossibleFact, apply, replay
from loops.engine.encoding import canonical
from loops.engine.encoding.codec import from_plain, to_plain
from loops.engine.state.lifecycle import Event, Phase, UndefinedTransition
from loops.engine.state.run import RunState
from loops.engine.values import Access, ModelRole, StopReason, ToolCall, ToolResult, Usage
from tests.fakes import Tools, World, done, says, spec
from tests.unit.engine import adversary, plain
from tests.unit.engine.effort import examples

STARTED = f.RunStarted(spec=spec(), system="Be good.", prompt_version="p", tools_sha256="t", at=5)
REQUESTED = f.ModelRequested(role=ModelRole.ACTOR, model="m", request_sha256="r")
CALL_IDS = ("", "c1.0", "c1.1", "c2.0", "c9.9")


def answered(*calls: str, **more: Any) -> f.ModelAnswered:
    made = tuple(ToolCall(f"p{number}", name) for number, name in enumerate(calls))
    common = {"role": ModelRole.ACTOR, "model": "m", "provider": "x", "model_id": "x", "stop": StopReason.TOOL_USE}
    return f.ModelAnswered(**(common | {"usage": Usage(10, 5), "calls": made} | more))  # type: ignore[arg-type]


def folded(*facts: f.Fact) -> RunState:
    return replay([STARTED, *facts])


COMPLETED = f.ToolCompleted(call_id="c1.0", tool="look", result=ToolResult(ok=True, content=""))
OPENED = f.GateOpened(gate="g", kind="question", title="?", call_id="c1.0")
DECIDED = f.GateDecided(gate="g", kind="question", verdict="respond", payload={"answer": "a"}, call_id="c1.0")
STEP = f.StepCompleted(step=1, success=True)
PHASES = [
    f.PhaseEntered(phase=after, event=event, came_from=before)
    for before, event, after in [
        (Phase.PLAN, Event.HALTED, Phase.HALT),
        (Phase.PLAN, Event.ERROR, Phase.FAIL),
        (Phase.PLAN, Event.PLAN_READY, Phase.DECOMPOSE),
    ]
]

IMPOSSIBLE = {
    "a second start": ([], STARTED),
    "an answer without a request": ([], answered()),
    "a request while an answer is open": ([REQUESTED, answered("look")], REQUESTED),
    "a request before the step is over": ([REQUESTED, answered()], REQUESTED),
    "a judgement of no call": ([REQUESTED, answered("look")], f.CallJudged(call_id="c1.1", access=Access.ALLOW)),
    "an intent of no call": (
        [],
        f.ToolIntended(call_id="c1.0", tool="look", arguments={}, idempotency_key="k"),
    ),
    "an intent after the outcome": (
        [REQUESTED, answered("look"), COMPLETED],
        f.ToolIntended(call_id="c1.0", tool="look", arguments={}, idempotency_key="k"),
    ),
    "a second outcome": ([REQUESTED, answered("look"), COMPLETED], COMPLETED),
    "an outcome of an earlier step": ([REQUESTED, answered("look"), COMPLETED, STEP], COMPLETED),
    "a step that ends with an open call": ([REQUESTED, answered("look")], STEP),
    "a second gate": ([REQUESTED, answered("ask_question"), OPENED], replace(OPENED, gate="h")),
    "a gate on no call": ([], OPENED),
    "a decision without a gate": ([], DECIDED),
    "a decision on another gate": ([REQUESTED, answered("ask_question"), OPENED], replace(DECIDED, gate="h")),
    "a decision twice": ([REQUESTED, answered("ask_question"), OPENED, DECIDED], DECIDED),
    "a void approval of no call": ([], f.ApprovalVoided(call_id="c1.0", gate="g", reason="r")),
    "work after a stop": ([PHASES[0]], REQUESTED),
    "work after the end": ([PHASES[1]], REQUESTED),
    "a message after the end": ([PHASES[1]], f.MessageReceived(text="hello")),
    "a phase that is not the present one": ([PHASES[2]], PHASES[2]),
    "an end of another phase": ([], f.PhaseEntered(phase=Phase.FAIL, event=Event.ERROR, came_from=Phase.ACT)),
    "a kind nobody knows": ([], f.Fact()),
}


@pytest.mark.spec("A1", "A4")
@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_impossible_fact_is_refused_and_changes_nothing(name: str) -> None:
    history, fact = IMPOSSIBLE[name]
    state = folded(*history)
    before = canonical.encode(to_plain(state))
    with pytest.raises((ImpossibleFact, UndefinedTransition)):
        apply(state, fact)
    assert canonical.encode(to_plain(state)) == before


def test_a_history_begins_with_its_start() -> None:
    for history in ([], [REQUESTED]):
        with pytest.raises(ImpossibleFact):
            replay(history)


def run_of(plan: adversary.Plan) -> adversary.World:
    world = adversary.World(plan)
    world.live()
    return world


@pytest.mark.spec("A4")
@examples(usual=60, full=1500)
@given(adversary.plans, plain.facts, st.sampled_from(CALL_IDS), st.integers(0, 10**6))
def test_any_fact_on_any_state_is_folded_or_refused(plan: adversary.Plan, fact: f.Fact, call_id: str, at: int) -> None:
    """Nothing but the two named errors, whatever is read from a journal."""
    states = run_of(plan).journal.states
    state = states[at % len(states)]
    if "call_id" in {field.name for field in fields(fact)}:
        fact = replace(fact, call_id=call_id)  # type: ignore[call-arg]
    if isinstance(fact, f.GateDecided) and state.gate is not None:
        fact = replace(fact, gate=state.gate.id, kind=state.gate.kind)
    before = to_plain(state)
    try:
        after = apply(state, fact)
    except (ImpossibleFact, UndefinedTransition):
        assert to_plain(state) == before
    else:
        assert after.seq == state.seq + 1
        assert after.last_at >= state.last_at
        assert after.active_us >= state.active_us
        assert to_plain(state) == before


@pytest.mark.spec("J2", "A3")
@examples(usual=25, full=600)
@given(adversary.plans, st.integers(0, 10**6))
def test_a_checkpoint_and_the_facts_after_it_are_the_whole_history(plan: adversary.Plan, at: int) -> None:
    journal = run_of(plan).journal
    at %= len(journal.facts)
    stored = canonical.decode(canonical.encode(to_plain(journal.states[at])))
    state = from_plain(RunState, stored)
    assert state == journal.states[at]
    for fact in journal.facts[at + 1 :]:
        state = apply(state, fact)
    assert state == journal.states[-1]


@pytest.mark.spec("J2")
@examples(usual=25, full=600)
@given(adversary.plans)
def test_in_which_order_abilities_hear_of_a_fact_means_nothing(plan: adversary.Plan) -> None:
    """But that the one whose fact it is comes last."""
    journal = run_of(plan).journal
    for state, fact, after in zip(journal.states, journal.facts[1:], journal.states[1:], strict=False):
        *others, own = HANDLERS[type(fact)]
        for order in itertools.permutations(others) if len(others) > 1 else ():
            folded = state
            for handler in (*order, own):
                folded = handler(folded, fact)
            assert replace(after, seq=0, last_at=0, active_us=0) == replace(folded, seq=0, last_at=0, active_us=0)


def test_of_every_fact_it_is_told_what_it_means() -> None:
    assert set(f.KINDS.values()) - HANDLERS.keys() == {f.RunStarted}, "the first, of which the state is made"


def test_the_ability_whose_fact_it_is_comes_last() -> None:
    shared = {kind: handlers for kind, handlers in HANDLERS.items() if len(handlers) > 1}
    assert {f.StepCompleted, f.ToolCompleted, f.ModelAnswered} <= shared.keys()
    for kind, handlers in shared.items():
        ability = kind.__module__.removeprefix("loops.engine.facts.")
        abilities = [handler.__module__.split(".")[2] for handler in handlers]
        assert abilities[-1] == ability, kind
        assert len({*abilities}) == len(abilities), f"an ability says twice what {kind.__name__} means"


@pytest.mark.spec("A4", "J7")
@examples(usual=25, full=600)
@given(adversary.plans)
def test_some_numbers_only_grow(plan: adversary.Plan) -> None:
    states = run_of(plan).journal.states
    for name in (
        "seq",
        "step",
        "tokens",
        "cost_microusd",
        "active_us",
        "last_at",
        "model_calls",
        "tool_calls",
        "repairs",
    ):
        values = [getattr(state, name) for state in states]
        assert values == sorted(values), name
    assert all(len(state.calls) <= 12 * 3 for state in states)


@pytest.mark.spec("D1")
def test_waiting_for_people_takes_no_time() -> None:
    state = folded(REQUESTED, answered("ask_question"), replace(OPENED, at=1_000_005))
    assert state.active_us == 1_000_000
    state = apply(state, replace(DECIDED, at=9_000_000_000))
    assert state.active_us == 1_000_000
    assert apply(state, replace(STEP, at=9_000_000_007)).active_us == 1_000_007


def test_time_never_runs_backwards() -> None:
    state = folded(replace(REQUESTED, at=50), replace(answered(), at=20))
    assert state.last_at == 50
    assert state.active_us == 45


@pytest.mark.spec("Q1", "Q4")
@pytest.mark.parametrize(
    ("verdict", "goes_on"), [("approve", True), ("respond", True), ("reject", False), ("expire", False)]
)
@pytest.mark.parametrize(
    ("kind", "reason"),
    [("plan_approval", "escalated"), ("low_confidence", "low_confidence"), ("long_task", "not_confirmed")],
)
def test_a_gate_of_no_call_lets_the_run_go_on_or_ends_it(verdict: str, goes_on: bool, kind: str, reason: str) -> None:
    fatal = "" if goes_on else reason
    opened = f.GateOpened(gate="g", kind=kind, title="?")
    state = folded(opened, f.GateDecided(gate="g", kind=kind, verdict=verdict))
    assert state.gate is None
    assert state.fatal == fatal


@pytest.mark.spec("K2")
def test_a_message_to_a_stopped_run_is_kept_and_changes_no_phase() -> None:
    state = folded(PHASES[0], f.RunEnded(phase=Phase.HALT, reason="operator_stop", report={}, report_kind="HaltRecord"))
    state = apply(state, f.MessageReceived(text="try the other file"))
    assert state.phase is Phase.HALT
    assert apply(state, f.RunResumed()).phase is Phase.PLAN


@pytest.mark.spec("K2")
def test_the_model_hears_what_was_said_while_its_run_was_stopped() -> None:
    world = World([says("", ("converse", {"message": "hm"})), done()], Tools({}))
    assert world.drive() == "message"
    for kind, why in [("stop", "ended"), ("message", "ended"), ("resume", "ended")]:
        world.send(kind, text="try the other file")
        assert world.drive() == why
    assert world.state.phase is Phase.COMMIT
    assert "try the other file" in str(world.models.requests[-1].messages)
