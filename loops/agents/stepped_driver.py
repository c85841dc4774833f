"""The driver of a run that an agent of a package leads, effect by effect, held to what the engine wants (SPEC B6)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from loops.driver import Driver, Interrupted, Ports
from loops.driver.driver import MOST_RECORDS
from loops.engine import effects as e
from loops.engine.context_window.transcript import Transcript
from loops.engine.decide import decide
from loops.engine.state.lifecycle import Event
from loops.engine.state.run import RunState
from loops.engine.strategies import third_party

INSTEAD = (e.CallModel, e.CheckConfidence, e.End)
"""What an agent may do in place of the next question to its model."""


class NotAllowed(Exception):
    """The agent wanted an effect that is not its to choose; the message says which, and what is due."""


class SteppedDriver(Driver):
    """``shared`` says that the worker has other runs: the run is given back for long waits, after its slice of time and
    before the worker ends. ``why`` is why it was given back, "" until then; ``error`` what failed that is not the
    agent's fault."""

    def __init__(
        self, ports: Ports, state: RunState, transcript: Transcript, *, sandbox_level: int, shared: bool
    ) -> None:
        super().__init__(ports, state, transcript, sandbox_level=sandbox_level)
        self.why = ""
        self.error: Exception | None = None
        self._shared, self._records = shared, 0

    @property
    def is_lost(self) -> bool:
        """Does somebody else own the run, or may soon?"""
        return self._interrupts.lost is not None

    def read_mail(self) -> None:
        """Turn what people asked for into facts."""
        if not self.why:
            self._take_mail()

    def rests(self) -> bool:
        """Give the run back where it has to rest; true from then on."""
        if not self.why:
            self._take_mail()
            effect = decide(self.state)
            if self._shared:
                self.why = self._stopped(effect)
            elif isinstance(effect, e.Rest):
                self.why = self._give_back(effect.why)
        return bool(self.why)

    async def perform(self, effect: e.Effect, *, chosen: bool = True) -> None:
        """Perform one effect; what came of it is durable when this returns. Raises NotAllowed for one that an agent
        may not choose (``chosen``): it may replace the next question to the model, and nothing else."""
        if chosen and (fault := self._fault(effect)):
            raise NotAllowed(fault)
        self._interrupts.expect(type(effect).__name__)
        try:
            with contextlib.suppress(Interrupted):
                await self._perform(effect)
            self._session.flush()
        except Exception as error:
            self.error = error
            raise
        self._interrupts.expect("the agent")

    def _fault(self, effect: e.Effect) -> str:
        due = decide(self.state)
        name, wanted = type(effect).__name__, type(due).__name__
        if self.why:
            return f"it wanted {name} after the run was given back ({self.why})"
        self._records = self._records + 1 if isinstance(effect, e.Record) else 0
        if self._records > MOST_RECORDS:
            return "it only writes facts and never acts"
        if effect == due:
            return ""
        if not isinstance(due, e.CallModel) or not isinstance(effect, INSTEAD):
            return f"it wanted {name} where {wanted} is due"
        if isinstance(effect, e.End) and effect.event is Event.QUALITY_GATE_PASS:
            return "only verification says that the criteria are met"
        return ""

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Keep the lease and hear people, as long as this lasts."""
        self._interrupts.drives(asyncio.current_task())
        watching = asyncio.create_task(self._interrupts.run())
        try:
            yield
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    def give_back(self) -> str:
        """Flush, release, and say what the run waits for."""
        if not self.rests():
            match decide(self.state):
                case e.Wait(until):
                    self.why = self._give_back("timer", wake_at=until)
                case _:
                    self.why = self._give_back("agent", runnable=True)
        return self.why

    async def fail(self, detail: str) -> str:
        """End the run because its agent failed, see to what follows an end, and say why it was given back."""
        if not self.why:
            if not self.state.is_ended:
                self._end(third_party.broken(detail))
            self.why = await self.drive()
        return self.why
