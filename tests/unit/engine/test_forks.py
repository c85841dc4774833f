"""The pure part of a fork: where it may begin, and in what state it goes on (SPEC K3)."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given

from loops.engine import apply as engine_apply
from loops.engine import facts as f
from loops.engine import prompts
from loops.engine.apply import ImpossibleFact, apply, initial, replay
from loops.engine.context_window.conversation import extend
from loops.engine.context_window.transcript import Transcript
from loops.engine.decide import decide
from loops.engine.effects import CallModel, End, JudgeCall, OpenGate, RecoverTool, Rest, RunTool, Wait
from loops.engine.forks.prefix import point, unfinished
from loops.engine.forks.reducers import FRESH
from loops.engine.forks.reducers import forked as as_forked
from loops.engine.measures.limits import usage
from loops.engine.state.lifecycle import Event, Phase
from loops.engine.state.limits import Limits
from loops.engine.state.recovery import RecoveryState
from loops.engine.state.run import RunState
from loops.engine.values import Access, FailureKind, StopReason, ToolCall, ToolResult, Usage
from tests import fakes
from tests.unit.engine.adversary import Plan, World, plans
from tests.unit.engine.effort import examples

pytestmark = pytest.mark.spec("K3")
UNKNOWN = prompts.fill("call_before_fork")
PARENT, CHILD = fakes.RUN_ID, "01900000-0000-7000-8000-000000000002"


def entered(came_from: str, event: str, phase: str) -> f.PhaseEntered:
    return f.PhaseEntered(came_from=Phase(came_from), event=Event(event), phase=Phase(phase))


TO_ACT = (
    entered("PLAN", "plan_ready", "DECOMPOSE"),
    entered("DECOMPOSE", "decomposed", "RETRIEVE"),
    entered("RETRIEVE", "evidence_ready", "ACT"),
)
ASKED = f.ModelRequested(role="actor", model="m", request_sha256="")  # type: ignore[arg-type]


def answered(*names: str) -> f.ModelAnswered:
    calls = tuple(ToolCall(f"p{position}", name, {}) for position, name in enumerate(names))
    usage = Usage(input_tokens=100, cost_microusd=7)
    return f.ModelAnswered(
        role="actor",  # type: ignore[arg-type]
        model="m",
        provider="x",
        model_id="x",
        stop=StopReason.TOOL_USE if calls else StopReason.END_TURN,
        usage=usage,
        calls=calls,
    )


def judged(call: str, access: Access = Access.ASK) -> f.CallJudged:
    return f.CallJudged(call_id=call, access=access, gate_kind="tool_approval")


def intended(call: str, tool: str = "pay") -> f.ToolIntended:
    return f.ToolIntended(call_id=call, tool=tool, arguments={}, idempotency_key="k")


def gate(call: str = "", kind: str = "tool_approval") -> f.GateOpened:
    return f.GateOpened(gate="g", kind=kind, title="?", call_id=call)


def yes(call: str = "", kind: str = "tool_approval") -> f.GateDecided:
    return f.GateDecided(gate="g", kind=kind, verdict="approve", call_id=call, by="ana")


def history(*facts: f.Fact) -> list[f.Fact]:
    started = f.RunStarted(spec=fakes.spec(), system="", prompt_version="", tools_sha256="", at=1_000_000)
    later = [replace(fact, at=2_000_000 + 1_000_000 * n) for n, fact in enumerate((*TO_ACT, *facts))]
    return [started, *later]


def taken_over(facts: list[f.Fact], message: str = "", **limits: int) -> list[f.Fact]:
    """What the fork's journal holds when it has begun."""
    there = replay(facts)
    first = facts[0]
    assert isinstance(first, f.RunStarted)
    origin = f.Origin(run_id=there.spec.run_id, seq=len(facts), step=there.step, head="00")
    spec = replace(first.spec, run_id=CHILD, limits=replace(Limits(), **limits))
    end = f.Forked(run_id=origin.run_id, seq=origin.seq, step=origin.step, message=message, at=900_000_000)
    return [replace(first, spec=spec, forked_from=origin), *facts[1:], *unfinished(there), end]


def forked(*facts: f.Fact, message: str = "", **limits: int) -> RunState:
    return replay(taken_over(history(*facts), message, **limits))


PAY = (ASKED, answered("pay"), judged("c1.0"))
POINTS: dict[str, tuple[f.Fact, ...]] = {
    "a request under way": (ASKED,),
    "a failed request that waits": (
        ASKED,
        f.ModelFailed(kind=FailureKind.TRANSIENT, code="x", message="x", attempt=1),
        f.BackoffStarted(until=10**15, reason="x"),
    ),
    "a call proposed": (ASKED, answered("pay")),
    "a call judged": PAY,
    "a gate open": (*PAY, gate("c1.0")),
    "a gate approved": (*PAY, gate("c1.0"), yes("c1.0")),
    "a gate rejected": (*PAY, gate("c1.0"), replace(yes("c1.0"), verdict="reject")),
    "a call begun": (*PAY, gate("c1.0"), yes("c1.0"), intended("c1.0")),
    "a call in doubt": (*PAY, intended("c1.0"), gate("c1.0", "in_doubt")),
    "paused": (f.RunPaused(by="ana"),),
    "stop asked for": (ASKED, f.StopRequested(by="ana")),
    "a limit reached": (f.LimitReached(limit="max_steps", used=1, bound=1),),
    "a limit's gate": (f.LimitReached(limit="max_steps", used=1, bound=1), gate(kind="limit_reached")),
    "going in circles": (f.LoopDetected(method="x", evidence="x"),),
}


