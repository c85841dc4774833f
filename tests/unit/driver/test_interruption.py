"""A stop reaches what is being performed once, and lets it clean up."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import Any

import pytest

from loops import jobs
from loops.driver import interrupts
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.state.lifecycle import Phase
from tests.fakes import Tools, World, done, hanging, says

LOOK = ("look", {"at": "it"})


@pytest.mark.spec("I8", "K1")
def test_a_stopped_tool_may_take_its_time_to_clean_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mail is still unread while a process tree is being killed: looking again may not cut that short."""
    monkeypatch.setattr(interrupts, "LOOK_EVERY_S", 0)
    cleaned: list[int] = []
    world = World([says("", LOOK), done()])

    async def run_for_ever() -> str:
        world.send("stop")
        try:
            await asyncio.sleep(60)
        finally:
            for moment in range(10):
                await asyncio.sleep(0)
                cleaned.append(moment)
        return "never"

    world.tools = Tools({"look": lambda arguments: run_for_ever()})
    assert world.drive() == "ended"
    assert world.state.phase is Phase.HALT
    assert cleaned == list(range(10))
    assert world.journal.of(f.ToolCompleted)[0].result.error == "Stopped by a person before it ended."


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    ("by", "payload", "said"),
    [
        ("", {"by": "monitor", "reason": "it spends too much"}, "monitor"),
        ("ana", {}, "ana"),
        ("", {}, "a person"),
    ],
)
def test_the_journal_says_who_interrupted_an_answer(
    monkeypatch: pytest.MonkeyPatch, by: str, payload: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr(interrupts, "LOOK_EVERY_S", 0)

    async def endless() -> None:
        world.journal.inbox.append(p.Signal("m1", "message", {"text": "Hurry."}, "bob"))
        world.journal.inbox.append(p.Signal("m2", "pause", payload, by))
        await hanging()

    world = World(lambda request: endless())
    assert world.drive() == "paused"
    assert [fact.reason for fact in world.journal.of(f.ModelInterrupted)] == [said]
    assert [fact.by for fact in world.journal.of(f.RunPaused)] == [by or payload.get("by", "")]


@pytest.mark.spec("J3")
def test_a_lost_lease_cancels_the_model_and_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "LOOK_EVERY_S", 0)
    monkeypatch.setattr(interrupts, "RENEW_EVERY_S", 0)

    async def endless() -> None:
        world.journal.lost = True
        await hanging()

    world = World(lambda request: endless())
    assert world.drive() == "lost"
    assert world.journal.kinds()[-1] == "ModelRequested"


@pytest.mark.spec("K1")
def test_a_cancelled_driver_cancels_what_it_performs() -> None:
    """A worker that shuts down is no person: nothing is written, and the INTENT stays for the next worker."""
    cancelled: list[str] = []

    async def run_for_ever() -> str:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.append("look")
        return "never"

    world = World([says("", LOOK), done()], Tools({"look": lambda arguments: run_for_ever()}))

    async def scenario() -> None:
        driving = asyncio.create_task(world.driver().drive())
        while not world.tools.ran:
            await asyncio.sleep(0.001)
        driving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await driving

    asyncio.run(scenario())
    assert cancelled == ["look"]
    assert world.journal.kinds()[-1] == "ToolIntended"


@pytest.mark.spec("J4")
@pytest.mark.parametrize(("error", "kept"), [(SystemExit(3), True), (KeyboardInterrupt(), False)])
def test_what_ends_the_process_anywhere_else_ends_no_worker(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, kept: bool
) -> None:
    def drive(*_: Any) -> str:
        raise error

    monkeypatch.setattr("loops.runs.drive.drive", drive)
    with contextlib.nullcontext() if kept else pytest.raises(KeyboardInterrupt):
        assert jobs.advance(str(uuid.uuid4())) == "error"
