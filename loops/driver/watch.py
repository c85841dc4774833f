"""Beside the effects: look for mail, keep the lease, and cancel what is being performed when a person says so."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from loops.engine import ports as p

T = TypeVar("T")

LOOK_EVERY_S = 0.2
"""How often the mailbox is looked at while something is performed: a stop is obeyed well within a second (SPEC K1)."""
RENEW_EVERY_S = 5.0
STOP = frozenset({"stop"})
STOP_OR_PAUSE = frozenset({"stop", "pause"})


class Interrupted(Exception):
    """A person wants the run to stop or pause: what was being performed was cancelled. ``kinds`` says which."""

    def __init__(self, kinds: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(kinds)))
        self.kinds = kinds


class Watch:
    """One for each driver. The work runs in the driver's own task and the watch cancels that task: a task of its own
    for every call would cost more than all the rest of a step."""

    def __init__(self, journal: p.Journal, clock: p.Clock) -> None:
        self.mail_waiting = True
        self._journal, self._clock = journal, clock
        self._kinds: frozenset[str] = frozenset()
        self._heeds: frozenset[str] = frozenset()
        self._performing: asyncio.Task[Any] | None = None
        self._lost: Exception | None = None

    async def run(self) -> None:
        """Until the lease is lost. A database that does not answer is the same: stop before the lease runs out."""
        renewed = self._clock.now()
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                self._kinds = self._journal.mail_kinds()
                if self._clock.now() - renewed > RENEW_EVERY_S:
                    self._journal.renew()
                    renewed = self._clock.now()
            except Exception as error:
                self._lost = error
                self._cancel()
                return
            self.mail_waiting = self.mail_waiting or bool(self._kinds)
            if self._kinds & self._heeds:
                self._cancel()

    def mail_taken(self) -> None:
        self.mail_waiting, self._kinds = False, frozenset()

    async def interruptible(self, work: Coroutine[Any, Any, T], heeds: frozenset[str] = STOP_OR_PAUSE) -> T:
        """Await ``work``; mail of the kinds in ``heeds`` cancels it and raises Interrupted, a lost lease LeaseLost."""
        if self._lost is not None or self._kinds & heeds:
            work.close()
            raise self._reason(heeds)
        self._performing, self._heeds = asyncio.current_task(), heeds
        try:
            return await work
        except asyncio.CancelledError:
            if self._lost is None and not self._kinds & heeds:
                raise
            if self._performing is not None:
                self._performing.uncancel()
            raise self._reason(heeds) from None
        finally:
            self._performing, self._heeds = None, frozenset()

    def _cancel(self) -> None:
        """Once: a second time would cut short what the work does to clean up."""
        if self._performing is not None and not self._performing.cancelling():
            self._performing.cancel()

    def _reason(self, heeds: frozenset[str]) -> Exception:
        return p.LeaseLost(str(self._lost)) if self._lost is not None else Interrupted(self._kinds & heeds)
