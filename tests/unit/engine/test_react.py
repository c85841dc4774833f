"""What ReAct does next, state by state: one table, then the whole of a few answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loops.engine import facts as f
from loops.engine import prompts
from loops.engine.decide import decide
from loops.engine.effects import CallModel, Effect, End, JudgeCall, OpenGate, Record, RecoverTool, Rest, RunTool, Wait
from loops.engine.facts import Check
from loops.engine.state.lifecycle import Event, Phase
from loops.engine.state.loop_escalation import LoopEscalation
from loops.engine.state.outage import Outage
from loops.engine.state.recovery import RecoveryState
from loops.engine.state.run import OpenGate as Gate
from loops.engine.state.run import PendingCall, RunState
from loops.engine.state.step_window import Seen
from loops.engine.strategies import UnknownLoop, get, names
from loops.engine.strategies.call_cycle import VOIDED_AT_MOST
from loops.engine.strategies.react import React
from loops.engine.values import Access, StopReason, ToolCall, ToolResult
from tests.fakes import Tools, World, done, says, spec

LOOK = ("look", {"at": "it"})
SAME_ERROR = tuple(Seen(step, error="e") for step in (1, 2, 3))
ALL_RUNGS = LoopEscalation(rung=4, broken_at=1)


def state(*calls: PendingCall, **changes: Any) -> RunState:
    answered = {"answered": True, "step": 1} if calls else {}
    return replace(RunState(spec=spec(), limits=spec().limits, phase=Phase.ACT), calls=calls, **answered | changes)


def call(name: str = "look", number: int = 0, error: str = "", **pending: Any) -> PendingCall:
    arguments = {"question": "Which?", "result": "r", "message": "m"}
    return PendingCall(ToolCall(f"c1.{number}", name, arguments, error), **pending)


def judged(name: str = "look", access: Access = Access.ALLOW, **more: Any) -> PendingCall:
    return call(name, status="judged", access=access, **more)


def verified(*checks: Check, **more: Any) -> RunState:
    """A result that was checked; a person is asked where no command proves it."""
    reviewed = spec(final_review="unless_verified")
    return replace(state(phase=Phase.VERIFY, result="r", checks=checks, **more), spec=reviewed)


def critique(**more: Any) -> RunState:
    return state(phase=Phase.CRITIQUE, result="r", checks=(Check("a", "failed"),), **more)


def finished(name: str = "look", ok: bool = True, **more: Any) -> PendingCall:
    return call(name, status="done", ok=ok, **more)


def kind(effect: Effect) -> str:
    """A short word for an effect: its class, and what is special about it."""
    match effect:
        case Record(facts):
            return "record " + " ".join(_fact(fact) for fact in facts)
        case OpenGate():
            return f"gate {effect.kind}"
        case End():
            return f"end {effect.reason}"
        case Rest(why):
            return f"rest {why}"
        case RunTool() | JudgeCall() | RecoverTool():
            return f"{type(effect).__name__} {effect.call.id}"
        case _:
            return type(effect).__name__


def _fact(fact: f.Fact) -> str:
    return f"refused:{fact.why}" if isinstance(fact, f.ToolRefused) else type(fact).__name__


TEXT = {"answered": True, "stopped_without_calls": True, "last_text": "t", "last_stop": "end_turn", "step": 1}
STATES = {
    # the order in which everything else comes before the loop
    "a stop comes first": (state(stop_requested=True, gate=Gate("g", "question"), paused=True), "end operator_stop"),
    "a gate waits": (state(gate=Gate("g", "question"), paused=True, fatal="refused"), "rest gate:question"),
    "a pause waits": (state(paused=True, fatal="refused"), "rest paused"),
    "a fatal reason ends": (state(fatal="refused", wake_at=9), "end refused"),
    "backoff waits": (state(wake_at=9), "Wait"),
    "a run without a model waits for one": (state(outage=Outage(model="m", until=9)), "AwaitModel"),
    "converse waits for a message": (state(awaiting_message=True), "rest message"),
    "the step of converse is closed first": (
        state(finished("converse"), awaiting_message=True),
        "record StepCompleted",
    ),
    "the cap over everything": (state(model_calls=20_000), "end global_cap"),
    "an end is an end": (state(phase=Phase.FAIL, stop_requested=True), "rest ended"),
    # between two answers
    "the model is asked": (state(), "CallModel"),
    "a limit is noticed": (state(step=20), "record LimitReached"),
    "a limit is put to a person": (state(step=20, reached="max_steps"), "gate limit_reached"),
    "a warning comes once": (state(step=16), "record LimitWarned Reminded"),
    "a warned run goes on": (state(step=16, warned=frozenset({"max_steps"})), "CallModel"),
    "a loop is noticed before a limit": (state(recent=SAME_ERROR, failures_in_row=3), "record LoopDetected"),
    "a loop is put to a person": (state(loop_found="circles", circle=ALL_RUNGS), "gate loop_detected"),
    "a circle is broken before a person is asked": (state(loop_found="circles"), "record LoopBroken Reminded"),
    "a limit is put before a loop": (state(loop_found="circles", reached="max_steps"), "gate limit_reached"),
    # an answer with calls
    "a call is judged": (state(call()), "JudgeCall c1.0"),
    "calls keep their order": (state(finished(), call(number=1), call(number=2)), "JudgeCall c1.1"),
    "an allowed call runs": (state(judged()), "RunTool c1.0"),
    "an asked call asks": (
        state(judged(access=Access.ASK, gate_kind="irreversible_action")),
        "gate irreversible_action",
    ),
    "an asked call asks without a kind": (state(judged(access=Access.ASK)), "gate tool_approval"),
    "a denied call is refused": (state(judged(access=Access.DENY)), "record PermissionDenied refused:denied"),
    "an invalid call is refused": (state(judged(access=Access.DENY, invalid=True)), "record refused:invalid"),
    "a malformed call is not even judged": (state(call(error="cut")), "record refused:malformed"),
    "an approved call runs": (state(call(status="approved", gate="g")), "RunTool c1.0"),
    "a rejected call is refused": (state(call(status="refused", rejection="no")), "record refused:rejected"),
    "an intent without outcome is recovered": (state(call(status="intended")), "RecoverTool c1.0"),
    "a call a person lets run again runs": (state(call(status="again", gate="g", attempt=2)), "RunTool c1.0"),
    "a call in doubt that keeps changing is given up": (
        state(call(status="intended", voided=VOIDED_AT_MOST)),
        "record refused:in_doubt",
    ),
    "a void approval is asked again": (state(call(voided=VOIDED_AT_MOST - 1)), "JudgeCall c1.0"),
    "a void approval is given up": (state(call(voided=VOIDED_AT_MOST)), "record refused:void"),
    "a ninth call is surplus": (
        state(*(finished(number=n) for n in range(8)), call(number=8)),
        "record refused:surplus",
    ),
    "after a breaker everything is surplus": (
        state(finished("ask_question"), call(number=1)),
        "record refused:surplus",
    ),
    "a breaker that failed breaks nothing": (
        state(finished("ask_question", ok=False), call(number=1)),
        "JudgeCall c1.1",
    ),
    "after a refusal nothing runs": (state(call(), fatal="refused"), "record refused:surplus"),
    "the step is over": (state(finished()), "record StepCompleted"),
    # loop-breaking tools
    "task_completion proposes": (state(judged("task_completion")), "record ResultProposed"),
    "ask_question asks": (state(judged("ask_question")), "gate question"),
    "converse is shown": (state(judged("converse")), "record ToolCompleted"),
    "a denied breaker breaks nothing": (
        state(judged("task_completion", access=Access.DENY)),
        "record PermissionDenied refused:denied",
    ),
    # an answer without calls
    "a first text is reminded": (state(**TEXT), "record StepCompleted Reminded"),
    "a second text is the result": (state(**TEXT, plain_answers=1), "record StepCompleted ModelStopped ResultProposed"),
    "an empty text is no result": (
        state(**TEXT | {"last_text": " "}, plain_answers=1),
        "record StepCompleted Reminded",
    ),
    "a cut text is no result": (
        state(**TEXT | {"last_stop": "max_tokens"}, plain_answers=1),
        "record StepCompleted Reminded",
    ),
    "a stream that broke off is no result": (
        state(**TEXT | {"last_stop": "cut"}, plain_answers=1),
        "record StepCompleted Reminded",
    ),
    "a paused turn just goes on": (state(**TEXT | {"last_stop": "pause_turn"}), "record StepCompleted"),
    "a refusal closes its step": (state(**TEXT, fatal="refused"), "record StepCompleted"),
    # the way to verification
    "a result is verified": (state(result="r"), "record PhaseEntered"),
    "a repaired result is verified": (state(result="r", phase=Phase.REPAIR, repairs=1), "record PhaseEntered"),
    "a repair asks the model": (state(phase=Phase.REPAIR, repairs=1), "CallModel"),
    "a repair beyond its limit is noticed": (critique(repairs=3), "record LimitReached"),
    "a repair beyond its limit is put to a person": (critique(repairs=3, reached="max_repairs"), "gate limit_reached"),
    "a repair within its limit is begun": (critique(repairs=2), "record DiagnosisMade PhaseEntered"),
    "a repair that was begun beyond its limit is noticed": (
        state(phase=Phase.REPAIR, repairs=4),
        "record LimitReached",
    ),
    "too many approaches are noticed": (state(recovering=RecoveryState(backtracks=5)), "record LimitReached"),
    "a proven result is committed": (verified(Check("a", "passed", method="command")), "end criteria_met"),
    "a result that fails a check is not": (verified(Check("a", "failed")), "record PhaseEntered"),
    "what nothing proves is put before a person": (verified(Check("a", "unproven")), "gate final_review"),
    "what a person accepted is committed": (verified(Check("a", "unproven"), reviewed=True), "end accepted"),
    "one criterion without proof is put before a person": (
        verified(Check("a", "passed", method="command"), Check("b", "unproven", method="none")),
        "gate final_review",
    ),
    "a result that only looks right is put before a person": (
        verified(Check("a", "passed", method="schema")),
        "gate final_review",
    ),
    "what a person sent back is not": (
        verified(Check("a", "passed", method="command"), review_rejection="no"),
        "record PhaseEntered",
    ),
    "planning passes through": (state(phase=Phase.PLAN), "record PhaseEntered PhaseEntered PhaseEntered"),
    "a halted plan goes on where it was": (state(phase=Phase.RETRIEVE), "record PhaseEntered"),
}


@pytest.mark.spec("B2", "C3", "C4", "C6", "D1", "E6", "I3", "J2", "J5", "K1", "Q5")
@pytest.mark.parametrize("name", STATES)
def test_what_comes_next(name: str) -> None:
    given, expected = STATES[name]
    assert kind(decide(given)) == expected


@pytest.mark.spec("B2")
@pytest.mark.parametrize("name", STATES)
def test_the_same_state_always_gives_the_same_effect(name: str) -> None:
    given, _ = STATES[name]
    assert decide(given) == decide(replace(given))


@pytest.mark.spec("B1")
def test_react_is_registered_by_name() -> None:
    assert "react" in names()
    assert isinstance(get("react"), React)
    with pytest.raises(UnknownLoop, match="react"):
        get("ract")


@pytest.mark.spec("E6")
def test_attempts_are_counted_up() -> None:
    effect = decide(state(model_attempt=2))
    assert isinstance(effect, CallModel)
    assert effect.attempt == 3
    assert decide(state(wake_at=7)) == Wait(7)


@pytest.mark.spec("A1", "B2")
def test_planning_takes_every_arrow_of_the_table() -> None:
    effect = decide(state(phase=Phase.PLAN))
    assert isinstance(effect, Record)
    arrows = [(fact.came_from, fact.event, fact.phase) for fact in effect.facts if isinstance(fact, f.PhaseEntered)]
    assert arrows == [
        (Phase.PLAN, Event.PLAN_READY, Phase.DECOMPOSE),
        (Phase.DECOMPOSE, Event.DECOMPOSED, Phase.RETRIEVE),
        (Phase.RETRIEVE, Event.EVIDENCE_READY, Phase.ACT),
    ]


@pytest.mark.spec("C3")
def test_the_model_learns_why_each_call_did_not_run() -> None:
    cut = replace(says("", LOOK), calls=(ToolCall("p0", "look", {}, error="the JSON ends at character 7"),))
    denied = Tools({"look": lambda a: "seen", "wipe": lambda a: "gone"}, {"wipe": Access.DENY})
    replies = [cut, says("", ("nonsense", {}), ("wipe", {}), *[LOOK] * 9), done()]
    world = World(replies, denied)
    assert world.drive() == "ended"
    refused = [(fact.why, fact.message) for fact in world.journal.of(f.ToolRefused)]
    assert [why for why, _ in refused] == ["malformed", "invalid", "denied", *["surplus"] * 3]
    told = [
        [block["content"] for block in request.messages[-1]["content"] if block["type"] == "tool_result"]  # type: ignore
        for request in world.models.requests[1:]
    ]
    assert "the JSON ends at character 7" in told[0][0]
    assert "unknown tool nonsense" in told[1][0]
    assert "Not allowed" in told[1][1]
    assert "at most 8 calls" in told[1][-1]
    assert len(world.tools.ran) == 6


@pytest.mark.spec("C3", "D1")
def test_texts_in_between_start_the_count_of_plain_answers_anew() -> None:
    world = World([says("hm"), says("", LOOK), says("hm again"), says("Really: done.")])
    assert world.drive() == "ended"
    assert world.state.result == "Really: done."
    assert [fact.text for fact in world.journal.of(f.Reminded)] == 2 * [prompts.fill("no_tool_call")]


@pytest.mark.spec("C3", "D1")
def test_a_text_cut_at_its_limit_is_never_the_result() -> None:
    cut = says("The answer is that", stop=StopReason.MAX_TOKENS)
    world = World([cut, cut, says("The answer is 42.")])
    assert world.drive() == "ended"
    assert world.state.result == "The answer is 42."


@pytest.mark.spec("B2", "C1", "C5")
def test_think_act_observe() -> None:
    """A result is what the model reads next, and its step says how it went."""
    outcomes = iter([ToolResult(ok=False, content="", error="no such file"), ToolResult(ok=True, content="42")])
    there = says("There.", ("look", {"at": "that"}))
    world = World([says("I look.", LOOK), there, done()], Tools({"look": lambda a: next(outcomes)}))
    assert world.drive() == "ended"
    heard = [str(request.messages[-1]["content"]) for request in world.models.requests[1:]]
    assert "no such file" in heard[0]
    assert "42" in heard[1]
    steps = world.journal.of(f.StepCompleted)
    assert [(step.step, step.success, step.error) for step in steps] == [
        (1, False, "no such file"),
        (2, True, ""),
        (3, True, ""),
    ]
