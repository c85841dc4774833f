"""The loop from the first fact to the last, with ports in memory."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from loops.engine import facts as f
from loops.engine.apply import ImpossibleFact, apply
from loops.engine.ports import ModelError, Verified
from loops.engine.state.lifecycle import Phase
from loops.engine.state.thresholds import OFF
from loops.engine.values import Access, FailureKind, StopReason, ToolCall, ToolResult
from tests.fakes import Tools, World, done, hanging, says

LOOK = ("look", {"at": "it"})


class Killed(BaseException):
    """The worker is gone."""


def failing(message: str = "no such file") -> Tools:
    return Tools({"look": lambda arguments: ToolResult(ok=False, content="", error=message)})


@pytest.mark.spec("A1", "B2", "C6")
def test_a_run_goes_through_its_phases_to_commit() -> None:
    world = World([says("I look.", LOOK), done("all good")])
    assert world.drive() == "ended"
    assert world.state.phase is Phase.COMMIT
    phases = [fact.phase for fact in world.journal.of(f.PhaseEntered)]
    assert phases == [Phase.DECOMPOSE, Phase.RETRIEVE, Phase.ACT, Phase.VERIFY, Phase.COMMIT]
    assert world.archive.committed[0]["result"] == "all good"


@pytest.mark.spec("A4", "J1")
def test_two_commits_a_step_and_intent_before_the_tool() -> None:
    world = World([says("a", LOOK), says("b", LOOK), done()])
    world.drive()
    step = world.journal.flushes[2:6]
    assert step[0] == ("ModelAnswered", "CallJudged", "ToolIntended")
    assert step[1] == ("ToolCompleted", "StepCompleted", "ModelRequested")
    assert step[2] == ("ModelAnswered", "CallJudged", "ToolIntended")


@pytest.mark.spec("C4")
def test_a_question_waits_for_its_answer_and_holds_no_worker() -> None:
    world = World([says("", ("ask_question", {"question": "Which?", "choices": ["a", "b"]})), done()])
    assert world.drive() == "gate:question"
    assert world.journal.released
    world.decide("respond", answer="a")
    assert world.drive() == "ended"
    result = world.models.requests[1].messages[-1]["content"][0]
    assert "The person answered: a" in result["content"]


@pytest.mark.spec("C4")
def test_converse_waits_for_a_message() -> None:
    world = World([says("", ("converse", {"message": "hello"})), done()])
    assert world.drive() == "message"
    world.send("message", text="go on")
    assert world.drive() == "ended"
    texts = [block.get("text", "") for block in world.models.requests[1].messages[-1]["content"]]
    assert any("go on" in text for text in texts)


@pytest.mark.spec("Q1", "Q4", "Q5")
@pytest.mark.parametrize(("verdict", "ran"), [("approve", 1), ("reject", 0), ("expire", 0)])
def test_an_asked_call_runs_only_when_approved(verdict: str, ran: int) -> None:
    world = World([says("", LOOK), done()], Tools({"look": lambda a: "seen"}, {"look": Access.ASK}))
    assert world.drive() == "gate:tool_approval"
    assert world.tools.ran == []
    world.decide(verdict, reason="because")
    assert world.drive() == "ended"
    assert len(world.tools.ran) == ran
    assert len(world.gatekeeper.consumed) == ran
    if not ran:
        assert "because" in world.models.requests[1].messages[-1]["content"][0]["content"]


@pytest.mark.spec("Q4")
def test_edited_arguments_are_what_runs() -> None:
    world = World([says("", LOOK), done()], Tools({"look": lambda a: "seen"}, {"look": Access.ASK}))
    world.drive()
    world.decide("approve_with_edits", arguments={"at": "another"})
    world.drive()
    assert world.tools.ran[0].arguments == {"at": "another"}


@pytest.mark.spec("Q5")
def test_a_void_approval_asks_again_and_runs_nothing() -> None:
    world = World([says("", LOOK), done()], Tools({"look": lambda a: "seen"}, {"look": Access.ASK}))
    world.drive()
    world.gatekeeper.void = "it changed"
    world.decide("approve")
    assert world.drive() == "gate:tool_approval"
    assert world.tools.ran == []
    assert len(world.gatekeeper.opened) == 2
    world.gatekeeper.void = ""
    world.decide("approve")
    assert world.drive() == "ended"
    assert len(world.tools.ran) == 1


@pytest.mark.spec("C3")
def test_surplus_and_malformed_calls_are_answered_not_run() -> None:
    reply = says("", ("task_completion", {"result": "x"}), LOOK)
    world = World([reply], limits={"calls_per_reply": 4})
    world.drive()
    assert world.tools.ran == []
    assert [fact.why for fact in world.journal.of(f.ToolRefused)] == ["surplus"]

    from dataclasses import replace

    cut = replace(says("", LOOK), calls=(ToolCall("p0", "look", {}, error="cut off"),), stop=StopReason.MAX_TOKENS)
    world = World([cut, done()])
    world.drive()
    assert world.tools.ran == []
    assert "cut off" in world.journal.of(f.ToolRefused)[0].message


@pytest.mark.spec("D1")
def test_unknown_tools_get_an_error_and_the_run_goes_on() -> None:
    world = World([says("", ("Look ", {})), done()])
    assert world.drive() == "ended"
    assert world.state.phase is Phase.COMMIT
    assert world.journal.of(f.ToolRefused)[0].why == "invalid"


@pytest.mark.spec("D1", "D3")
def test_the_step_limit_asks_a_person_and_an_extension_goes_on() -> None:
    world = World(lambda request: says("", LOOK), limits={"max_steps": 3})
    assert world.drive() == "gate:limit_reached"
    assert world.state.step == 3
    world.decide("extend", max_steps=5)
    assert world.drive() == "gate:limit_reached"
    assert world.state.step == 5
    world.decide("reject", reason="enough")
    assert world.drive() == "ended"
    assert (world.state.phase, world.state.end_reason) == (Phase.FAIL, "max_steps")
    report = world.journal.of(f.RunEnded)[0].report
    assert report["kind"] == "FailureReport"
    assert report["not_done"]


@pytest.mark.spec("D3")
def test_the_model_is_warned_at_eighty_percent() -> None:
    world = World(lambda request: says("", LOOK), limits={"max_steps": 10, "circles": OFF})
    world.drive()
    warned = world.journal.of(f.LimitWarned)
    assert [(fact.limit, fact.used) for fact in warned] == [("max_steps", 8)]
    texts = [b.get("text", "") for b in world.models.requests[8].messages[-1]["content"]]
    assert any("8 of 10" in text for text in texts)


@pytest.mark.spec("F1")
def test_three_identical_errors_are_a_loop() -> None:
    places = itertools.count()
    looks = lambda request: says("", ("look", {"at": next(places)}))  # noqa: E731 - the same again would not run
    world = World(looks, failing("no file 12 at 0x7f"), limits={"max_failures": 99, "max_backtracks": 99})
    assert world.drive() == "gate:loop_detected"
    assert world.journal.of(f.LoopDetected)[0].steps == (1, 2, 3)
    asked_at = world.state.step
    world.decide("respond", answer="look elsewhere")
    assert world.drive() == "gate:loop_detected"
    assert any("look elsewhere" in str(message) for message in world.models.requests[asked_at].messages)
    world.decide("reject")
    assert world.drive() == "ended"
    assert world.state.end_reason == "loop_detected"


@pytest.mark.spec("F1")
def test_different_errors_are_no_loop() -> None:
    errors = iter(["alpha", "beta", "gamma", "delta"])
    tools = Tools({"look": lambda a: ToolResult(ok=False, content="", error=next(errors))})
    world = World([says("", LOOK)] * 4 + [done()], tools, limits={"max_failures": 9})
    assert world.drive() == "ended"
    assert world.state.phase is Phase.COMMIT


@pytest.mark.spec("C6", "L2", "M6")
def test_failed_checks_are_repaired_within_the_budget() -> None:
    outcomes = iter([False, True])
    tools = Tools(
        {"run_command": lambda a: ToolResult(ok=next(outcomes), content="1 failed", exit_code=1, error="exit 1")}
    )
    world = World([done("first"), done("second")], tools, criteria=[("tests pass", "pytest")])
    assert world.drive() == "ended"
    assert world.state.phase is Phase.COMMIT
    assert world.state.repairs == 1
    assert "1 failed" in world.models.requests[1].messages[-1]["content"][-1]["text"]


@pytest.mark.spec("C6", "M6")
def test_a_result_that_never_passes_is_never_committed() -> None:
    tools = Tools({"run_command": lambda a: ToolResult(ok=False, content="no", exit_code=1, error="exit 1")})
    world = World(lambda request: done(), tools, criteria=[("tests pass", "pytest")], limits={"max_repairs": 2})
    assert world.drive() == "gate:limit_reached"
    (failed,) = world.gatekeeper.opened[-1].view["criteria"]
    assert (failed["text"], failed["status"], failed["detail"]) == ("tests pass", "failed", "exit 1\nno")
    world.decide("reject", reason="enough")
    assert world.drive() == "ended"
    assert (world.state.phase, world.state.end_reason) == (Phase.FAIL, "repair_budget")
    assert world.archive.committed == []


@pytest.mark.spec("C6", "Q1")
def test_without_proof_a_person_reviews_and_may_send_it_back() -> None:
    world = World([done("draft"), done("better")], final_review="unless_verified", criteria=[("it reads well", "")])
    assert world.drive() == "gate:final_review"
    assert world.gatekeeper.opened[0].title == "Review result (1 claimed)"
    world.decide("reject", reason="too short")
    assert world.drive() == "gate:final_review"
    assert "too short" in world.models.requests[1].messages[-1]["content"][-1]["text"]
    world.decide("approve")
    assert world.drive() == "ended"
    assert world.archive.committed[0]["approver"] == "ana"


@pytest.mark.spec("L1")
def test_the_output_schema_is_checked_first() -> None:
    schema = {"type": "object", "required": ["total"]}
    world = World([done("nonsense"), done('{"total": 3}')], output_schema=schema)
    world.drive()
    assert world.state.phase is Phase.COMMIT
    assert world.journal.of(f.DiagnosisMade)[0].causes == ("SCHEMA_VIOLATION",)


@pytest.mark.spec("E6")
def test_transient_model_errors_are_retried_with_backoff() -> None:
    busy = ModelError("overloaded", kind=FailureKind.TRANSIENT, code="overloaded_error", status=529, retry_after_s=7)
    world = World([busy, busy, done()])
    before = world.clock.time
    assert world.drive() == "ended"
    assert world.state.phase is Phase.COMMIT
    assert world.state.step == 1
    assert world.clock.time - before >= 14


@pytest.mark.spec("E6", "E7")
@pytest.mark.parametrize("kind", [FailureKind.UNRECOVERABLE, FailureKind.TRANSIENT])
def test_a_model_that_stays_away_ends_the_run_with_a_report(kind: FailureKind) -> None:
    world = World(lambda request: ModelError("down", kind=kind, code="x"), limits={"max_model_attempts": 3})
    why = world.drive()
    while why == "timer":
        world.clock.time += 600
        why = world.drive()
    assert (world.state.phase, world.state.end_reason) == (Phase.FAIL, "model_unavailable")
    assert len(world.models.requests) == (3 if kind is FailureKind.TRANSIENT else 1)


@pytest.mark.spec("A5", "E6")
def test_a_run_whose_model_was_away_goes_on_when_a_person_asks() -> None:
    down = ModelError("down", kind=FailureKind.UNRECOVERABLE, code="x")
    world = World([says("look", ("look", {"at": 1})), down, done()])
    world.drive()
    assert (world.state.phase, world.state.end_reason, world.state.step) == (Phase.FAIL, "model_unavailable", 2)
    world.send("resume")
    assert world.drive() == "ended"
    assert (world.state.phase, world.state.step, world.state.tool_calls) == (Phase.COMMIT, 2, 1)


@pytest.mark.spec("A1")
def test_a_failure_of_the_agents_own_is_final() -> None:
    world = World([done("no")] * 9, limits={"max_repairs": 1}, output_schema={"type": "object"})
    while world.drive() != "ended":
        world.decide("reject")
    assert world.state.phase is Phase.FAIL
    before = len(world.journal.facts)
    world.send("resume")
    assert world.drive() == "ended"
    assert len(world.journal.facts) == before
    with pytest.raises(ImpossibleFact):
        apply(world.state, f.RunResumed(by="ana"))


@pytest.mark.spec("D1")
def test_a_refusal_ends_the_run_before_its_calls_run() -> None:
    world = World([says("I will not.", LOOK, stop=StopReason.REFUSAL)])
    assert world.drive() == "ended"
    assert world.state.end_reason == "refused"
    assert world.tools.ran == []


@pytest.mark.spec("D1")
def test_an_answer_without_a_call_is_reminded_once_then_taken_as_the_result() -> None:
    world = World([says("I think it is done."), says("Really: done.")])
    assert world.drive() == "ended"
    assert world.state.result == "Really: done."
    assert len(world.journal.of(f.Reminded)) == 1


@pytest.mark.spec("K1", "A5")
def test_stop_cancels_a_streaming_model_and_resume_goes_on() -> None:
    answers = iter([says("", LOOK), hanging(), done()])
    world = World(lambda request: next(answers))

    async def scenario() -> str:
        driver = world.driver()
        driving = asyncio.create_task(driver.drive())
        while len(world.models.requests) < 2:
            await asyncio.sleep(0.01)
        world.send("stop")
        return await asyncio.wait_for(driving, 30)

    assert asyncio.run(scenario()) == "ended"
    assert (world.state.phase, world.state.end_reason) == (Phase.HALT, "operator_stop")
    assert world.journal.of(f.RunEnded)[0].report["kind"] == "HaltRecord"
    world.send("resume")
    assert world.drive() == "ended"
    assert world.state.phase is Phase.COMMIT


@pytest.mark.spec("K1")
def test_pause_rests_and_resume_goes_on() -> None:
    world = World([done()])
    world.send("pause")
    assert world.drive() == "paused"
    world.send("resume")
    assert world.drive() == "ended"


@pytest.mark.spec("K2", "D3")
def test_a_message_reaches_the_model_and_starts_a_new_allowance() -> None:
    world = World(lambda request: says("", LOOK), limits={"max_steps": 2})
    assert world.drive() == "gate:limit_reached"
    world.decide("extend", max_steps=4)
    world.send("message", text="hurry")
    assert world.drive() == "gate:limit_reached"
    assert world.state.step == 6
    assert any("hurry" in str(message) for message in world.models.requests[2].messages)


@pytest.mark.spec("J2")
@pytest.mark.parametrize(
    ("found", "retriable", "why", "ran"),
    [
        (Verified.DONE, False, "ended", 0),
        (Verified.NOT_DONE, False, "ended", 1),
        (Verified.UNKNOWN, True, "ended", 1),
        (Verified.UNKNOWN, False, "gate:in_doubt", 0),
    ],
)
def test_an_intent_without_outcome_is_never_repeated_blindly(
    found: Verified, retriable: bool, why: str, ran: int
) -> None:
    world = World([says("", LOOK), done()])

    def crash(arguments: object) -> str:
        raise Killed

    world.tools.functions["look"] = crash
    with pytest.raises(Killed):
        world.drive()
    assert world.state.calls[0].status == "intended"
    world.tools.functions["look"] = lambda arguments: "seen"
    world.tools.ran.clear()
    world.tools.world["look"] = found
    world.tools.retriable = {"look"} if retriable else set()
    assert world.drive() == why
    assert len(world.tools.ran) == ran
    keys = {fact.idempotency_key for fact in world.journal.of(f.ToolIntended)}
    assert len(keys) == 1


@pytest.mark.spec("Q3", "X6")
def test_whoever_is_asked_about_an_outcome_reads_of_what() -> None:
    world = World([says("", ("look", {"path": "totals.py"})), done()])

    def crash(arguments: object) -> str:
        raise Killed

    world.tools.functions["look"] = crash
    with pytest.raises(Killed):
        world.drive()
    world.tools.world["look"] = Verified.UNKNOWN
    assert world.drive() == "gate:in_doubt"
    assert world.gatekeeper.opened[-1].title == "Did it take effect? look totals.py"


@pytest.mark.spec("J3")
def test_a_lost_lease_writes_nothing_more() -> None:
    world = World([says("", LOOK), done()])

    def lose(arguments: object) -> str:
        world.journal.lost = True
        return "seen"

    world.tools.functions["look"] = lose
    assert world.drive() == "lost"
    assert world.journal.kinds()[-1] == "ToolIntended"
