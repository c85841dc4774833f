"""The lease is kept only while there is progress; a worker that is to end gives its run back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from loops.driver import drain, interrupts, tool_calls
from loops.engine import facts as f
from loops.engine.ports import ModelError, Verified
from loops.engine.state.lifecycle import Phase
from loops.engine.values import FailureKind
from tests.fakes import Tools, World, done, hanging, says

LOOK = ("look", {"at": "it"})


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"LOOK_EVERY_S": 0.01, "RENEW_EVERY_S": 0.0, "MARGIN_S": 0.05, "GRACE_S": 0.1}.items():
        monkeypatch.setattr(interrupts, name, seconds)


class Hasty(Tools):
    """Every call may take half a second."""

    def specs(self) -> Any:
        return [replace(spec, timeout_s=0.5) for spec in super().specs()]


@pytest.mark.spec("J3", "I2")
def test_a_tool_that_hangs_is_cancelled_and_has_failed() -> None:
    world = World([says("", LOOK), done()], Hasty({"look": lambda arguments: hanging()}))
    assert world.drive() == "ended"
    (completed,) = world.journal.of(f.ToolCompleted)
    assert completed.result.error == "look did not end within 0.5 s and was stopped"
    assert world.state.phase is Phase.COMMIT
    assert not world.journal.hung


@pytest.mark.spec("C6", "J3")
def test_the_command_of_a_criterion_has_the_time_of_any_project_s_criterion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own project's ends it sooner, inside of the tool; an agent's call of the same tool is cancelled here."""
    slow = {"run_command": lambda arguments: asyncio.sleep(2.0, "slow but right")}
    criteria = (("It holds", "suite"),)
    world = World([says("", ("run_command", {"command": "suite"})), done()], Hasty(slow), criteria=criteria)
    assert world.drive() == "ended"
    assert "did not end within 0.5 s" in world.journal.of(f.ToolCompleted)[0].result.error
    assert [check.status for check in world.journal.of(f.ChecksCompleted)[-1].checks] == ["passed"]
    monkeypatch.setattr(tool_calls, "LONGEST_CRITERION_S", 0.5)
    cut = World([done()], Hasty(slow), criteria=criteria)
    cut.drive()
    assert "did not end within 0.5 s" in cut.journal.of(f.ChecksCompleted)[0].checks[0].detail


async def deaf() -> str:
    """Does not listen to being cancelled."""
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if deaf_ends:
                raise
            deaf_ends.append(1)


deaf_ends: list[int] = []


@pytest.mark.spec("J3")
def test_a_tool_that_cannot_be_cancelled_costs_its_owner_the_lease() -> None:
    deaf_ends.clear()
    world = World([says("", LOOK), done()], Hasty({"look": lambda arguments: deaf()}))
    assert world.drive() == "lost"
    assert world.journal.hung == ["look hangs"]
    assert world.journal.kinds()[-1] == "ToolIntended", "nothing is written, the next owner finds the call in doubt"


@pytest.mark.spec("J3")
def test_so_does_a_step_between_two_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "STEP_S", 0.5)
    monkeypatch.setattr(interrupts.Interrupts.expect, "__defaults__", (0.5,))
    world = World([says("", LOOK), done()])

    async def judge(*words: Any) -> Any:
        await asyncio.sleep(60)

    monkeypatch.setattr(world.tools, "judge", judge)
    assert world.drive() == "lost"
    assert world.journal.hung == ["JudgeCall hangs"]