@pytest.mark.parametrize("facts", POINTS.values(), ids=POINTS)
def test_wherever_the_other_run_was_the_fork_acts(facts: tuple[f.Fact, ...]) -> None:
    state = forked(*facts)
    assert not state.reusing
    assert (state.gate, state.paused, state.stop_requested, state.wake_at) == (None, False, False, 0)
    assert all(call.status in {"proposed", "done"} for call in state.calls)
    assert not isinstance(decide(state), End | OpenGate | Rest | Wait)
    assert state.step == replay(history(*facts)).step


@pytest.mark.spec("D1")
def test_of_no_limit_is_anything_used_up() -> None:
    """All limits that runs are measured by, those to come as well."""
    full = RunState(
        spec=fakes.spec(),
        limits=Limits(),
        reusing=PARENT,
        step=9,
        failures_in_row=9,
        tokens=9,
        cost_microusd=9,
        repairs=9,
        recovering=RecoveryState(backtracks=9),
    )
    assert [name for name, (used, _) in usage(full).items() if not used] == ["max_seconds"], (
        "what is taken over costs no time"
    )
    fork = as_forked(full, f.Forked(run_id=PARENT, seq=1, step=9))
    assert {used for used, _ in usage(fork).values()} == {0}


TAKEN_OVER = {
    *("spec", "phase", "seq", "step", "last_at", "active_us", "model_calls", "answered", "last_text", "last_stop"),
    *("stopped_without_calls", "unsure", "stop_reason", "folder_awaited", "folder_since", "remarks", "review"),
    *("causes", "failed_checks", "failed_result", "progress", "progress_method", "files_changed", "measured"),
    "died_at",
}
WORKED_OUT = {
    *("limits", "reusing", "reused_steps", "reused_answers", "started_at", "step_base", "requested", "calls", "tried"),
    *("awaiting_message", "result", "context_tokens", "confidence", "clearance", "windowing"),
    *("loop_found", "recent", "circle"),
}
USED: dict[type, Any] = {int: 9, str: "x", bool: True, frozenset: frozenset({"x"}), tuple: ("x",)}


@pytest.mark.spec("K3")
def test_of_every_field_it_is_said_whether_a_fork_begins_with_it_anew() -> None:
    """A field that counts or permits begins anew; whoever adds one says so there, or that it is taken over here."""
    assert {one.name for one in fields(RunState)} == FRESH.keys() | TAKEN_OVER | WORKED_OUT
    assert len(fields(RunState)) == len(FRESH) + len(TAKEN_OVER) + len(WORKED_OUT)
    used = {name: USED[type(default)] for name, default in FRESH.items() if type(default) in USED}
    fork = as_forked(replace(forked(), reusing=PARENT, **used), f.Forked(run_id=PARENT, seq=1, step=1))
    assert {name: getattr(fork, name) for name in used} == {name: FRESH[name] for name in used}
    assert len(used) > 20


@pytest.mark.parametrize("name", ["a gate open", "a gate approved", "a gate rejected", "a call judged"])
@pytest.mark.spec("Q5")
def test_whatever_was_decided_the_call_is_judged_again(name: str) -> None:
    state = forked(*POINTS[name])
    effect = decide(state)
    assert isinstance(effect, JudgeCall)
    assert effect.call.name == "pay"
    assert not state.calls[0].gate


@pytest.mark.spec("Q5")
def test_control_a_fork_that_kept_its_calls_would_run_what_was_approved(monkeypatch: pytest.MonkeyPatch) -> None:
    def keeping(state: RunState, fact: f.Forked) -> RunState:
        return replace(as_forked(state, fact), calls=state.calls)

    monkeypatch.setitem(engine_apply.HANDLERS, f.Forked, (keeping,))
    assert isinstance(decide(forked(*POINTS["a gate approved"])), RunTool)


@pytest.mark.parametrize("name", ["a call begun", "a call in doubt"])
@pytest.mark.spec("J2")
def test_a_call_that_was_begun_is_told_and_not_begun_again(name: str) -> None:
    facts = taken_over(history(*POINTS[name]))
    state = replay(facts)
    assert [(call.status, call.ok, call.error) for call in state.calls] == [("done", False, UNKNOWN)]
    transcript = conversation(facts)
    assert transcript.open_calls() == ()
    assert UNKNOWN in str(transcript.messages[-1])


def test_a_call_still_open_at_the_fork_is_impossible() -> None:
    facts = taken_over(history(*POINTS["a call begun"]))
    with pytest.raises(ImpossibleFact, match="still open"):
        replay([fact for fact in facts if not isinstance(fact, f.ToolRefused)])


