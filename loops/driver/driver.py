"""Perform effects, write facts, obey people: the loop that drives one owned run.

Facts gather on the desk and are committed right before the next effect that touches the world, together with its
INTENT: two commits a step, and nothing starts before what led to it is durable (SPEC A4, J1). The driver never decides:
it asks ``decide``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from loops.driver import folders
from loops.driver.checks import run_checks
from loops.driver.classifying import classify_failure
from loops.driver.confidence import check_confidence
from loops.driver.desk import Desk
from loops.driver.gates import open_gate
from loops.driver.mail import facts_of
from loops.driver.model_calls import call_model, wait
from loops.driver.outages import may_go_on
from loops.driver.ports import Ports
from loops.driver.pruning import prune
from loops.driver.rollback import ask, roll_back
from loops.driver.specialist import find_specialist
from loops.driver.tool_calls import ToolCalls
from loops.driver.watch import Interrupted, Watch
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine import guest
from loops.engine import ports as p
from loops.engine.context import Transcript
from loops.engine.exits import REPORT_KINDS, report
from loops.engine.lifecycle import Phase, transition
from loops.engine.loop import decide
from loops.engine.state import RunState

log = logging.getLogger(__name__)

MOST_RECORDS = 1000
"""Decisions in a row that need nothing from the world. Our own loops make about a dozen."""
LONGEST_NAP_S = 10.0
"""A longer wait gives the worker back."""
LOOK_AGAIN_S = 20.0
"""A run that waits for its turn is rung for; it looks by itself in case nobody does."""


class Driver:
    """Drives one owned run until it rests, ends, has had its slice of time, or is lost to another owner."""

    def __init__(
        self,
        ports: Ports,
        state: RunState,
        transcript: Transcript,
        *,
        sandbox_level: int = 0,
        slice_s: float = 120.0,
    ) -> None:
        self._desk = Desk(ports, state, transcript)
        self._watch = Watch(ports.journal)
        self._calls = ToolCalls(self._desk, self._watch, sandbox_level)
        self._slice_s = slice_s

    @property
    def state(self) -> RunState:
        return self._desk.state

    async def drive(self) -> str:
        """Returns why it stopped: "ended", "gate:<kind>", "paused", "message", "timer", "turn", "slice", "drain"
        or "lost"."""
        self._watch.drives(asyncio.current_task())
        watching = asyncio.create_task(self._watch.run())
        try:
            return await self._loop()
        except (p.LeaseLost, asyncio.CancelledError) as lost:
            if isinstance(lost, asyncio.CancelledError) and self._watch.lost is None:
                raise
            log.info("run %s is not ours any more: %s", self.state.spec.run_id, self._watch.lost or lost)
            return "lost"
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    async def _loop(self) -> str:
        desk, clock = self._desk, self._desk.ports.clock
        slice_ends, records = clock.now() + self._slice_s, 0
        while True:
            self._take_mail()
            effect = decide(desk.state)
            records = records + 1 if isinstance(effect, e.Record) else 0
            if records > MOST_RECORDS:
                effect = guest.broken(f"the execution loop {desk.state.spec.loop!r} only writes facts and never acts")
            self._watch.expect(type(effect).__name__)
            match effect:
                case e.Rest(why):
                    return self._give_back(why)
                case _ if self._watch.draining():
                    return self._give_back("drain", runnable=True)
                case e.CallModel() if clock.now() > slice_ends:
                    return self._give_back("slice", runnable=True)
            if away := folders.awaited(desk, effect):
                return self._give_back("folder", wake_at=away)
            if parked := self._parked(effect):
                return parked
            with contextlib.suppress(Interrupted):
                await self._perform(effect)

    def _parked(self, effect: e.Effect) -> str:
        """Why the run was given back until a timer rings; "" when it need not wait."""
        desk = self._desk
        match effect:
            case e.Wait(until) if until - desk.now() > LONGEST_NAP_S * 1e6:
                return self._give_back("timer", wake_at=until)
            case e.AwaitModel(until) if not may_go_on(desk, effect):
                return self._give_back("timer", wake_at=until)
            case e.AwaitTurn(model) if desk.ports.turns.take(model):
                return self._give_back("turn", wake_at=desk.now() + int(LOOK_AGAIN_S * 1e6))
        return ""

    def _give_back(self, why: str, *, wake_at: int = 0, runnable: bool = False) -> str:
        self._desk.flush()
        self._desk.ports.journal.release(wake_at=wake_at, runnable=runnable)
        turns = self._desk.ports.turns
        turns.parked() if why == "turn" else turns.leave()
        return why

    def _take_mail(self) -> None:
        """Turn what people asked for into facts, in the order they asked."""
        if not self._watch.mail_waiting:
            return
        self._watch.mail_taken()
        journal = self._desk.ports.journal
        mail = journal.mail()
        asked = self._desk.state.is_ended and self._desk.state.gate is not None
        for item in mail:
            self._desk.note(*facts_of(item, self._desk.state))
        if mail:
            self._desk.flush(journal.read(mail), *self._withdrawn(asked))

    def _withdrawn(self, asked: bool) -> tuple[p.Within, ...]:
        """The question what is to become of an ended run falls away when somebody acted without answering it."""
        state = self._desk.state
        if not asked or state.gate is not None:
            return ()
        return (self._desk.ports.gatekeeper.withdraw(state.spec.run_id, "somebody acted without answering"),)

    async def _perform(self, effect: e.Effect) -> None:  # noqa: C901, PLR0915 - one line for each kind of effect
        desk, watch, calls = self._desk, self._watch, self._calls
        match effect:
            case e.Record(facts):
                desk.note(*facts)
            case e.CallModel():
                await asyncio.sleep(0)  # a model that answers at once must not starve the watch
                await call_model(desk, watch, effect)
            case e.JudgeCall(call):
                await calls.judge(call)
            case e.RunTool():
                await calls.run(effect)
            case e.RecoverTool():
                if question := await calls.recover(effect):
                    await open_gate(desk, calls, question)
            case e.OpenGate():
                await open_gate(desk, calls, effect)
            case e.CheckConfidence():
                await check_confidence(desk, watch, effect)
            case e.ClassifyFailure():
                await classify_failure(desk, watch, effect)
            case e.FindSpecialist(call):
                await find_specialist(desk, calls.context(call), effect)
            case e.PruneContext():
                await prune(desk, watch, effect)
            case e.RunChecks():
                await run_checks(desk, calls, self._watch)
            case e.Wait(until):
                await wait(desk, watch, until)
            case e.AwaitTurn(model):
                desk.note(f.TurnTaken(model=model))
            case e.AwaitModel():
                desk.note(f.ModelAwaitEnded())
            case e.End():
                self._end(effect)
            case e.AskRollback():
                await ask(desk, calls)
            case e.RollBack():
                await roll_back(desk, calls, watch)

    def _end(self, effect: e.End) -> None:
        """The artifact of the terminal state, the last transition and the provenance, in one transaction (A5, N1)."""
        desk, ports = self._desk, self._desk.ports
        came_from = desk.state.phase
        phase = transition(came_from, effect.event)
        body = report(phase, desk.state, effect.reason, effect.detail)
        desk.note(
            f.PhaseEntered(phase=phase, event=effect.event, came_from=came_from),
            f.RunEnded(phase=phase, reason=effect.reason, report=body, report_kind=REPORT_KINDS[phase]),
        )
        within = [ports.gatekeeper.withdraw(desk.state.spec.run_id, effect.reason)]
        if phase is Phase.COMMIT:
            within.append(ports.archive.commit(desk.state, body, desk.state.last_at))
        desk.flush(*within)