@pytest.mark.spec("J3")
def test_without_a_time_limit_a_hung_step_keeps_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control."""
    monkeypatch.setattr(interrupts.Interrupts, "_overdue", lambda self: None)
    monkeypatch.setattr(interrupts.Interrupts.expect, "__defaults__", (0.5,))
    world = World([says("", LOOK), done()])

    async def judge(*words: Any) -> Any:
        await asyncio.sleep(60)

    monkeypatch.setattr(world.tools, "judge", judge)

    async def scenario() -> None:
        await asyncio.wait_for(world.driver().drive(), 0.25)

    with pytest.raises(TimeoutError):
        asyncio.run(scenario())
    assert not world.journal.hung


class TestDraining:
    @pytest.fixture(autouse=True)
    def forgetting(self) -> Iterator[None]:
        yield
        drain.forget()

    def stopped(self, world: World, while_: Any, grace_s: float) -> str:
        async def scenario() -> str:
            driving = asyncio.create_task(world.driver().drive())
            while not while_():
                await asyncio.sleep(0.001)
            drain.begin(grace_s)
            return await asyncio.wait_for(driving, 30)

        return asyncio.run(scenario())

    @pytest.mark.spec("J4")
    def test_what_is_being_done_is_finished_and_the_rest_given_back(self) -> None:
        world = World([says("", LOOK), done()], Tools({"look": lambda arguments: asyncio.sleep(0.1, "seen")}))
        assert self.stopped(world, lambda: world.tools.ran, 10) == "drain"
        assert world.journal.released == [(0, True)]
        assert world.journal.kinds()[-2:] == ["ToolIntended", "ToolCompleted"]
        drain.forget()
        assert world.drive() == "ended"
        assert len(world.tools.ran) == 1

    @pytest.mark.spec("J4")
    def test_a_long_answer_is_dropped_before_the_grace_ends(self) -> None:
        world = World(lambda request: asyncio.sleep(60))
        assert self.stopped(world, lambda: world.models.requests, drain.PRESSING_S + 0.1) == "drain"
        assert world.journal.of(f.ModelInterrupted)[0].reason == "the worker ended"
        assert world.journal.released == [(0, True)]

    @pytest.mark.spec("J2", "J4")
    def test_what_may_not_be_begun_again_is_not_cut_short(self) -> None:
        world = World([says("", LOOK), done()], Tools({"look": lambda arguments: asyncio.sleep(0.2, "seen")}))
        assert self.stopped(world, lambda: world.tools.ran, drain.PRESSING_S + 0.1) == "drain"
        assert world.journal.of(f.ToolCompleted)[0].result.content == "seen"

    @pytest.mark.spec("J4")
    def test_a_wait_ends_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world = World([overloaded(), done()])
        monkeypatch.setattr(world.clock, "sleep", lambda seconds: asyncio.sleep(60))
        assert self.stopped(world, lambda: world.journal.of(f.BackoffStarted), 10) == "drain"
        assert not world.journal.of(f.BackoffEnded)


def overloaded() -> ModelError:
    return ModelError("busy", kind=FailureKind.TRANSIENT, code="overloaded", status=529, retry_after_s=5)


@pytest.mark.spec("K1", "K2")
@pytest.mark.parametrize(("kind", "why"), [("stop", "ended"), ("pause", "paused"), ("message", "late")])
def test_mail_ends_a_backoff_at_once(monkeypatch: pytest.MonkeyPatch, kind: str, why: str) -> None:
    world = World([overloaded(), done()])
    naps: list[float] = []

    async def sleep(seconds: float) -> None:
        naps.append(seconds)
        await asyncio.sleep(60 if len(naps) == 1 else 0)

    monkeypatch.setattr(world.clock, "sleep", sleep)

    async def scenario() -> str:
        driving = asyncio.create_task(world.driver().drive())
        while not naps:
            await asyncio.sleep(0.001)
        world.send(kind, text="hurry")
        return await asyncio.wait_for(driving, 30)

    assert asyncio.run(scenario()) == ("ended" if why == "late" else why)
    if kind == "message":
        assert world.journal.kinds().index("MessageReceived") < world.journal.kinds().index("BackoffEnded")
        assert any("hurry" in str(message) for message in world.models.requests[-1].messages)


class Crash(BaseException):
    pass


class TestInDoubt:
    """The three ways out of a call whose outcome nobody knows (SPEC J2)."""

    def doubt(self, *, dead: bool) -> World:
        world = World([says("", LOOK), done()])
        world.tools.functions["look"] = self.crash
        with pytest.raises(Crash):
            world.drive()
        state = world.state
        taken = f.RunTakenOver(epoch=2, worker="next", lost="old", lost_is_dead=dead, at=state.last_at)
        world.journal.append([(taken, state)])
        world.tools.functions["look"] = lambda arguments: "seen"
        world.tools.ran.clear()
        assert world.drive() == "gate:in_doubt"
        return world

    @staticmethod
    def crash(arguments: Any) -> str:
        raise Crash

    @pytest.mark.spec("J2")
    def test_the_world_was_asked_and_it_is_on_record(self) -> None:
        world = self.doubt(dead=True)
        (verified,) = world.journal.of(f.ToolVerified)
        assert (verified.call_id, verified.found) == ("c1.0", "unknown")
        request = world.gatekeeper.opened[-1]
        assert request.subject == {"tool": "look", "arguments": {"at": "it"}}, "an approval binds to the exact call"
        assert request.view["begun_at"] == world.journal.of(f.ToolIntended)[0].at

    @pytest.mark.spec("J2")
    def test_it_was_done_and_this_came_of_it(self) -> None:
        world = self.doubt(dead=True)
        world.decide("respond", outcome="done", result="42 found")
        assert world.drive() == "ended"
        assert not world.tools.ran
        assert "42 found" in str(world.models.requests[-1].messages)

    @pytest.mark.spec("J2")
    def test_it_was_not_done_and_runs_again_under_the_same_key(self) -> None:
        world = self.doubt(dead=True)
        world.decide("approve")
        assert world.drive() == "ended"
        intents = world.journal.of(f.ToolIntended)
        assert [intent.attempt for intent in intents] == [1, 2]
        assert len({intent.idempotency_key for intent in intents}) == 1
        assert world.gatekeeper.consumed == [intents[1].gate]

    @pytest.mark.spec("J2", "Q5")
    def test_a_void_permission_leaves_it_in_doubt(self) -> None:
        world = self.doubt(dead=True)
        world.decide("approve")
        world.gatekeeper.void = "it changed"
        assert world.drive() == "gate:in_doubt"
        assert not world.tools.ran

    @pytest.mark.spec("J2")
    def test_it_is_given_up(self) -> None:
        world = self.doubt(dead=True)
        world.decide("reject", "leave it")
        assert world.drive() == "ended"
        assert not world.tools.ran
        assert "nobody could say" in str(world.models.requests[-1].messages)

    @pytest.mark.spec("J2", "J3")
    def test_it_waits_until_its_owner_is_proven_dead(self) -> None:
        begun = self.doubt(dead=True).gatekeeper.opened[-1].view
        assert begun["again_after_s"] == 0
        living = self.doubt(dead=False).gatekeeper.opened[-1].view
        assert living["again_after_s"] == 30 + 60


@pytest.mark.spec("J2")
def test_a_stored_answer_is_used_and_not_asked_for_again() -> None:
    """The worker died after the answer was committed with the INTENT."""
    world = World([says("", LOOK), done()])
    world.tools.functions["look"] = TestInDoubt.crash
    with pytest.raises(Crash):
        world.drive()
    assert len(world.models.requests) == 1
    world.tools.functions["look"] = lambda arguments: "seen"
    world.tools.world["look"] = Verified.NOT_DONE
    assert world.drive() == "ended"
    assert len(world.journal.of(f.ModelAnswered)) == len(world.models.requests) == 2
