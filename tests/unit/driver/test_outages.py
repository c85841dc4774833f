"""Models and tools that are down: another way is gone, or the run waits without a worker (SPEC E5, E6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from loops.engine import facts as f
from loops.engine.failures import breakers as b
from loops.engine.ports import ModelError
from loops.engine.state.lifecycle import Phase
from loops.engine.state.outage import MAX_SECONDS_PARKED
from loops.engine.state.thresholds import OFF
from loops.engine.values import Access, FailureKind, ModelReply, ModelRequest, ToolResult
from loops.storage.status import status
from tests import fakes
from tests.fakes import Tools, done, says
from tests.unit.driver.outage_world import MAIN, Shared, World

pytestmark = pytest.mark.spec("E5", "E6")

LOOK = ("look", {"at": "it"})


def busy(code: str = "overloaded_error", **more: float) -> ModelError:
    return ModelError("Overloaded", kind=FailureKind.TRANSIENT, code=code, status=529, **more)  # type: ignore[arg-type]


def down_until(end: float, clock: fakes.Clock) -> Callable[[ModelRequest], ModelReply | ModelError]:
    return lambda request: busy() if clock.time < end else done()


def test_without_a_fallback_the_run_waits_without_a_worker_and_goes_on_by_itself() -> None:
    world = World(())
    world.models = fakes.Models(down_until(world.clock.time + 45, world.clock))
    assert world.drive() == "timer"
    asked = world.journal.of(f.ModelRequested)
    assert len(asked) == 5, "the breaker opened at the fifth failure"
    assert [fact.attempt for fact in asked] == [1, 2, 3, 4, 5]
    wake_at, runnable = world.journal.released[-1]
    assert wake_at == world.state.outage.until
    assert not runnable
    shown, waits = status(world.state)
    assert (shown, waits.kind, waits.name) == ("waiting_for_resource", "model", MAIN)
    assert waits.words.startswith(f"model {MAIN}: next try at ")
    assert world.wait() == "ended"
    assert world.state.phase is Phase.COMMIT
    assert world.state.step == 1
    assert world.journal.of(f.ModelRequested)[-1].probe


def test_waiting_costs_no_time_of_the_run() -> None:
    world = World((), limits={"max_seconds": 60})
    world.models = fakes.Models(down_until(world.clock.time + 400, world.clock))
    assert world.wait() == "ended"
    assert world.state.phase is Phase.COMMIT
    assert world.clock.time - 1_000_000 > 400
    assert world.state.active_us < 60e6


def test_an_open_breaker_sends_the_run_to_the_fallback_at_once() -> None:
    world = World((), chain=(MAIN, "spare"))
    said = iter([says("I look.", LOOK), done()])
    world.models = fakes.Models(lambda request: busy() if request.model == MAIN else next(said))
    assert world.drive() == "ended"
    assert world.state.phase is Phase.COMMIT
    asked = world.journal.of(f.ModelRequested)
    assert [fact.model for fact in asked] == [MAIN] * 5 + ["spare", "spare"]
    assert {(fact.fell_back_from, fact.because) for fact in asked[5:]} == {(MAIN, "overloaded_error (HTTP 529)")}
    assert [fact.model for fact in world.journal.of(f.ModelAnswered)] == ["spare", "spare"]
    assert world.state.step == 2
    assert "seen" in str(world.models.requests[-1].messages), "the conversation is whole"


def test_another_run_goes_to_the_fallback_without_a_single_failure() -> None:
    shared = Shared(fakes.Clock())
    first = World(lambda request: busy(), shared=shared, name="w1")
    first.drive()
    second = World(lambda request: done(), shared=shared, name="w2", chain=(MAIN, "spare"))
    assert second.drive() == "ended"
    assert [fact.model for fact in second.journal.of(f.ModelRequested)] == ["spare"]


def test_the_wanted_model_is_asked_again_once_its_probe_is_good() -> None:
    shared = Shared(fakes.Clock())
    shared.rows[b.MODEL, MAIN] = b.Breaker(status=b.Status.OPEN, open_until=shared.now() + 1)
    world = World([says("a", LOOK), done()], shared=shared, chain=(MAIN, "spare"))
    shared.clock.time += 1
    assert world.drive() == "ended"
    assert [(fact.model, fact.probe) for fact in world.journal.of(f.ModelRequested)] == [
        (MAIN, True),
        (MAIN, False),
    ]
    assert shared.row(b.MODEL, MAIN) == b.Breaker()


def test_a_failed_probe_goes_to_the_fallback_without_waiting() -> None:
    shared = Shared(fakes.Clock())
    shared.rows[b.MODEL, MAIN] = b.Breaker(status=b.Status.OPEN, opened_at=1, open_until=shared.now() + 1)
    shared.clock.time += 1
    said = iter([done()])
    world = World(lambda request: busy() if request.model == MAIN else next(said), shared=shared, chain=(MAIN, "spare"))
    assert world.drive() == "ended"
    assert [fact.model for fact in world.journal.of(f.ModelRequested)] == [MAIN, "spare"]
    assert world.journal.of(f.BackoffStarted) == []
    assert world.state.step == 1


@pytest.mark.parametrize("kind", [FailureKind.UNRECOVERABLE, FailureKind.SYSTEMATIC])
def test_what_can_never_work_goes_to_the_fallback_at_once(kind: FailureKind) -> None:
    refused = ModelError("no such key", kind=kind, code="authentication_error", status=401)
    world = World(lambda request: refused if request.model == MAIN else done(), chain=(MAIN, "spare"))
    assert world.drive() == "ended"
    assert world.state.phase is Phase.COMMIT
    assert [fact.model for fact in world.journal.of(f.ModelRequested)] == [MAIN, "spare"]
    assert world.state.step == 1


def test_when_the_whole_chain_fails_for_good_the_run_ends_and_a_person_can_try_again() -> None:
    refused = ModelError("no", kind=FailureKind.UNRECOVERABLE, code="authentication_error", status=401)
    world = World(lambda request: refused, chain=(MAIN, "spare"))
    assert world.drive() == "ended"
    assert (world.state.phase, world.state.end_reason) == (Phase.FAIL, "model_unavailable")
    assert world.state.can_be_reentered
    world.models = fakes.Models([done()])
    world.send("resume")
    assert world.drive() == "ended"
    assert world.state.phase is Phase.COMMIT
    assert [fact.model for fact in world.journal.of(f.ModelRequested)] == [MAIN, "spare", MAIN]
    assert world.state.step == 1


def test_attempts_spread_over_the_outage_end_the_run_and_a_person_can_try_again() -> None:
    world = World(lambda request: busy(), limits={"max_model_attempts": 6})
    began = world.clock.time
    assert world.wait() == "ended"
    assert (world.state.phase, world.state.end_reason) == (Phase.FAIL, "model_unavailable")
    probes = [fact for fact in world.journal.of(f.ModelRequested) if fact.probe]
    assert len(probes) == 6
    assert world.clock.time - began > 30 + 60 + 120 + 240 + 480
    world.models = fakes.Models([done()])
    world.send("resume")
    assert world.wait() == "ended"
    assert world.state.phase is Phase.COMMIT


def test_a_run_that_never_gets_a_turn_is_parked_for_a_day_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_SECONDS_PARKED == 24 * 3600
    a_day = 600
    monkeypatch.setattr("loops.engine.model_calls.reducers.MAX_SECONDS_PARKED", a_day)
    shared = Shared(fakes.Clock())
    shared.rows[b.MODEL, MAIN] = b.Breaker(status=b.Status.HALF_OPEN, opened_at=1, probe="stuck", why="timeout")
    shared.working.add("stuck")
    world = World(lambda request: done(), shared=shared)
    began = world.clock.time
    assert world.wait() == "ended"
    assert (world.state.phase, world.state.end_reason) == (Phase.FAIL, "model_unavailable")
    assert a_day <= world.clock.time - began < a_day + 60
    assert world.models.requests == []
    shared.rows.clear()
    world.send("resume")
    assert world.drive() == "ended"
    assert world.state.phase is Phase.COMMIT
    assert world.state.step == 1


@pytest.mark.parametrize("mail", ["stop", "pause"])
def test_a_person_may_stop_or_pause_a_parked_run(mail: str) -> None:
    world = World((), limits={"max_seconds": 60})
    world.models = fakes.Models(down_until(world.clock.time + 100, world.clock))
    assert world.drive() == "timer"
    world.send(mail)
    assert world.drive() == {"stop": "ended", "pause": "paused"}[mail]
    world.clock.time += 3 * MAX_SECONDS_PARKED
    world.send("resume")
    assert world.wait() == "ended"
    assert world.state.phase is Phase.COMMIT


def outage_of(seconds: float, runs: int, rule: b.Rule) -> list[World]:
    """So many runs meet one outage. They share the clock; whoever is to be woken first is woken first."""
    shared = Shared(fakes.Clock(), rule)
    end = shared.clock.time + seconds
    worlds = []
    for number in range(runs):
        world = World((), shared=shared, name=f"w{number}", run_id=f"01900000-0000-7000-8000-{number:012d}")
        world.models = fakes.Models(down_until(end, shared.clock))
        worlds.append(world)
    due = [(shared.clock.time, number) for number in range(runs)]
    for _ in range(100_000):
        if not due:
            return worlds
        at, number = min(due)
        due.remove((at, number))
        shared.clock.time = max(shared.clock.time, at)
        if worlds[number].drive() == "timer":
            due.append((worlds[number].journal.released[-1][0] / 1e6, number))
    raise AssertionError("they never end")


def test_an_outage_of_an_hour_fails_none_of_a_hundred_runs() -> None:
    worlds = outage_of(3600, 100, b.Rule())
    assert {world.state.phase for world in worlds} == {Phase.COMMIT}
    asked = sum(len(world.models.requests) for world in worlds)
    assert asked < 100 + 30, f"{asked} requests in all: one for each run, and few into the outage"


def test_without_breakers_the_same_outage_fails_them_all() -> None:
    """Negative control."""
    worlds = outage_of(3600, 10, b.Rule(enabled=False))
    assert {world.state.end_reason for world in worlds} == {"model_unavailable"}


# --- tools -----------------------------------------------------------------------------------------------------------


def broken() -> ToolResult:
    return ToolResult(ok=False, content="", error="look took too long", fault="timeout")


def test_an_open_breaker_refuses_a_tool_before_its_intent_and_the_model_goes_another_way() -> None:
    tools = Tools({"look": lambda arguments: broken(), "peek": lambda arguments: "seen"}, {"look": Access.ASK})
    shared = Shared(fakes.Clock())
    shared.rows[b.TOOL, "look"] = b.Breaker(
        status=b.Status.OPEN, why="timeout", opened_at=shared.now(), open_until=shared.now() + 30_000_000
    )
    world = World([says("", LOOK), says("", ("peek", {})), done()], tools, shared=shared)
    assert world.drive() == "ended", "nobody was asked to approve what cannot run"
    refused = world.journal.of(f.ToolRefused)
    assert [fact.why for fact in refused] == ["breaker_open"]
    assert "timeout" in refused[0].message
    assert "another way" in refused[0].message
    assert refused[0].message in str(world.models.requests[1].messages)
    assert [fact.tool for fact in world.journal.of(f.ToolIntended)] == ["peek"]
    assert [call.name for call in tools.ran] == ["peek"]


def test_a_breaker_that_opens_while_a_person_decides_leaves_the_approval_unused() -> None:
    tools = Tools({"look": lambda arguments: "seen"}, {"look": Access.ASK})
    world = World([says("", LOOK), done()], tools)
    assert world.drive() == "gate:tool_approval"
    now = world.shared.now()
    world.shared.rows[b.TOOL, "look"] = b.Breaker(
        status=b.Status.OPEN, why="crash", opened_at=now, open_until=now + 30_000_000
    )
    world.decide("approve")
    assert world.drive() == "ended"
    assert tools.ran == []
    assert world.gatekeeper.consumed == []
    assert [fact.why for fact in world.journal.of(f.ToolRefused)] == ["breaker_open"]
    assert world.journal.of(f.ToolIntended) == []


def test_the_tool_is_tried_by_one_probe_and_is_back_for_all() -> None:
    outcomes = iter([broken(), broken(), ToolResult(ok=True, content="seen")])
    tools = Tools({"look": lambda arguments: next(outcomes), "rest": lambda arguments: "rested"})
    shared = Shared(fakes.Clock(), b.Rule(threshold=2, cooldown_s=30))

    def answer(request: ModelRequest) -> ModelReply:
        turn = len(world.models.requests)
        if turn == 4:
            shared.clock.time += 31
        return done() if turn == 6 else says("", ("look", {"at": turn}))

    world = World(answer, tools, shared=shared, limits={"max_failures": 9, "circles": OFF})
    assert world.drive() == "ended"
    assert [fact.result.ok for fact in world.journal.of(f.ToolCompleted)][:3] == [False, False, True]
    assert [fact.why for fact in world.journal.of(f.ToolRefused)] == ["breaker_open"]
    assert shared.row(b.TOOL, "look") == b.Breaker()


def test_a_failing_command_opens_nothing() -> None:
    failing = ToolResult(ok=False, content="1 failed", error="exit code 1", exit_code=1)
    world = World(
        lambda request: says("", ("look", {"at": len(world.models.requests)})),
        Tools({"look": lambda arguments: failing}),
        limits={"max_steps": 8, "max_failures": 99, "circles": OFF},
    )
    world.drive()
    assert world.shared.rows.get((b.TOOL, "look"), b.Breaker()) == b.Breaker()


def test_a_request_refused_for_what_it_says_closes_the_model_to_nobody() -> None:
    shared = Shared(fakes.Clock())
    refused = ModelError("HTTP 400: bad request", kind=FailureKind.SYSTEMATIC, code="invalid_request_error")
    for number in range(2 * b.Rule().threshold):
        world = World((), shared=shared, name=f"w{number}")
        world.models = fakes.Models(lambda request: refused)
        assert world.drive() == "ended"
    assert shared.row(b.MODEL, MAIN) == b.Breaker()
    assert World([done()], shared=shared, name="another").drive() == "ended"


def test_what_does_not_end_in_its_time_counts_and_is_told() -> None:
    late = replace(broken(), error="late")
    world = World([says("", LOOK), done()], Tools({"look": lambda arguments: late}))
    world.drive()
    assert len(world.shared.row(b.TOOL, "look").failed_at) == 1


def test_the_report_says_what_the_provider_said() -> None:
    refused = ModelError("HTTP 404: model 'llama9' not found", kind=FailureKind.UNRECOVERABLE, code="model_not_found")
    world = World(())
    world.models = fakes.Models(lambda request: refused)
    assert world.drive() == "ended"
    assert world.state.end_reason == "model_unavailable"
    (ended,) = world.journal.of(f.RunEnded)
    assert f"{MAIN}: HTTP 404: model 'llama9' not found" in str(ended.report["diagnosis"])
