"""Perform effects, write facts, obey people: the loop that drives one owned run.

Facts gather in the session and are committed right before the next effect that touches the world, together with its
INTENT: two commits a step, and nothing starts before what led to it is durable (SPEC A4, J1). The driver never decides:
it asks ``decide``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from loops.driver import reviews, workspace
from loops.driver.confidence import check_confidence
from loops.driver.failures import classify_failure
from loops.driver.gates import open_gate
from loops.driver.interrupts import Interrupted, Interrupts
from loops.driver.model_calls import call_model, wait
from loops.driver.outages import may_go_on
from loops.driver.ports import Ports
from loops.driver.pruning import prune
from loops.driver.rollback import ask, roll_back
from loops.driver.session import RunSession
from loops.driver.signals import facts_of
from loops.driver.specialist import find_specialist
from loops.driver.tool_calls import ToolCalls
from loops.driver.verification import run_checks, try_criteria
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.context_window.transcript import Transcript
from loops.engine.decide import decide
from loops.engine.ends.reports import REPORT_KINDS, report
from loops.engine.state.lifecycle import Phase, transition
from loops.engine.state.run import RunState
from loops.engine.strategies import third_party

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
        self._session = RunSession(ports, state, transcript)
        self._interrupts = Interrupts(ports.journal)
        self._calls = ToolCalls(self._session, self._interrupts, sandbox_level)
        self._slice_ends = ports.clock.now() + slice_s

    @property
    def state(self) -> RunState:
        return self._session.state

    async def drive(self) -> str:
        """Returns why it stopped: "ended", "gate:<kind>", "paused", "message", "timer", "turn", "slice", "drain"
        or "lost"."""
        self._interrupts.drives(asyncio.current_task())
        watching = asyncio.create_task(self._interrupts.run())
        try:
            return await self._loop()
        except (p.LeaseLost, asyncio.CancelledError) as lost:
            if isinstance(lost, asyncio.CancelledError) and self._interrupts.lost is None:
                raise
            log.info("run %s is not ours any more: %s", self.state.spec.run_id, self._interrupts.lost or lost)
            return "lost"
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    async def _loop(self) -> str:
        session, records = self._session, 0
        while True:
            self._take_mail()
            effect = decide(session.state)
            records = records + 1 if isinstance(effect, e.Record) else 0
            if records > MOST_RECORDS:
                effect = third_party.broken(
                    f"the execution loop {session.state.spec.loop!r} only writes facts and never acts"
                )
            self._interrupts.expect(type(effect).__name__)
            if why := self._stopped(effect):
                return why
            with contextlib.suppress(Interrupted):
                await self._perform(effect)

    def _stopped(self, effect: e.Effect) -> str:
        """Why the run was given back: it rests, the worker ends, its slice of time is over or it waits; "" to go on."""
        match effect:
            case e.Rest(why):
                return self._give_back(why)
            case _ if self._interrupts.draining():
                return self._give_back("drain", runnable=True)
            case e.CallModel() if self._session.ports.clock.now() > self._slice_ends:
                return self._give_back("slice", runnable=True)
        if away := workspace.awaited(self._session, effect):
            return self._give_back("folder", wake_at=away)
        return self._parked(effect)

    def _parked(self, effect: e.Effect) -> str:
        """Why the run was given back until a timer rings; "" when it need not wait."""
        session = self._session
        match effect:
            case e.Wait(until) if until - session.now() > LONGEST_NAP_S * 1e6:
                return self._give_back("timer", wake_at=until)
            case e.AwaitModel(until) if not may_go_on(session, effect):
                return self._give_back("timer", wake_at=until)
            case e.AwaitTurn(model) if session.ports.turns.take(model):
                return self._give_back("turn", wake_at=session.now() + int(LOOK_AGAIN_S * 1e6))
        return ""

    def _give_back(self, why: str, *, wake_at: int = 0, runnable: bool = False) -> str:
        self._session.flush()
        self._session.ports.journal.release(wake_at=wake_at, runnable=runnable)
        turns = self._session.ports.turns
        turns.parked() if why == "turn" else turns.leave()
        return why

    def _take_mail(self) -> None:
        """Turn what people asked for into facts, in the order they asked."""
        if not self._interrupts.mail_waiting:
            return
        self._interrupts.mail_taken()
        journal = self._session.ports.journal
        mail = journal.mail()
        asked = self._session.state.is_ended and self._session.state.gate is not None
        for item in mail:
            self._session.note(*facts_of(item, self._session.state))
        if mail:
            self._session.flush(journal.read(mail), *self._withdrawn(asked))

    def _withdrawn(self, asked: bool) -> tuple[p.Within, ...]:
        """The question what is to become of an ended run falls away when somebody acted without answering it."""
        state = self._session.state
        if not asked or state.gate is not None:
            return ()
        return (self._session.ports.gatekeeper.withdraw(state.spec.run_id, "somebody acted without answering"),)

    async def _perform(self, effect: e.Effect) -> None:  # noqa: C901, PLR0915 - one line for each kind of effect
        session, interrupts, calls = self._session, self._interrupts, self._calls
        match effect:
            case e.Record(facts):
                session.note(*facts)
            case e.CallModel():
                await asyncio.sleep(0)  # a model that answers at once must not starve the watch
                await call_model(session, interrupts, effect)
            case e.JudgeCall(call):
                await calls.judge(call)
            case e.RunTool():
                await calls.run(effect)
            case e.RecoverTool():
                if question := await calls.recover(effect):
                    await open_gate(session, calls, question)
            case e.OpenGate():
                await open_gate(session, calls, effect)
            case e.CheckConfidence():
                await check_confidence(session, interrupts, effect)
            case e.ClassifyFailure():
                await classify_failure(session, interrupts, effect)
            case e.FindSpecialist(call):
                await find_specialist(session, calls.context(call), effect)
            case e.PruneContext():
                await prune(session, interrupts, effect)
            case e.RunChecks():
                if question := await run_checks(session, calls, interrupts):
                    await open_gate(session, calls, question)
            case e.TryCriteria():
                await try_criteria(session, calls)
            case e.Wait(until):
                await wait(session, interrupts, until)
            case e.AwaitTurn(model):
                session.note(f.TurnTaken(model=model))
            case e.AwaitModel():
                session.note(f.ModelAwaitEnded())
            case e.End():
                self._end(effect)
            case e.AskRollback():
                await ask(session, calls)
            case e.RollBack():
                await roll_back(session, calls, interrupts)

    def _end(self, effect: e.End) -> None:
        """The artifact of the terminal state, the last transition and the provenance, in one transaction (A5, N1)."""
        session, ports = self._session, self._session.ports
        came_from = session.state.phase
        phase = transition(came_from, effect.event)
        workspace = reviews.stands(session, self._calls)
        body = report(phase, session.state, effect.reason, effect.detail) | reviews.reported(session, workspace)
        session.note(
            f.PhaseEntered(phase=phase, event=effect.event, came_from=came_from),
            f.RunEnded(
                phase=phase,
                reason=effect.reason,
                report=body,
                report_kind=REPORT_KINDS[phase],
                evidence=str(body.get("evidence", "")),
            ),
        )
        within = [ports.gatekeeper.withdraw(session.state.spec.run_id, effect.reason)]
        if phase is Phase.COMMIT:
            within.append(ports.archive.commit(session.state, body, session.state.last_at))
        if effect.gate:  # as with a call: what was accepted is described afresh, and commits that, or nothing
            subject = reviews.subject(session, effect.subject, workspace)
            within.insert(0, ports.gatekeeper.consume(effect.gate, subject))
        try:
            session.flush(*within)
        except p.ApprovalVoid as void:
            session.take_back(facts=2)
            session.note(f.ApprovalVoided(call_id="", gate=effect.gate, reason=str(void)))