def test_only_a_fork_can_be_forked_and_only_once() -> None:
    facts = taken_over(history())
    with pytest.raises(ImpossibleFact):
        replay([*facts, facts[-1]])
    with pytest.raises(ImpossibleFact):
        replay([*history(), facts[-1]])


def test_nothing_is_used_up_and_no_time_has_passed() -> None:
    looked = f.ToolCompleted(call_id="c1.0", tool="look", result=ToolResult(ok=True, content="x"))
    step = (ASKED, answered("look"), intended("c1.0", "look"), looked, f.StepCompleted(step=1, success=True))
    there, state = replay(history(*step)), forked(*step, max_steps=3)
    assert (there.tokens, there.cost_microusd, there.active_us > 0) == (100, 7, True)
    assert (state.tokens, state.cost_microusd, state.active_us, state.tool_calls) == (0, 0, 0, 0)
    assert (state.steps_used, state.limits.max_steps, state.reused_steps, state.reused_answers) == (0, 3, 1, 1)
    assert (state.started_at, state.context_tokens) == (900_000_000, there.context_tokens)


def test_a_step_that_was_begun_counts_as_the_forks() -> None:
    state = forked(ASKED)
    assert (state.step, state.steps_used, state.reused_steps) == (1, 1, 0)
    assert replay([*taken_over(history(ASKED)), replace(ASKED, at=10**9)]).step == 1


def test_a_result_stays_unless_a_person_says_something() -> None:
    done = (ASKED, answered("task_completion"), judged("c1.0", Access.ALLOW))
    handed_in = (*done, f.ResultProposed(result="r", call_id="c1.0"), f.StepCompleted(step=1, success=True))
    assert forked(*handed_in).result == "r"
    assert forked(*handed_in, message="not yet").result is None
    assert isinstance(decide(forked(*handed_in, message="not yet")), CallModel)


def test_a_message_waits_for_the_results_of_open_calls() -> None:
    facts = taken_over(history(*POINTS["a gate open"]), "hurry")
    assert "hurry" not in str(conversation(facts).messages)
    rejected = f.ToolRefused(call_id="c1.0", tool="pay", why="rejected", message="no")
    blocks: Any = conversation([*facts, rejected]).messages[-1]["content"]
    assert [block["type"] for block in blocks] == ["tool_result", "text"]
    assert "hurry" in blocks[1]["text"]


def test_a_fork_of_a_fork_begins_at_its_own_end_of_the_history() -> None:
    child = taken_over(history(ASKED), "one")
    grandchild = taken_over(child, "two")
    states = [initial(grandchild[0])]  # type: ignore[arg-type]
    for fact in grandchild[1:]:
        states.append(apply(states[-1], fact))
    assert [state.reusing for state in states] == [CHILD] * (len(grandchild) - 1) + [""]
    text = str(conversation(grandchild).messages)
    assert text.index("one") < text.index("two")


MOVES = [
    *enumerate(TO_ACT, 2),
    (10, entered("ACT", "outputs_ready", "VERIFY")),
    (12, entered("VERIFY", "quality_gate_fail", "CRITIQUE")),
    (14, entered("CRITIQUE", "diagnosis_complete", "REPAIR")),
    (20, entered("REPAIR", "halted", "HALT")),
    (22, f.RunResumed(by="ana")),
    (25, f.RunResumed(by="ana")),
    (30, entered("REPAIR", "repair_success", "VERIFY")),
    (33, entered("VERIFY", "quality_gate_pass", "COMMIT")),
]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [(1, 1), (3, 3), (9, 9), (10, 9), (13, 9), (14, 14), (19, 19), (21, 19), (22, 22), (29, 29), (31, 29), (34, 29)],
)
def test_a_point_is_moved_to_where_the_agent_acts(wanted: int, found: int) -> None:
    assert point(MOVES, wanted) == found


@pytest.mark.spec("A6", "Q5")
@examples(usual=60, full=600)
@given(plans)
def test_wherever_any_run_is_forked_it_goes_on_and_nothing_is_permitted(plan: Plan) -> None:
    """Runs of adversarial models, tools and people, killed at will; a fork at every fact of each."""
    world = World(plan)
    world.live()
    facts = world.journal.facts
    moves = [(seq, fact) for seq, fact in enumerate(facts, 1) if isinstance(fact, f.PhaseEntered | f.RunResumed)]
    for cut in sorted({point(moves, seq) for seq in range(1, len(facts) + 1)}):
        beginning = taken_over(list(facts[:cut]))
        state = replay(beginning)
        effect = decide(state)
        assert (state.gate, state.reusing, state.is_ended, state.approver) == (None, "", False, "")
        assert (state.tokens, state.cost_microusd, state.active_us, state.steps_used <= 1) == (0, 0, 0, True)
        assert not isinstance(effect, End | RunTool | RecoverTool | Wait)
        assert not isinstance(effect, Rest) or state.awaiting_message
        still_open = tuple(call.call.id for call in state.calls if call.status != "done")
        assert conversation(beginning).open_calls() == still_open


def conversation(facts: list[f.Fact]) -> Transcript:
    made = Transcript()
    for fact in facts:
        made = extend(made, fact)
    return made
